"""A relay for nodes that nobody can call: what its administrator starts, and what each node reaches it with.

Each node holds one outgoing ssh connection to the relay. On it, the relay lends the node one port of its own loopback,
which leads back to where the node listens. And the node gets one port on its own loopback for each other node, which
leads to the port that the relay has lent to that one. What goes through is the nodes' own TLS.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import InvalidInput
from ..node import IS_USER, RELAY_ALIAS
from ..transport import Address, Roster, within

#: The relay's own key, which nobody else may read.
HOST_KEY = "ssh_host_ed25519_key"
_THERE = "127.0.0.1"  # the relay's ports for nodes: nobody else can reach them


@dataclass(frozen=True)
class Via:
    """Where the relay is, and the account that its sshd runs as."""

    host: str
    port: int = 2222
    user: str = "skipring-relay"

    def __str__(self) -> str:
        return f"{self.user}@{Address(self.host, self.port)}"


def parse_via(text: str) -> Via:
    """Read where a relay is: [USER@]HOST[:PORT].

    >>> parse_via("relay.example.org:443")
    Via(host='relay.example.org', port=443, user='skipring-relay')
    >>> str(parse_via("me@[2001:db8::1]"))
    'me@[2001:db8::1]:2222'
    """
    user, mark, where = text.rpartition("@")
    if mark and IS_USER.fullmatch(user) is None:
        raise InvalidInput.because("via", text, f"{user or '(empty)'} is not the name of an account")
    # An address without a port ends with a letter, a digit, or the bracket of IPv6.
    with_port = where if re.search(r":[0-9]+\Z", where) else f"{where}:{Via.port}"
    with within("via", text):
        try:
            address = Address.parse(with_port)
        except InvalidInput as problem:
            if problem.parameter != "address":
                raise
            allowed = "of the form HOST or HOST:PORT, with brackets around an IPv6 address"
            raise InvalidInput("address", text, allowed) from None
    return Via(address.host, address.port, user or Via.user)


def relay_addresses(nodes: int, port: int, via: Via) -> tuple[Address, ...]:
    """Return where nodes are reached at the relay: from `port` on, one port each."""
    if not 1 <= port <= 65536 - nodes:
        raise InvalidInput("port", port, f"from 1 to {65536 - nodes}: each of {nodes} nodes gets one port at the relay")
    if port <= via.port < port + nodes:
        taken = f"the relay itself listens on {via.port}, and its ports {port} to {port + nodes - 1} are the nodes'"
        raise InvalidInput.because("port", port, taken)
    return tuple(Address(_THERE, port + node) for node in range(nodes))


def node_host(node: int) -> str:
    """Return a loopback address for one node: with one of its own, several may try a relay on one machine."""
    return f"127.1.{node // 250}.{node % 250 + 1}"


def node_relay_files(host_key: str) -> dict[str, bytes]:
    """Return what a node knows the relay by; where it is stands in the node's settings."""
    return {"known_hosts": f"{RELAY_ALIAS} {host_key}\n".encode()}


def relay_files(via: Via, roster: Roster, node_keys: Sequence[str]) -> dict[str, bytes]:
    """Return what the relay is started with, without its key; there is no node's key in it."""
    return {
        "sshd_config": _text(_sshd_config(via)),
        "authorized_keys": _text([allowed_line(roster, node, key) for node, key in enumerate(node_keys)]),
        "start": _START.encode(),
        "skipring-relay.service": service_text(via.user).encode(),
        "README": _readme(via, roster).encode(),
    }


def allowed_line(roster: Roster, node: int, key: str) -> str:
    """Return what the relay lets one node do: have its own port, call those of the others, and nothing else."""
    ports = list(roster.ports)
    may = [f'permitlisten="{_THERE}:{ports[node]}"']
    may += [f'permitopen="{_THERE}:{port}"' for port in ports if port != ports[node]]
    return f"restrict,port-forwarding,{','.join(may)} {key} {roster.names[node]}"


