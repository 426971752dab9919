"""What is known of a run's privacy, by each method: what a result folder keeps of it, and reports are made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ..errors import InvalidInput
from ..schedules import KnownOrder
from .accountant import (
    ALONE,
    AMPLIFIED,
    ANOTHER_NODE,
    EACH_LAP,
    IN_FULL,
    OUTSIDER,
    PROTECTED,
    RELATION,
    SERVER,
    SHOWN,
    USUAL_UNIT,
    Guarantee,
    Unit,
    coalition,
    promised,
)
from .orders import AgreedOrder, DesignedOrder, FixedRing
from .record import PlannedRun, SureOthers

#: Who looks: any other node that is always ready; with gossip any node; in federated learning the server; of laps a
#: coalition of nodes.
Looker = Literal["offered", "any node", "server", "coalition"]
#: Each of them in words, and what they see.
_LOOKERS: dict[Looker, tuple[str, str]] = {
    "offered": (ANOTHER_NODE, "always ready, who knows the path and sees the final model"),
    "any node": (ANOTHER_NODE, "who sees what is sent, and knows who sent it when"),
    "server": (SERVER, "which sees each update by itself"),
    "coalition": ("a coalition", "which sees everything on the wire, who took part in each lap, and every model"),
}


@dataclass(frozen=True, kw_only=True)
class StatedEpsilon:
    """An epsilon that holds for any run of the kind, or why there is none: exactly one of the two is given."""

    epsilon: float | None = None
    refused: str | None = None


@dataclass(frozen=True, kw_only=True)
class PublishedEpsilon(StatedEpsilon):
    """The same by an accounting that others published.

    `trusted` says whether it is shown to hold for this run, and `doubt` why not. `method` names the accounting; None is
    the paper's theorem.
    """

    trusted: bool | None = None
    doubt: str | None = None
    method: str | None = None


@dataclass(frozen=True, kw_only=True)
class Histogram:
    """How many ordered pairs of nodes have an epsilon between one edge and the next."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class RealisedPrivacy:
    """What one run really leaked: epsilon of the worst pair of nodes, of the median pair, and what 99 % stay below.

    In federated learning it is what the server learned about the busiest node, the median one and so on; `other_node`
    is then what another node learned. `pairs` is how many pairs were looked at, if not all. `final` is what an outsider
    learns from the final model alone about the unit that it tells most about. `above` is the share of pairs whose
    epsilon is above the forecast; None where there is none, and in folders of versions that did not count them.
    """

    worst: float
    median: float
    pair_99: float
    histogram: Histogram | None = None
    pairs: int | None = None
    other_node: float | None = None
    final: float | None = None
    above: float | None = None


def _share(share: float) -> str:
    """Say which share it is: none, some per cent, or less than one.

    >>> _share(0.0), _share(0.0004), _share(0.123), _share(1.0)
    ('none', 'less than 1 %', '12 %', '100 %')
    """
    if share == 0.0:
        return "none"
    return "less than 1 %" if share < 0.01 else f"{100.0 * share:.0f} %"


