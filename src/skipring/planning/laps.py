"""Plans for laps, and which of laps and walk a budget is better spent on.

How far laps end from a model of all rows in one place is known beforehand, without a look at a row. On 26 real tables
of many sites, the excess log loss followed N mu / d: rows times mu, over parameters (docs/laps.md). It is no theorem.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from ..delays import Delay
from ..errors import InvalidInput, require_delta, require_integer, require_non_negative, require_positive
from ..privacy import USUAL_UNIT, LapsAccountant, PlannedLaps, Protected, Unit, calibrate
from ..schedules import Laps
from ..timeouts import DeadlineChoice, best_deadline, chance_of_enough, longest_deadline
from .budget import require_law
from .planner import Plans

#: Above which N mu / d laps were how close, at most, to a model of all rows in one place, in log loss (results/).
LAPS_CLOSE = ((100.0, 0.02), (30.0, 0.05))
#: Where tables differed, a walk is taken if its bound is below this.
_AS_GOOD = 0.05


@dataclass(frozen=True, kw_only=True)
class LapsBudget:
    """What laps may cost, and what is known about nodes and model.

    Parameters
    ----------
    among, laps, extra, floor : as in `skipring.privacy.PlannedLaps`.
    delay, hop_latency : how long a node takes, and how long a message takes.
    epsilon, delta : the privacy of what `protects` says against any coalition that laps withstand.
    dimension : the model's number of parameters.
    rows : how many rows each node has (for persons: persons x rows per person); None where nobody said.
    rows_per_person : for persons: the most rows of one.
    time : how long all laps may take on average; None where that does not matter.
    """

    among: Laps
    delay: Delay
    hop_latency: float
    epsilon: float
    delta: float
    dimension: int
    laps: int = Laps.usual
    extra: int = 0
    floor: float = 0.0
    protects: Unit = USUAL_UNIT
    rows: int | None = None
    rows_per_person: int | None = None
    time: float | None = None

    def __post_init__(self) -> None:
        require_law(self.delay)
        require_non_negative("hop_latency", self.hop_latency)
        require_positive("epsilon", self.epsilon)
        require_delta(self.delta)
        require_integer("dimension", self.dimension, 1)
        if self.protects == "node":
            raise InvalidInput("protects", self.protects, "record or person: laps add up what these contribute")
        for parameter in ("rows", "rows_per_person"):
            if (given := getattr(self, parameter)) is not None:
                require_integer(parameter, given, 1, 10**9)
        if self.time is not None:
            require_positive("time", self.time)
        if (self.protects == "person") != (self.rows_per_person is not None):
            given = "missing" if self.rows_per_person is None else self.rows_per_person
            raise InvalidInput.because("rows_per_person", given, "say it for persons, and for them only")

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return self.among.nodes

    @property
    def units_of_a_node(self) -> int | None:
        """How many records or persons a node has; None where its rows are not known."""
        return None if self.rows is None else -(-self.rows // (self.rows_per_person or 1))


@dataclass(frozen=True, kw_only=True)
class LapsPlan:
    """Laps that keep a budget: their record with its noise, how long they wait, and what they take."""

    budget: LapsBudget
    run: PlannedLaps
    deadline: DeadlineChoice
    expected_time: float

    @cached_property
    def rows_times_mu(self) -> float | None:
        """N mu / d: rows that take part times mu, over parameters; None where the rows are not known.

        It was measured with a coalition of one, and all nodes ready. More noise than a sum has then, for a larger
        coalition or a floor, counts as fewer rows.
        """
        run, units = self.run, self.budget.units_of_a_node
        if units is None:
            return None
        mu = math.sqrt(replace(run, floor=0.0).mu2(run.withstood))
        ready = max(float(run.among.needed), run.nodes * (1.0 - self.deadline.skip_probability))
        noise = max(1.0 / math.sqrt(ready - run.withstood), run.floor / run.noise_multiplier) * math.sqrt(ready - 1.0)
        return units * ready * mu / (noise * self.budget.dimension)

    @property
    def excess(self) -> float | None:
        """The most log loss above that of a model of all rows in one place on real tables; None where that varied."""
        found = self.rows_times_mu
        # It was measured with five laps of models that take five.
        if found is None or self.run.laps < Laps.usual or self.budget.dimension > Laps.few_parameters:
            return None
        return next((excess for least, excess in LAPS_CLOSE if found >= least), None)

    @property
    def promise(self) -> str:
        """What is known beforehand of the model, in words."""
        found = self.rows_times_mu
        if found is None:
            return "how good a model will be follows from how many rows there are"
        said = f"N mu / d (rows x mu / parameters) = {found:.3g}"
        if self.budget.dimension > Laps.few_parameters:
            return f"{said}, from which nothing follows for more than {Laps.few_parameters} parameters"
        if self.excess is None:
            return f"{said}, at which tables differed"
        return f"{said}, at which log loss was at most {self.excess:g} above that of all rows in one place"


def plan_laps(budget: LapsBudget) -> LapsPlan:
    """Return the laps that keep a budget with the least noise, and how long they wait.

    They wait as long as the time allows; where that does not matter, for the most rows per time.

    >>> from skipring.delays import Exponential
    >>> budget = LapsBudget(among=Laps(nodes=20), delay=Exponential(1.0), hop_latency=0.01, epsilon=1.0, delta=1e-6,
    ...                     dimension=10, rows=400)
    >>> found = plan_laps(budget)
    >>> round(found.run.noise_multiplier, 1), found.excess, round(found.expected_time, 1)
    (18.9, 0.02, 6.5)
    """
    among, deadline = budget.among, _deadline(budget)
    bare = PlannedLaps(
        among=among,
        laps=budget.laps,
        noise_multiplier=1.0,
        extra=budget.extra,
        unit=Protected(protects=budget.protects),
    )
    noise = calibrate(LapsAccountant(bare).with_noise, budget.epsilon, budget.delta)
    run = replace(bare, noise_multiplier=noise, floor=budget.floor)
    return LapsPlan(budget=budget, run=run, deadline=deadline, expected_time=_time(budget, deadline))


def _deadline(budget: LapsBudget) -> DeadlineChoice:
    asked = budget.delay, budget.among.sending(budget.hop_latency), budget.among.nodes, budget.among.needed
    best = best_deadline(*asked)
    if budget.time is None:
        return best
    found = longest_deadline(*asked, budget.time / budget.laps)
    if found is None:
        reason = f"is too short: {budget.laps} laps take about {_time(budget, best):.4g} on average"
        raise InvalidInput.because("time", budget.time, reason)
    return found


def _time(budget: LapsBudget, deadline: DeadlineChoice) -> float:
    """Return how long all laps take on average, void tries included."""
    return (
        budget.laps
        * deadline.time
        / chance_of_enough(budget.among.nodes, budget.among.needed, 1.0 - deadline.skip_probability)
    )


def verdict(laps: LapsPlan, walk: Plans) -> tuple[str, str]:
    """Return which of two plans is better, as the name of its schedule, and a sentence that says why.

    A walk's error bound is about the same loss as what is known of laps, but for the worst rows. So the walk is better
    only where its bound is below that.
    """
    bound, trivial = walk.best.error_bound, walk.budget.gradient_bound * walk.budget.diameter
    walks = bound < (_AS_GOOD if laps.excess is None else laps.excess)
    name = walk.budget.schedule if walks else laps.run.among.name
    said = f"error bound {bound:.4g}" + ("" if bound < trivial else ", which promises nothing")
    words = (
        f"{laps.run.among.name}: {laps.promise}, in time {laps.expected_time:.4g}; {walk.budget.schedule}: {said}, in"
        f" time {walk.best.expected_time:.4g}. Take {name}."
    )
    return name, words
