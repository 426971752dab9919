"""The rivals of the token: gossip between neighbours (Muffliato-SGD), and a server that averages (FedL-SGD).

`schedules.Gossip` and `schedules.Federated` say how an iteration goes. `random_graph` draws a graph of neighbours,
`access_slots` simulates how long neighbours need until everyone has heard everyone, and `best_access` finds how often
they should speak.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._lazy import lazily

if TYPE_CHECKING:
    from ._kernel import random_graph as random_graph
    from .graphs import access_slots as access_slots
    from .graphs import best_access as best_access
    from .graphs import gossip_graphs as gossip_graphs

__getattr__, __dir__ = lazily(__name__, __file__)