def average_words(above: Sequence[float]) -> str:
    """Say that a forecast is an average over orders, and which share of pairs was above it in each of some runs.

    >>> average_words([0.04, 0.06])
    'the forecast is an average over orders; on the path of the first run 4 % to 6 % of all pairs are above it'
    """
    words = "the forecast is an average over orders"
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
    """Epsilon of a run at one delta by each method, or the reason why there is none.

    Parameters
    ----------
    delta, noise_multiplier : what the epsilons go with.
    view : who looks: ``offered`` (any other node, always ready), ``any node`` (gossip), ``server`` (federated) or
        ``coalition`` (laps).
    amplified : whether the noise of others is counted in the forecast; `not_amplified_because` says why not.
    refused : why no epsilon of any kind can be stated. The parts below are then None.
    forecast : what any run of this kind may leak, for a node or pair that is named beforehand.
    paper : the same as it was published.
    realised : what the first run really leaked; None if its path was not recorded, or has too many nodes.
    not_covered : what no epsilon of this report counts.
    planned : what the forecast is made from (on a ring, lengthened to whole rounds); None where there is no forecast,
        and in folders of versions that did not keep it.
    unit, every : what is hidden, and at every which turn of its node it contributes at most; where nodes have different
        numbers of parts, the greatest common divisor. `planned_run` has the numbers.
    final : the forecast for an outsider who is shown the final model only.
    node_epsilon : the forecast for all data of a node, where the unit is less than that.
    coalition, all_others : for laps, how many nodes the forecast is against, and what holds if all others collude.
    """

    delta: float
    noise_multiplier: float
    view: Looker
    amplified: bool
    not_amplified_because: str | None = None
    refused: str | None = None
    forecast: StatedEpsilon | None = None
    paper: PublishedEpsilon | None = None
    realised: RealisedPrivacy | None = None
    not_covered: str | None = None
    planned: PlannedRun | None = None
    unit: Unit = USUAL_UNIT
    every: int = 1
    final: StatedEpsilon | None = None
    node_epsilon: StatedEpsilon | None = None
    coalition: int | None = None
    all_others: StatedEpsilon | None = None

    @property
    def epsilon(self) -> float | None:
        """The forecast's epsilon; None where there is none."""
        return None if self.forecast is None else self.forecast.epsilon

    @property
    def holds_for_every_pair(self) -> bool:
        """Whether the forecast is about the order in use and all of its pairs, and no average over orders.

        So it is where the order is known, and where each pair has the same law because nothing of others is counted. It
        is so on the fixed ring, too, whose worst pair is stated.
        """
        planned = self.planned
        if self.view == "coalition":
            return self.epsilon is not None
        if planned is None or self.epsilon is None:
            return False
        return planned.order_is_known or isinstance(planned.order, FixedRing) or not self.amplified

    @property
    def averaged(self) -> str:
        """That the forecast is an average over orders, and who is above it, in words; empty where it is none."""
        if self.epsilon is None or self.planned is None or self.view != "offered" or self.holds_for_every_pair:
            return ""
        above = None if self.realised is None else self.realised.above
        return average_words([] if above is None else [above])

    @property
    def every_pair(self) -> float | None:
        """The epsilon that holds for every pair: the forecast where it does, else the first run's worst pair's."""
        if self.holds_for_every_pair:
            return self.epsilon
        return None if self.realised is None else self.realised.worst

    @property
    def guarantee(self) -> Guarantee:
        """The forecast with all that it cannot be read without, also against an outsider, and for a whole node."""
        against, sees = _LOOKERS[self.view]
        against = self.against or against
        counts = AMPLIFIED if self.amplified else IN_FULL if self.coalition is None else EACH_LAP
        first = Guarantee(
            protects=self.unit,
            whose="any node of such a run, named beforehand",
            against=against,
            sees=sees,
            method="tight" if self.coalition is None else "laps",
            delta=self.delta,
            epsilon=self.epsilon,
            refused=self.refused or (None if self.forecast is None else self.forecast.refused),
            assumptions=(counts, *([average_words([])] if self.averaged else [])),
        )
        also = []
        if (final := self.final) is not None:
            shown, alone = (SHOWN, (ALONE,)) if self.coalition is None else (sees, ())
            beside = replace(first, against=OUTSIDER, sees=shown, epsilon=final.epsilon, refused=final.refused)
            also.append(replace(beside, assumptions=(*first.assumptions, *alone)))
        if (whole := self.node_epsilon) is not None:
            also.append(replace(first, protects="node", epsilon=whole.epsilon, refused=whole.refused))
        return replace(first, not_covered=self.not_covered, also=tuple(also))

    @property
    def against(self) -> str:
        """Against which nodes the forecast of laps is, in a few words; empty for other schedules."""
        if self.coalition is None:
            return ""
        return ANOTHER_NODE if self.coalition == 1 else coalition(self.coalition)

    @property
    def hides(self) -> str:
        """What no observer can tell from any other, in a few words."""
        return f"{PROTECTED[self.unit]} ({RELATION})"

    @property
    def whole_node(self) -> str:
        """What holds for all data of a node, in words; empty where that is the epsilon itself, or unknown."""
        if self.unit == "node" or self.node_epsilon is None:
            return ""
        epsilon = self.node_epsilon.epsilon
        return "nothing is promised" if epsilon is None else promised(epsilon)

    def planned_for(self, steps: int) -> PlannedRun:
        """Return the record of the same run as if it ended after `steps`; refuse what no forecast covers.

        On a ring, steps are rounded up to whole rounds, which a ring is accounted for in; a known order ends there, and
        closes as the whole one does. Without a token, a step is an
        iteration of all nodes, each of which releases once.
        """
        if self.planned is None:
            raise InvalidInput.because("epsilon", "asked for", self._why_not())
        nodes = self.planned.nodes
        if self.view != "offered":
            return self.planned.replace(steps=nodes * steps)
        if isinstance(self.planned.taking_part, SureOthers) and steps > self.planned.steps:
            reason = "how many nodes are sure to take part was found for the length of the run"
            raise InvalidInput.because("steps", steps, reason)
        if self.planned.order_is_known:
            return _shortened(self.planned, steps)
        unit = self.planned.kind.unit(nodes)
        return self.planned.replace(steps=-(-steps // unit) * unit)

    def _why_not(self) -> str:
        if self.refused is not None:
            return self.refused
        if self.forecast is not None and self.forecast.refused is not None:
            return self.forecast.refused
        if self.coalition is not None:
            return "how laps share their budget depends on how many there are"
        return "the folder is of a version that kept no record of the planned run; simulate it again"
