"""What is known of a run's privacy: what it promises, and what one run gave away. A result folder keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ..errors import InvalidInput
from ..schedules import KnownOrder
from .accountant import Guarantee
from .forecast import forecast
from .orders import AgreedOrder, DesignedOrder, FixedRing
from .record import PlannedRun, SureOthers


@dataclass(frozen=True, kw_only=True)
class Histogram:
    """How many ordered pairs of nodes have an epsilon between one edge and the next."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class InThisRun:
    """What one run gave away: the guarantee about the worst pair of nodes, and where the others are.

    In federated learning it is about what the server learned of the busiest node, and beside it stands another node.
    Of a token's run an outsider stands beside it, who is shown the final model.

    Parameters
    ----------
    guarantee : what holds for all pairs, or nodes, on the path that the run took.
    median, pair_99 : the epsilon of the median pair, or node, and what 99 % of them stay below.
    histogram : how many pairs have which epsilon.
    pairs : how many pairs were looked at, if not all.
    above : the share of pairs whose epsilon is above what was promised; None where nothing was.
    """

    guarantee: Guarantee
    median: float
    pair_99: float
    histogram: Histogram | None = None
    pairs: int | None = None
    above: float | None = None

    @property
    def worst(self) -> float:
        """The epsilon of the worst pair, or node."""
        assert self.guarantee.epsilon is not None
        return self.guarantee.epsilon


def _share(share: float) -> str:
    """Say which share it is: none, some per cent, or less than one.

    >>> _share(0.0), _share(0.0004), _share(0.123), _share(1.0)
    ('none', 'less than 1 %', '12 %', '100 %')
    """
    if share == 0.0:
        return "none"
    return "less than 1 %" if share < 0.01 else f"{100.0 * share:.0f} %"


def average_words(above: Sequence[float]) -> str:
    """Say that what is promised is an average over orders, and which share of pairs was above it in some runs.

    >>> average_words([0.04, 0.06])
    'what is promised is an average over orders; on the path of the first run 4 % to 6 % of all pairs are above it'
    """
    words = "what is promised is an average over orders"
    if not above:
        return words
    shares = dict.fromkeys([_share(min(above)), _share(max(above))])
    return f"{words}; on the path of the first run {' to '.join(shares)} of all pairs are above it"


def _shortened(run: PlannedRun, steps: int) -> PlannedRun:
    """Return a run in a known order as if it ended after `steps` hops, closing ones included, in whole rounds."""
    assert isinstance(run.order, AgreedOrder | DesignedOrder)
    order = run.order.known
    rounds = min(order.rounds, max(1, -(-(steps - len(order.closing)) // run.nodes)))
    if rounds == order.rounds:
        return run
    shorter = KnownOrder(run.nodes, order.hops[: rounds * run.nodes], order.closing)
    return replace(run, order=AgreedOrder(nodes=run.nodes, steps=len(shorter.hops), order=shorter))


@dataclass(frozen=True, kw_only=True)
class PrivacyReport:
    """What a run promises at one delta, what is published of it, and what the first run gave away.

    Parameters
    ----------
    delta : what all epsilons go with.
    promised : what any run of this kind may give away, about a node or pair that is named beforehand; with further
        guarantees against others, and for a whole node. Or why nothing is promised.
    paper : the same as it was published; None where nothing is promised for any reason.
    in_this_run : what the first run gave away; None if its path was not recorded, or has too many nodes.
    refused : why no epsilon of any kind can be stated.
    not_amplified_because : why the noise of others is not counted; None where it is.
    planned : what the promise of a walk is made from (on a ring, lengthened to whole rounds); None where there is none.
    every : at every which turn of its node a unit contributes at most; where nodes have different numbers of parts, the
        greatest common divisor. `planned` has the numbers.
    learns_by : a ``token``, ``laps``, ``gossip`` or a ``server``.
    """

    delta: float
    promised: Guarantee
    paper: Guarantee | None = None
    in_this_run: InThisRun | None = None
    refused: str | None = None
    not_amplified_because: str | None = None
    planned: PlannedRun | None = None
    every: int = 1
    learns_by: Literal["token", "laps", "gossip", "server"] = "token"

    @property
    def epsilon(self) -> float | None:
        """The promised epsilon; None where there is none."""
        return self.promised.epsilon

    @property
    def holds_for_every_pair(self) -> bool:
        """Whether the promise is about the order in use and all of its pairs, and no average over orders.

        So it is where the order is known, and where each pair has the same law because nothing of others is counted. It
        is so on the fixed ring, too, whose worst pair is stated, and of laps.
        """
        run = self.planned
        if run is None or self.epsilon is None:
            return self.learns_by == "laps" and self.epsilon is not None
        return run.order_is_known or isinstance(run.order, FixedRing) or not forecast(run).amplified

    @property
    def averaged(self) -> str:
        """That the promise is an average over orders, and who is above it, in words; empty where it is none."""
        if self.epsilon is None or self.planned is None or self.holds_for_every_pair:
            return ""
        above = None if self.in_this_run is None else self.in_this_run.above
        return average_words([] if above is None else [above])

    @property
    def every_pair(self) -> float | None:
        """The epsilon that holds for every pair: the promised one where it does, else the first run's worst pair's."""
        if self.holds_for_every_pair:
            return self.epsilon
        return None if self.in_this_run is None else self.in_this_run.worst

    def planned_for(self, steps: int) -> PlannedRun:
        """Return the record of the same run as if it ended after `steps`; refuse what nothing is promised for.

        On a ring, steps are rounded up to whole rounds, which a ring is accounted for in; a known order ends there, and
        closes as the whole one does. Without a token, a step is an iteration of all nodes, each of which releases once.
        """
        if self.planned is None:
            laps = "how laps share their budget depends on how many there are"
            raise InvalidInput.because("epsilon", "asked for", self.promised.refused or laps)
        nodes = self.planned.nodes
        if self.learns_by != "token":
            return self.planned.replace(steps=nodes * steps)
        if isinstance(self.planned.taking_part, SureOthers) and steps > self.planned.steps:
            reason = "how many nodes are sure to take part was found for the length of the run"
            raise InvalidInput.because("steps", steps, reason)
        if self.planned.order_is_known:
            return _shortened(self.planned, steps)
        unit = self.planned.order.schedule.unit(nodes)
        return self.planned.replace(steps=-(-steps // unit) * unit)
