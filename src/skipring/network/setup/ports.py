"""Ports of nodes that may be on one machine: each has its own for metrics, and two that share one are found."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

from ...errors import InvalidInput
from ..node import NodeConfig, read_node_config
from ..transport import Address, Roster

#: Metrics are so far above the port that a node listens on.
_ABOVE = 1000
_LAST = 65535


def metrics_ports(addresses: Mapping[str, Address | None], given: Mapping[str, int] | None = None) -> dict[str, int]:
    """Return the port of each node's metrics: a thousand above its own, or the next that nobody beside it uses.

    Nodes at one host are on one machine. One that nobody can call may be on that of any other, and has the next after
    theirs. `given` are the ports of nodes that have theirs already.

    >>> metrics_ports({"a": Address("h", 7600), "b": Address("h", 8600), "c": None, "d": Address("i", 7600)})
    {'a': 8601, 'b': 9600, 'd': 8600, 'c': 9601}
    """
    found = dict(given or {})
    # Those that listen come first: theirs follow from their addresses.
    for name in sorted((name for name in addresses if name not in found), key=lambda name: addresses[name] is None):
        own = addresses[name]
        beside = [one for one, other in addresses.items() if own is None or other is None or _host(own) == _host(other)]
        used = {found[one] for one in beside if one in found}
        used |= {other.port for one in beside if (other := addresses[one]) is not None}
        port = max(other.port for other in addresses.values() if other is not None) if own is None else own.port
        first = port + _ABOVE if port + _ABOVE <= _LAST else port - _ABOVE
        found[name] = next(one for one in (*range(first, _LAST + 1), *range(first - 1, 0, -1)) if one not in used)
    return found


def shared_ports(folder: Path, roster: Roster) -> dict[str, list[str]]:
    """Return what is wrong with the ports of nodes of a folder that are on one machine, by the name of the later one.

    They are if the roster has one host for them. One that nobody can call is on this machine if another has an address
    that only this machine can reach. Where nodes meet at a relay, nobody knows where they are.
    """
    problems: dict[str, list[str]] = {}
    for one, other in combinations(_settings(folder, roster), 2):
        if not _together(*(roster.addresses[roster.index(config.name)] for config in (one, other))):
            continue
        for what, here in _listened(other):
            for its, there in _listened(one):
                if _overlap(here, there):
                    reason = f"{what} {here} is in use by {one.name} ({its} {there}): on one machine each needs its own"
                    problems.setdefault(other.name, []).append(reason)
    return problems


def _settings(folder: Path, roster: Roster) -> list[NodeConfig]:
    """Return the settings of nodes without a relay, as far as they can be read; of the others it is said elsewhere."""
    found = []
    for name in roster.names:
        with contextlib.suppress(InvalidInput):
            config = read_node_config(folder / name / "node.toml")
            found += [config] if config.name == name and config.relay is None else []
    return found


def _host(address: Address) -> str:
    return "127.0.0.1" if address.is_loopback else address.host.lower()


def _together(one: Address | None, other: Address | None) -> bool:
    if one is None or other is None:
        return any(address is not None and address.is_loopback for address in (one, other))
    return _host(one) == _host(other)


def _listened(config: NodeConfig) -> list[tuple[str, str]]:
    given = (("listen", config.listen), ("metrics", config.metrics))
    return [(what, where) for what, where in given if where is not None]


def _overlap(one: str, other: str) -> bool:
    """Say whether two addresses cannot both be listened on; a host may stand for all that the machine has."""
    (host, _, port), (beside, _, same) = (
        where.lower().replace("localhost", "127.0.0.1").rpartition(":") for where in (one, other)
    )
    return port == same and (host == beside or {"0.0.0.0", "[::]"} & {host, beside} != set())
