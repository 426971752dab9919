"""How long a node takes before it is ready.

Every law is a `Delay`: it knows how likely a node is late, by when it is ready, and how long one waits for
it on average. A delay may be infinite: a dead node never answers. There are closed forms (`Constant`,
`Exponential`, `Gamma`, `Lomax`, `Never`), laws made of others (`Shifted`, `Mixture`), measured durations (`Empirical`;
`Trace`, node by node) and any continuous law of scipy (`ScipyDelay`). `parse_delay` reads each of them from one line of
text.
`PairLatency` and `Availability` are traces of links, and of who could be reached.

Only numpy and `scipy.special` are imported with this package: `scipy.stats` takes longer to load than most
plans take to compute, so it waits until asked for.
"""

from __future__ import annotations

from .base import Delay as Delay
from .closed_form import Constant as Constant
from .closed_form import Exponential as Exponential
from .closed_form import Gamma as Gamma
from .closed_form import Lomax as Lomax
from .closed_form import Never as Never
from .composed import Mixture as Mixture
from .composed import Shifted as Shifted
from .empirical import Empirical as Empirical
from .from_scipy import ScipyDelay as ScipyDelay
from .spelling import parse_delay as parse_delay
from .spelling import register_delay as register_delay
from .traces import Availability as Availability
from .traces import PairLatency as PairLatency
from .traces import Trace as Trace
