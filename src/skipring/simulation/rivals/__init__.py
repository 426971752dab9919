"""The rivals of the token: gossip between neighbours (Muffliato-SGD), and a server that averages (FedL-SGD).

`Gossip` and `Federated` say how an iteration goes and how long it takes. `random_graph` draws a graph of neighbours,
`access_slots` simulates how long neighbours need until everyone has heard everyone, and `best_access` finds how often
they should speak.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .kinds import Federated, Gossip

if TYPE_CHECKING:
    from .graphs import access_slots, best_access, gossip_graphs, random_graph

__all__ = ["Federated", "Gossip", "access_slots", "best_access", "gossip_graphs", "random_graph"]


def __getattr__(name: str) -> Any:
    """Load compiled code when it is first used: a run file that needs none must not wait for numba."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import graphs

    return getattr(graphs, name)


def __dir__() -> list[str]:
    """Show the names that are loaded when they are first used, too."""
    return sorted(__all__)