def _text(lines: Sequence[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode()


def _sshd_config(via: Via) -> list[str]:
    return [
        "# The relay of a skipring network: an sshd of its own, which passes connections of the nodes on and does",
        "# nothing else. ./start adds where its key and authorized_keys are. It needs no root, unless the port is",
        "# below 1024.",
        f"Port {via.port}",
        "PidFile none",
        "UsePAM no",
        "UseDNS no",
        "LogLevel VERBOSE",
        "",
        "# Nodes have keys; nobody has a password.",
        f"AllowUsers {via.user}",
        "AuthenticationMethods publickey",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "LoginGraceTime 20",
        "# All nodes come back at once after a restart.",
        "MaxStartups 200:30:1000",
        "",
        "# No shell, no command, no files. Ports on the loopback of this machine alone, and of these only what",
        "# authorized_keys gives to each node. A session does nothing and is over at once; but once there was one,",
        "# sshd sends small packets without delay.",
        "MaxSessions 1",
        "ForceCommand /bin/false",
        "PermitTTY no",
        "PermitUserRC no",
        "AllowTcpForwarding yes",
        "GatewayPorts no",
        "AllowStreamLocalForwarding no",
        "AllowAgentForwarding no",
        "X11Forwarding no",
        "PermitTunnel no",
        "",
        "# A node whose way has broken is let go. (If it comes back before that, ./start ends its old connection.)",
        "ClientAliveInterval 5",
        "ClientAliveCountMax 3",
    ]


_START = """\
#!/bin/sh
# Start the relay in the foreground; its log is standard error. What is given is passed on to sshd:
#   ./start -o ListenAddress=192.0.2.1
here=$(cd "$(dirname "$0")" && pwd) || exit 1
PATH=$PATH:/usr/sbin:/usr/local/sbin:/sbin
sshd=$(command -v sshd) || { echo "sshd is not installed; on Debian: apt install openssh-server" >&2; exit 1; }
cr=$(printf '\\r')

# A node has one connection. If it asks for its port, and an older connection has that, then the older one is dead, and
# is ended. sshd itself may not notice for minutes: it asks whether a node is still there only while nothing else
# happens, and the other nodes keep calling. (sshd says this after it has made sure that the port is that node's.)
free_port() {
    end=$(printf ':%04X' "$1")
    inode=$(awk -v end="$end" '$4 == "0A" && substr($2, 9) == end { print $10; exit }' /proc/net/tcp)
    pid=$(ls -l /proc/[0-9]*/fd 2>/dev/null | awk -v is="socket:[$inode]" -F '[/ ]' '
        /^\\/proc/ { pid = $3 } $NF == is { print pid; exit }')
    if grep -qs '^sshd' "/proc/$pid/comm" && kill "$pid"; then
        echo "ended an older connection, process $pid, that had port $1" >&2
    fi
}

log=$(mktemp -d) && mkfifo "$log/fifo" || exit 1
"$sshd" -D -e -f "$here/sshd_config" -h "$here/ssh_host_ed25519_key" \\
    -o "AuthorizedKeysFile=\\"$here/authorized_keys\\"" "$@" 2>"$log/fifo" &
listener=$!
trap 'kill $listener 2>/dev/null' EXIT
trap 'exit 0' HUP INT TERM
exec 3<"$log/fifo" 4>"$log/fifo"
rm -r "$log"
{ while kill -0 $listener 2>/dev/null; do sleep 1; done; echo "sshd has ended"; } >&4 2>/dev/null 3<&- &
exec 4>&-
while IFS= read -r line <&3; do
    line=${line%"$cr"}
    printf '%s\\n' "$line" >&2
    case $line in
        channel_setup_fwd_listener*"cannot listen to port: "*) free_port "${line##*: }" ;;
        "sshd has ended") exit 1 ;;
    esac
done
"""


def service_text(user: str) -> str:
    """Return the relay as a service of systemd."""
    return f"""\
# The relay of a skipring network: passes ciphertext on between nodes that nobody can call. docs/deploy.md says how to
# install it. It runs as a user of its own, without root.

[Unit]
Description=skipring relay
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=exec
User={user}
Group={user}
ExecStart=/var/lib/skipring-relay/relay/start
Restart=always
RestartSec=5
# Port 443, which most firewalls let out, is below 1024.
AmbientCapabilities=CAP_NET_BIND_SERVICE
CapabilityBoundingSet=CAP_NET_BIND_SERVICE

ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
UMask=0077
LimitCORE=0
NoNewPrivileges=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target
"""


def _readme(via: Via, roster: Roster) -> str:
    ports = list(roster.ports)
    return f"""\
The relay of a skipring network of {len(roster)} nodes: an OpenSSH server of its own (7.8 or newer; Debian:
openssh-server), which passes their connections on. It needs neither root nor skipring.

Let TCP port {via.port} in, and nothing else; nodes reach it as {via.host}.
Ports {min(ports)} to {max(ports)} are used on the loopback of this machine alone.

As a user {via.user}, here: ./start

As a service:
  useradd --system --user-group --home-dir /var/lib/skipring-relay --shell /usr/sbin/nologin --password '*' {via.user}
  install -d -o {via.user} -g {via.user} -m 0700 /var/lib/skipring-relay
  tar xzf relay.tar.gz --no-same-owner -C /var/lib/skipring-relay
  chown -R {via.user}:{via.user} /var/lib/skipring-relay/relay
  cp /var/lib/skipring-relay/relay/skipring-relay.service /etc/systemd/system/
  systemctl daemon-reload
  systemctl enable --now skipring-relay

What goes through is TLS between the nodes. The relay's administrator sees when which node says how much to which other,
and can cut or delay it, but cannot read it, change it, or speak as a node. ssh_host_ed25519_key proves to the nodes
that this is their relay: nobody else may have it. To move the relay, take this folder along; to shut a node out, delete
its line in authorized_keys and start the relay again.
"""
