"""What is known of a run's privacy, by each method: what a result folder keeps of it, and reports are made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .._numbers import upper
from ..errors import InvalidInput
from .accountant import Unit
from .record import PlannedRun

__all__ = ["HIDDEN", "Histogram", "PrivacyReport", "PublishedEpsilon", "RealisedPrivacy", "StatedEpsilon", "promised"]

#: What is hidden, in a few words.
HIDDEN: dict[Unit, str] = {"node": "all data of a node", "person": "all rows of one person", "record": "one record"}
#: Beyond this, an epsilon says nothing: the odds of a guess may change by more than 10^43.
_NOTHING = 100.0


def promised(epsilon: float | None) -> str:
    """Say an epsilon, or that it is none to speak of.

    >>> promised(1.5), promised(953.0), promised(None)
    ('1.5', 'nothing is promised (953)', 'nothing is promised')
    """
    if epsilon is None:
        return "nothing is promised"
    return upper(epsilon) if epsilon <= _NOTHING else f"nothing is promised ({upper(epsilon)})"


#: Who looks: any other node that is always ready; with gossip any node; in federated learning the server.
Looker = Literal["offered", "any node", "server"]


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
    is then what another node learned. `pairs` is how many pairs were looked at, if not all. `final` is what somebody
    outside learns from the final model alone about the unit that it tells most about.
    """

    worst: float
    median: float
    pair_99: float
    histogram: Histogram | None = None
    pairs: int | None = None
    other_node: float | None = None
    final: float | None = None


@dataclass(frozen=True, kw_only=True)
class PrivacyReport:
    """Epsilon of a run at one delta by each method, or the reason why there is none.

    Parameters
    ----------
    delta, noise_multiplier : what the epsilons go with.
    view : who looks: ``offered`` (any other node, always ready), ``any node`` (gossip) or ``server`` (federated).
    amplified : whether the noise of others is counted in the forecast; `not_amplified_because` says why not.
    refused : why no epsilon of any kind can be stated. The parts below are then None.
    forecast : what any run of this kind may leak, for a node or pair that is named beforehand.
    paper : the same as it was published.
    realised : what the first run really leaked; None if its path was not recorded, or has too many nodes.
    not_covered : what no epsilon of this report counts.
    planned : what the forecast is made from (on a ring, lengthened to whole rounds); None where there is no forecast,
        and in folders of versions that did not keep it.
    unit, every : what is hidden, and at every which turn of its node it contributes at most; where nodes have different
        numbers of parts, the greatest common divisor. `planned` has the numbers.
    final : the forecast for somebody outside the network who is shown the final model only.
    node_epsilon : the forecast for all data of a node, where the unit is less than that.
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
    unit: Unit = "node"
    every: int = 1
    final: StatedEpsilon | None = None
    node_epsilon: StatedEpsilon | None = None

    @property
    def epsilon(self) -> float | None:
        """The forecast's epsilon; None where there is none."""
        return None if self.forecast is None else self.forecast.epsilon

    @property
    def hides(self) -> str:
        """What no observer can tell from any other, in a few words."""
        return f"{HIDDEN[self.unit]} (replace-one)"

    @property
    def whole_node(self) -> str:
        """What holds for all data of a node, in words; empty where that is the epsilon itself, or unknown."""
        if self.unit == "node" or self.node_epsilon is None:
            return ""
        return promised(self.node_epsilon.epsilon)

    def planned_for(self, steps: int) -> PlannedRun:
        """Return the record of the same run as if it ended after so many steps; refuse what no forecast covers.

        On a ring, steps are rounded up to whole rounds, which a ring is accounted for in. Without a token, a step is an
        iteration of all nodes, each of which releases once.
        """
        if self.planned is None:
            raise InvalidInput.because("epsilon", "asked for", self._why_not())
        nodes = self.planned.nodes
        if self.view != "offered":
            return self.planned.replace(steps=nodes * steps)
        if self.planned.others is not None and steps > self.planned.steps:
            reason = "how many nodes are sure to take part was found for the length of the run"
            raise InvalidInput.because("steps", steps, reason)
        walk = self.planned.schedule == "random-walk"
        return self.planned.replace(steps=steps if walk else -(-steps // nodes) * nodes)

    def _why_not(self) -> str:
        if self.refused is not None:
            return self.refused
        if self.forecast is not None and self.forecast.refused is not None:
            return self.forecast.refused
        return "the folder is of a version that kept no record of the planned run; simulate it again"
