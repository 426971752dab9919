"""Sites that let nothing in: each a namespace behind a router of its own (NAT), and a relay out in the world.

A router lets one TCP port out, drops whatever comes in, and hides the site behind its own address. All sites have the
same address inside.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from test_namespaces import namespaces, remove, remove_leftovers, run, why_no_namespaces

#: What the relay is called and listens on; the one thing that sites may reach.
RELAY, PORT = "relay.test", 443
INSIDE = "192.168.1.2"

_RULES = f"""
table ip nat {{
    chain out {{ type nat hook postrouting priority 100; oifname "eth0" masquerade; }}
}}
table ip filter {{
    chain input {{ type filter hook input priority 0; policy drop; ct state established accept; }}
    chain forward {{
        type filter hook forward priority 0; policy drop;
        iifname "inside" tcp dport {PORT} accept;
        iifname "eth0" ct state established accept;
    }}
}}
"""
_numbers = itertools.count()


def why_no_sites() -> str:
    """Say why this machine cannot have sites behind routers; nothing if it can."""
    reason = why_no_namespaces()
    if not reason and shutil.which("nft", path=f"{os.environ['PATH']}:/usr/sbin") is None:
        reason = "routers need nft (Debian: nftables)"
    return reason


class Sites:
    """Namespaces: `sites` of them, each with its gate, the relay, and a hub that they are all plugged into."""

    def __init__(self, sites: int) -> None:
        self._label = f"skipring-{os.getpid()}-{100 + next(_numbers)}"
        self.sites = sites
        self._relay_at = 1
        self._gates_at = [0] * sites

    def name(self, what: str, number: int | str = "") -> str:
        """Return a namespace: hub, relay, or the gate or site of a number."""
        return f"{self._label}-{what}{number}"

    def prefix(self, node: str) -> list[str]:
        """Return what runs a node's command at its site; nodes are node1 and so on."""
        return self.at("site", int(node.removeprefix("node")) - 1)

    def at(self, what: str, number: int | str = "") -> list[str]:
        """Return what runs a command in a namespace."""
        return ["ip", "netns", "exec", self.name(what, number)]

    @property
    def relay_host(self) -> str:
        """Where the relay is at present."""
        return f"10.78.0.{self._relay_at}"

    def gate_host(self, site: int) -> str:
        """Return what the world sees of a site at present."""
        return f"10.78.{1 + self._gates_at[site]}.{site + 1}"

    def __enter__(self) -> Sites:
        remove_leftovers()
        try:
            self._add("hub")
            run("ip", "-n", self.name("hub"), "link", "add", "world", "type", "bridge")
            run("ip", "-n", self.name("hub"), "link", "set", "world", "up")
            self._add("relay")
            self._plug("relay", "", "eth0", self.name("hub"), "relay")
            self._in_hub("relay")
            run("ip", "-n", self.name("relay"), "address", "add", f"{self.relay_host}/16", "dev", "eth0")
            self._set("relay", "", "ip_unprivileged_port_start", 0)  # its port is 443, and it has no rights
            for site in range(self.sites):
                self._add_site(site)
            self._tell_sites()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        remove(name for name in namespaces() if name.startswith(f"{self._label}-"))

    def _add(self, what: str, number: int | str = "") -> None:
        run("ip", "netns", "add", self.name(what, number))
        run("ip", "-n", self.name(what, number), "link", "set", "lo", "up")

    def _plug(self, what: str, number: int | str, card: str, other: str, end: str) -> None:
        name = self.name(what, number)
        run("ip", "-n", name, "link", "add", card, "type", "veth", "peer", "name", end, "netns", other)
        run("ip", "-n", name, "link", "set", card, "up")
        run("ip", "-n", other, "link", "set", end, "up")

    def _in_hub(self, port: str) -> None:
        run("ip", "-n", self.name("hub"), "link", "set", port, "master", "world")

    def _set(self, what: str, number: int | str, key: str, value: int) -> None:
        run(*self.at(what, number), "sh", "-c", f"echo {value} > /proc/sys/net/ipv4/{key}")

    def _add_site(self, site: int) -> None:
        for what in ("gate", "site"):
            self._add(what, site)
        gate = self.name("gate", site)
        self._plug("gate", site, "eth0", self.name("hub"), f"port{site}")
        self._in_hub(f"port{site}")
        run("ip", "-n", gate, "address", "add", f"{self.gate_host(site)}/16", "dev", "eth0")
        self._plug("site", site, "eth0", gate, "inside")
        run("ip", "-n", gate, "address", "add", "192.168.1.1/24", "dev", "inside")
        run("ip", "-n", self.name("site", site), "address", "add", f"{INSIDE}/24", "dev", "eth0")
        run("ip", "-n", self.name("site", site), "route", "add", "default", "via", "192.168.1.1")
        self._set("gate", site, "ip_forward", 1)
        nft = shutil.which("nft", path=f"{os.environ['PATH']}:/usr/sbin") or "nft"
        subprocess.run([*self.at("gate", site), nft, "-f", "-"], input=_RULES, text=True, check=True)

    def _tell_sites(self) -> None:
        """Let sites know the relay by its name, as DNS would; in place, since the file is mounted."""
        for site in range(self.sites):
            folder = Path("/etc/netns") / self.name("site", site)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "hosts").write_text(f"127.0.0.1 localhost\n{self.relay_host} {RELAY}\n")

    # What happens.

    def move_relay(self) -> None:
        """Give the relay another address, and let its name lead there."""
        name, before = self.name("relay"), self.relay_host
        self._relay_at += 1
        run("ip", "-n", name, "address", "delete", f"{before}/16", "dev", "eth0")
        run("ip", "-n", name, "address", "add", f"{self.relay_host}/16", "dev", "eth0")
        self._tell_sites()

    def move_site(self, site: int) -> None:
        """Give a site another uplink: the world sees another address, and the router forgets all connections."""
        name, before = self.name("gate", site), self.gate_host(site)
        self._gates_at[site] += 1
        run("ip", "-n", name, "address", "delete", f"{before}/16", "dev", "eth0")
        run("ip", "-n", name, "link", "set", "eth0", "down")
        run("ip", "-n", name, "address", "add", f"{self.gate_host(site)}/16", "dev", "eth0")
        run("ip", "-n", name, "link", "set", "eth0", "up")

    def cut(self, *sites: int) -> None:
        """Take uplinks down: nothing goes out, and nobody is told."""
        for site in sites:
            run("ip", "-n", self.name("hub"), "link", "set", f"port{site}", "down")

    def heal(self, *sites: int) -> None:
        """Take uplinks up again."""
        for site in sites:
            run("ip", "-n", self.name("hub"), "link", "set", f"port{site}", "up")

    def can_connect(self, words: Sequence[str], host: str, port: int) -> bool:
        """Say whether a connection can be made from somewhere."""
        program = f"import socket; socket.create_connection(({host!r}, {port}), 2.0)"
        done = subprocess.run([*words, sys.executable, "-c", program], capture_output=True, check=False)
        return done.returncode == 0
