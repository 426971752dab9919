"""What ssh is called with to reach a relay: made here, from values that were checked, and from no file of settings.

A node's folder comes from the person who prepared the network, and an ssh_config can run commands (ProxyCommand, Match
exec). So ssh reads none, neither the folder's nor the user's. The one command that it may run is the owner's own.
"""

from __future__ import annotations

from ..transport import Roster
from .config import NodeRelay

#: The folder of a node's files for the relay in its own, and the relay's own folder in that of a network.
RELAY = "relay"
#: The node's key for the relay.
NODE_KEY = "ssh.key"
#: The relay is known by its key under this name, wherever it is.
RELAY_ALIAS = "skipring-relay"
_THERE = "127.0.0.1"  # the relay's ports for nodes: nobody else can reach them


def forwards(roster: Roster, me: int, local: str, listen: str) -> list[str]:
    """Return what goes through a node's tunnel: to its own port at the relay, and from ports here to the others'."""
    own = roster.ports[me]
    lines = [f"RemoteForward={_THERE}:{own} {listen}"]
    others = (port for node, port in enumerate(roster.ports) if node != me)
    return lines + [f"LocalForward={local}:{port} {_THERE}:{port}" for port in others]


def ssh_words(relay: NodeRelay, through: list[str], proxy_command: str | None = None) -> tuple[list[str], str]:
    """Return ssh's options, for a process in the folder of the node's key, and the host that comes after `--`.

    `through` is what is forwarded. Of an option that is given twice the first counts.
    """
    options = [
        *(f"Port={relay.port}", f"User={relay.user}"),
        # The relay is known by its key alone, whatever its name and address are.
        *(f"HostKeyAlias={RELAY_ALIAS}", "UserKnownHostsFile=known_hosts", "GlobalKnownHostsFile=none"),
        *("StrictHostKeyChecking=yes", "UpdateHostKeys=no", "CheckHostIP=no"),
        *(f"IdentityFile={NODE_KEY}", "IdentitiesOnly=yes", "IdentityAgent=none"),
        *("PreferredAuthentications=publickey", "BatchMode=yes"),
        # Notice within 15 seconds that the way is gone, and end if a port is not lent: the node then tries again.
        *("ServerAliveInterval=5", "ServerAliveCountMax=3", "ConnectTimeout=10", "ExitOnForwardFailure=yes"),
        *through,
        *([] if proxy_command is None else [f"ProxyCommand={proxy_command}"]),
    ]
    return ["-F", "none", "-T", *(word for option in options for word in ("-o", option))], relay.host
