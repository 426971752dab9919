"""How long a node takes before it is ready.

Every law is a `Delay`: it knows how likely a node is late, by when it is ready, and how long one waits for
it on average. A delay may be infinite: a dead node never answers. There are closed forms (`Constant`,
`Exponential`, `Gamma`, `Lomax`, `Never`), laws made of others (`Shifted`, `Mixture`), measured durations (`Empirical`;
`Trace`, node by node) and any law of scipy (`ScipyDelay`); `parse_delay` reads each of them from one line of text.
`PairLatency` and `Availability` are traces of links, and of who could be reached.

Only numpy and `scipy.special` are imported with this package: `scipy.stats` takes longer to load than most
plans take to compute, so it waits until asked for.
"""

from __future__ import annotations

from .base import Delay
from .closed_form import Constant, Exponential, Gamma, Lomax, Never
from .composed import Mixture, Shifted
from .empirical import Empirical
from .from_scipy import ScipyDelay
from .spelling import parse_delay, register_delay
from .traces import Availability, PairLatency, Trace

__all__ = [
    "Availability",
    "Constant",
    "Delay",
    "Empirical",
    "Exponential",
    "Gamma",
    "Lomax",
    "Mixture",
    "Never",
    "PairLatency",
    "ScipyDelay",
    "Shifted",
    "Trace",
    "parse_delay",
    "register_delay",
]
