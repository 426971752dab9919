"""How long a node takes before it is ready.

Every law is a `Delay`: it knows how likely a node is late, by when it is ready, and how long one waits for
it on average. A delay may be infinite: a dead node never answers. There are closed forms (`Exponential`,
`Gamma`, `Lomax`, `Never`), laws made of others (`Shifted`, `Mixture`), measured durations (`Empirical`) and
any law of scipy (`ScipyDelay`); `parse_delay` reads each of them from one line of text.

Only numpy and `scipy.special` are imported with this package: `scipy.stats` takes longer to load than most
plans take to compute, so it waits until asked for.
"""

from __future__ import annotations

from .base import Delay
from .closed_form import Exponential, Gamma, Lomax, Never
from .composed import Mixture, Shifted
from .empirical import Empirical
from .from_scipy import ScipyDelay
from .spelling import parse_delay, register_delay

__all__ = [
    "Delay",
    "Empirical",
    "Exponential",
    "Gamma",
    "Lomax",
    "Mixture",
    "Never",
    "ScipyDelay",
    "Shifted",
    "parse_delay",
    "register_delay",
]
