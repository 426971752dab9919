"""How many nodes are sure to update in a round, where nodes remember what they have prepared.

With readiness that is kept or prepared ahead, who is skipped in one round says something about the next: forecasts for
independent skips do not hold. What holds is a forecast for certain nodes (docs/privacy.md, "Nodes that remember"). Of
these one knows, before the order of a round is drawn, that they will update wherever their turn comes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from .._arrays import Doubles
from ..delays import Delay
from ..errors import InvalidInput, require_integer, require_non_negative, require_open_unit

#: Beyond this many rounds ago a preparation is taken to be unfinished with the probability of that many rounds.
_MOST_ROUNDS = 10_000
#: Into how many equal pieces a timeout is cut, to be divided between preparing and computing.
_DIVISIONS = 24
#: How far a clock of rounded numbers may be off, for each second that it has run: some hundred roundings.
_CLOCK = 1e-13


@dataclass(frozen=True, kw_only=True)
class Remembering:
    """How nodes get ready that remember what they have prepared.

    `ready` says whether readiness is ``kept`` or prepared ``ahead``. `speeds` are factors of the delays, one for each
    node. With `compute`, the time for a full batch, `share` of which is enough for an update, both must fit into the
    timeout. A link is lost with probability `lost_link`.
    """

    delay: Delay
    timeout: float
    ready: Literal["kept", "ahead"]
    hop_latency: float
    lost_link: float = 0.0
    speeds: Sequence[float] | None = None
    compute: Delay | None = None
    share: float = 1.0

    def __post_init__(self) -> None:
        require_non_negative("hop_latency", self.hop_latency)
        if not self.timeout > 0.0:
            raise InvalidInput("timeout", self.timeout, "a number above 0 (or inf)")
        if self.ready not in ("kept", "ahead"):
            allowed = "kept or ahead; fresh delays are independent, and are accounted for on their own"
            raise InvalidInput("ready", self.ready, allowed)
        if math.isinf(self.timeout) and (self.lost_link > 0.0 or self.delay.mass_at_infinity > 0.0):
            reason = "a node that never answers would be waited for without end"
            raise InvalidInput.because("timeout", self.timeout, reason)
        if not 0.0 < self.share <= 1.0:
            raise InvalidInput("share", self.share, "above 0 and at most 1")


def sure_others(late: Remembering, *, nodes: int, rounds: int, failure: float) -> int:
    """Return how many nodes beside any two update in every round wherever their turn comes, but for `failure`.

    A node that prepares ahead does so if it is ready by the timeout after the round's start. If its last update was in
    slot j of the round before, it had the time of the n - j hops that followed (whatever else there was to wait for).
    If it was i rounds earlier, it had that of i n hops more. A node whose readiness is kept does so if the preparation
    that it began when it was last skipped is over by then. (It had the timeout of that turn as well.) If there is none,
    it does so if its next delay is within the timeout. Delays are independent of each other and of the orders, so given
    the orders the nodes are independent. Slow nodes are left out if that is better.

    With `compute`, the timeout is divided: what is left of a preparation must be within one part of it, and the
    computation of this round within the other. A node that gave up is busy until its computation would have ended,
    which must be within the first part as well.

    >>> from skipring.delays import Lomax
    >>> late = Remembering(delay=Lomax(3.0, 2.0), timeout=0.02, ready="ahead", hop_latency=0.01)
    >>> sure_others(late, nodes=1000, rounds=40, failure=1e-8)
    842
    """
    require_integer("nodes", nodes, 2)
    require_integer("rounds", rounds, 1)
    require_open_unit("failure", failure)
    if math.isinf(late.timeout):
        return nodes - 2  # all nodes are waited for
    factors = np.sort(np.ones(nodes) if late.speeds is None else np.asarray(late.speeds, np.float64))
    # Any division that is chosen before the run gives a bound; the best of a few is taken.
    firsts = [late.timeout]
    if late.compute is not None:
        firsts = [late.timeout * part / _DIVISIONS for part in range(1, _DIVISIONS)]
    # A clock rounds: what is over just in time by the law may be found late by that much.
    slack = _CLOCK * rounds * nodes * (late.timeout + late.hop_latency)
    best = 0
    for factor in np.unique(factors):
        count = int(np.searchsorted(factors, factor, side="right")) - 2  # target and observer may be among them
        if count <= best:
            continue
        for first in firsts:
            within = _Within(late, first, float(factor), slack)
            chances = np.sort(within.chances(nodes, rounds))
            # Which slots these nodes had is not known: the worst ones.
            best = max(best, fewest_successes((1.0 - late.lost_link) * chances[:count], failure / rounds))
    return best


@dataclass(frozen=True)
class _Within:
    """The parts of a timeout: `first` for what is left of a preparation, the rest for computing."""

    late: Remembering
    first: float
    factor: float
    slack: float

    def _done(self, law: Delay, seconds: Doubles) -> Doubles:
        """Return the probability that something is over within these seconds, by a clock that rounds."""
        surely = np.maximum(0.0, np.asarray(seconds, np.float64) * (1.0 - _CLOCK) - self.slack)
        return 1.0 - law.survival(surely / self.factor)

    def _over(self, left: float, elapsed: Doubles) -> Doubles:
        """Return the probability that a preparation which so much time has passed for is over, and so is other work."""
        prepared = self._done(self.late.delay, self.first + left + elapsed)
        if self.late.compute is None:
            return prepared
        return prepared * self._done(self.late.compute, self.first + elapsed)

    def chances(self, nodes: int, rounds: int) -> Doubles:
        """Return for each slot of the last round the least probability that its node is sure to update in this one."""
        late, hop = self.late, self.late.hop_latency
        left = 0.0 if late.ready == "ahead" else late.timeout  # who was skipped had the timeout of that turn, too
        last = self._over(left, hop * np.arange(nodes, dtype=np.float64))
        earlier = self._over(left, hop * nodes * np.arange(1.0, min(rounds, _MOST_ROUNDS) + 1.0))
        if rounds > _MOST_ROUNDS:
            earlier = np.append(earlier, max(0.0, 1.0 - (rounds - _MOST_ROUNDS) * (1.0 - float(earlier[-1]))))
        chances = last * np.prod(earlier)
        if late.ready == "kept":
            chances = chances * self._done(self.late.delay, np.array([self.first]))
        if late.compute is not None:
            rest = (late.timeout - self.first) / late.share
            chances = chances * self._done(late.compute, np.array([rest]))
        return np.maximum(0.0, chances - 1e-12)  # rounded down


def fewest_successes(chances: Doubles, failure: float) -> int:
    """Return a number that independent trials with these chances reach but for `failure` (Chernoff's bound).

    >>> fewest_successes(np.full(100, 0.5), 1e-6), fewest_successes(np.ones(7), 1e-6)
    (25, 7)
    """
    chances = np.asarray(chances, dtype=np.float64)
    sure = int((chances >= 1.0).sum())
    chances = chances[chances < 1.0]
    goal = math.log(failure) - 1e-9 * (1.0 + len(chances))  # more than rounding in the sum can take
    low, high = 0, len(chances) + 1  # `low` successes are reached, `high` are not shown to be
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _log_tail(chances, middle - 1) <= goal else (low, middle)
    return sure + low


def _log_tail(chances: Doubles, most: int) -> float:
    """Return an upper bound of ln P(at most `most` successes): the least over s of s k + sum ln E exp(-s X)."""

    def bound(log_s: float) -> float:
        s = math.exp(log_s)
        return s * most + float(np.log1p(chances * math.expm1(-s)).sum())

    low, high = math.log(1e-9), math.log(700.0)
    golden = (math.sqrt(5.0) - 1.0) / 2.0
    for _ in range(60):  # any s is a bound; the best is where this convex function is least
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, right) if bound(left) <= bound(right) else (left, high)
    return min(0.0, bound(0.5 * (low + high)))
