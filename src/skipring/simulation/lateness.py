"""Three kinds of lateness in virtual time: not ready, ready but slow to compute, and out of reach.

`fresh` is the paper's node: it prepares when it is offered the token, and a skip throws the preparation away. With
`kept` a skipped node goes on preparing, and with `ahead` it prepares its next turn right after an update. The timeout
covers waiting and computing. Nothing in here looks at rows: who updates, and on how many rows, is a function of time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._arrays import AnyInts, Floats, times_before
from ..delays import Availability, Delay, PairLatency
from ..errors import InvalidInput
from ..runs import Late, Ready
from .stragglers import Drawn

#: Where the rows of a shortened update begin: multiples of the golden ratio visit all places evenly.
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


@dataclass(frozen=True, kw_only=True)
class Lateness:
    """What becomes of a node's preparation, how long it computes, and what traces say of links and reachability.

    Parameters
    ----------
    ready : ``fresh``, ``kept`` or ``ahead``; see above.
    compute : how long a full batch takes, once a node has the token; None: no time.
    late : what a node does that cannot finish within the timeout: ``skip`` passes the token on unchanged at the
        deadline. ``decline`` does so, too, and from then on says at once that it would be late, or is busy; at times it
        tries again. ``fewer-rows`` computes on as many rows as fit.
    latency : how long a hop takes between each two nodes; None: always the same.
    availability : when each node can be reached; None: always.
    """

    ready: Ready = "fresh"
    compute: Delay | None = None
    late: Late = "skip"
    latency: PairLatency | None = None
    availability: Availability | None = None

    @property
    def usual(self) -> bool:
        """Whether nothing is beyond delays that are drawn anew at each turn."""
        return self == Lateness(late=self.late)

    def check(self, delay: Delay) -> None:
        """Refuse what would make a node unready, or busy, for ever."""
        if self.ready != "fresh" and delay.mass_at_infinity > 0.0:
            reason = f"with {delay}, a node that is never ready would never be again; say stragglers.die and revive"
            raise InvalidInput.because("ready", self.ready, reason)
        if self.compute is not None and self.compute.mass_at_infinity > 0.0:
            raise InvalidInput.because("compute", self.compute, "a node's computation must end")


class Timeline(NamedTuple):
    """What happens at each hop: whether its node updates or passes the token on unchanged, and when the hop ends.

    `share` is how much of a full batch fits; 1 where all of it does.
    """

    updated: NDArray[np.bool_]
    passed_on: NDArray[np.bool_]
    share: Floats
    clock: Floats


def timeline(
    lateness: Lateness,
    drawn: Drawn,
    timeouts: Floats,
    rng: np.random.Generator,
    *,
    nodes: int,
    hop_latency: float,
    least_share: float,
) -> Timeline:
    """Follow the token along a path through time.

    What is drawn is what a node takes that begins at this hop; the dead have forgotten what they had prepared, and a
    lost offer changes nothing at the node. A share of a batch below `least_share` has no row in it.
    """
    from . import _timeline as compiled  # numba is loaded only where it is needed

    hops = len(drawn.path)
    result = Timeline(np.zeros(hops, np.bool_), np.zeros(hops, np.bool_), np.ones(hops), np.empty(hops))
    latency, available, none = lateness.latency, lateness.availability, np.zeros(0, np.int64)
    links = compiled.Links(np.zeros((0, 0, 0)), none, none, hop_latency)
    if latency is not None:
        slices = rng.integers(0, len(latency.seconds), size=hops)
        links = compiled.Links(latency.seconds, slices, np.arange(nodes) % latency.nodes, hop_latency)
    reach = compiled.Reach(np.zeros(0), np.zeros(0), none, 0.0, 0.0)
    if available is not None:
        phase = rng.random() * available.period  # the same for all nodes: they share a day
        reach = compiled.Reach(available.begins, available.ends, available.first, available.period, phase)
    compiled.follow(
        {"fresh": compiled.FRESH, "kept": compiled.KEPT, "ahead": compiled.AHEAD}[lateness.ready],
        {"skip": compiled.SKIP, "decline": compiled.DECLINE, "fewer-rows": compiled.FEWER_ROWS}[lateness.late],
        drawn._replace(path=np.ascontiguousarray(drawn.path, np.int64)),
        timeouts,
        links,
        reach,
        least_share,
        np.full(nodes, 0.0 if lateness.ready == "ahead" else np.nan),
        result,
    )
    return result


def rows_that_fit(share: Floats, parts: AnyInts, sizes: AnyInts, batch: int | None) -> NDArray[np.int64]:
    """Return for each hop how many rows its update takes at most, and at which row of its part it begins.

    Of a batch of `batch` rows that all agreed on a share of them fits; None: of all rows that the node has. It begins
    elsewhere each time that a part is used, lest some rows are always left out.

    >>> rows_that_fit(np.array([1.0, 0.3]), np.array([0, 0]), np.array([10]), None).tolist()
    [[10, 0], [3, 6]]
    """
    of = sizes[parts]
    fit = np.floor(share * (of if batch is None else batch) * (1.0 + 1e-12)).astype(np.int64)
    most = np.where(share >= 1.0, of, np.clip(fit, 1, of))
    begin = np.floor((times_before(parts) * _GOLDEN) % 1.0 * of).astype(np.int64)
    return np.stack([most, np.where(most < of, begin, 0)], axis=1)
