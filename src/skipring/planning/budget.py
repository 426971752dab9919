"""What a run may cost, what is known about nodes and model, and whom the noise has to hide."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..delays import Delay, Trace
from ..errors import LEAST_DELTA, InvalidInput, require_delta, require_integer, require_positive
from ..privacy import USUAL_UNIT, PlannedRun, Remembering, ScheduleName, Unit, planned_run, sure_others
from ..schedules import USUAL_SCHEDULE, schedule_kind
from ..timeouts import RoundLaw, TurnLaw, choose_timeout_ready, expected_latency, round_law, timeout_for_skip

Ready = Literal["fresh", "kept", "ahead"]

#: Skip probabilities that are tried before the best one is refined.
_SKIPS = (1e-6, 1e-4, 1e-3, 0.01, 0.03, 0.07, 0.12, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.88, 0.94, 0.98)
#: Which share of a node's rows an update may take, if that is for the planner to say: one in 1, 2 or 4.
_SHARES = (1, 2, 4)


#: Of logistic regression on rows of norm 1, whose gradient bound is 1. (Softmax on such rows: 0.5; squared loss: 1.)
ASSUMED_SMOOTHNESS = 0.25


def require_law(delay: Delay) -> None:
    """Refuse a trace, for which nothing is known before a run."""
    if isinstance(delay, Trace):
        reason = (
            "no epsilon is promised for a trace, whose turns say something about the next; take its durations as"
            " a law (empirical:FILE)"
        )
        raise InvalidInput.because("delay", delay, reason)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What a run may cost, and what is known about nodes and model.

    Parameters
    ----------
    nodes, delay, hop_latency : who takes part, how long a node takes, how long a hop takes.
    epsilon, delta : the privacy of what `protects` says against any other node that is always ready.
    dimension, gradient_bound, diameter : the model's number of parameters, and the largest norm of a row's gradient
        (for nodes: of a node's). Also the diameter of the set that the parameters are kept in.
    time, steps : how long the run may take on average (it may take less), or how many steps it has; one of the two.
    schedule : who gets the token next.
    smoothness : of the loss; the learning rate is kept at 2 / smoothness or below, since epsilon rests on contraction.
        None: that of logistic regression on rows of norm 1 is assumed, `ASSUMED_SMOOTHNESS`.
    protects : what is hidden: all data of a ``node``, all rows of a ``person``, or one ``record``.
    rows : for records and persons: how many rows each node has (for persons: persons x rows per person).
    batch : for records and persons: the most rows of an update. A node with more rotates through them. None: propose
        it, from `rows`.
    rows_per_person : for persons: the most rows of one.
    ready : what becomes of a node's preparation: ``fresh`` (lost if it is skipped), ``kept`` or prepared ``ahead``. The
        last two have a law of rounds in the limit of many nodes, and a forecast on the random ring only.

    >>> from skipring.delays import Gamma
    >>> Budget(nodes=10, delay=Gamma(0.25, 1.0), hop_latency=0.01, epsilon=1.0, delta=1e-6, dimension=8,
    ...        gradient_bound=1.0, diameter=10.0, steps=100, protects="record", rows=250, batch=100).parts
    3
    """

    nodes: int
    delay: Delay
    hop_latency: float
    epsilon: float
    delta: float
    dimension: int
    gradient_bound: float
    diameter: float
    time: float | None = None
    steps: int | None = None
    schedule: ScheduleName = USUAL_SCHEDULE
    smoothness: float | None = None
    protects: Unit = USUAL_UNIT
    rows: int | None = None
    batch: int | None = None
    rows_per_person: int | None = None
    ready: Ready = "fresh"

    def __post_init__(self) -> None:
        require_law(self.delay)
        require_positive("epsilon", self.epsilon)
        require_delta(self.delta)
        if self.delta < 2.0 * LEAST_DELTA:  # the paper's theorem gets half of it twice
            raise InvalidInput("delta", self.delta, f"at least {2.0 * LEAST_DELTA:g} for a plan")
        require_integer("dimension", self.dimension, 1)
        require_positive("gradient_bound", self.gradient_bound)
        require_positive("diameter", self.diameter)
        if self.smoothness is not None:
            require_positive("smoothness", self.smoothness)
        if (self.time is None) == (self.steps is None):
            given = "missing" if self.time is None else self.time
            raise InvalidInput.because("time", given, "give either a time budget or a number of steps")
        if self.time is not None:
            require_positive("time", self.time)
        self._check_rows()
        if self.ready not in ("fresh", "kept", "ahead"):
            raise InvalidInput("ready", self.ready, "fresh, kept or ahead")
        if self.ready != "fresh" and not schedule_kind(self.schedule).is_drawn_in_rounds():
            reason = f"on {self.schedule} nothing is promised for nodes that remember; the random ring has one"
            raise InvalidInput.because("ready", self.ready, reason)
        # The record refuses what no accountant covers: unknown schedules, too few nodes, partial rounds.
        self.run(self.steps if self.steps is not None else self.nodes, 0.5)

    def _check_rows(self) -> None:
        for parameter in ("rows", "batch", "rows_per_person"):
            if (given := getattr(self, parameter)) is None:
                continue
            if self.protects == "node" or (parameter == "rows_per_person" and self.protects != "person"):
                needed = "person" if parameter == "rows_per_person" else "record or person"
                raise InvalidInput.because(parameter, given, f"counts only if what is protected is a {needed}")
            require_integer(parameter, given, 1, 10**9)
        if self.protects == "person" and self.rows_per_person is None:
            raise InvalidInput.because("rows_per_person", "missing", "say how many rows a person has at most")
        if self.protects in ("record", "person") and self.rows is None and self.batch is None:
            reason = (
                f"a {self.protects} is protected, and its noise is divided by the rows of an update. Say how many rows "
                "each node has, or a batch; to protect a node needs neither"
            )
            raise InvalidInput.because("rows", "missing", reason)
        if self.batch is not None:
            if self.batch < self._per_person:
                reason = f"a person's rows must fit into one update, and may be {self._per_person}"
                raise InvalidInput.because("batch", self.batch, reason)
            if self.rows is not None and self.batch > (most := self._units * self._per_person):
                raise InvalidInput("batch", self.batch, f"at most {most}: no node has more rows to take")

    @property
    def _per_person(self) -> int:
        return 1 if self.rows_per_person is None else self.rows_per_person

    @property
    def _units(self) -> int:
        """How many records or persons a node has, if its rows are known."""
        assert self.rows is not None
        return -(-self.rows // self._per_person)

    @property
    def units_of_a_node(self) -> int | None:
        """How many of what is protected a node has; None while its rows are not known."""
        if self.protects == "node":
            return 1
        return None if self.rows is None else self._units

    @property
    def units_per_update(self) -> int:
        """The most protected units that an update takes; 1 for nodes, or while the batch is to be proposed."""
        return 1 if self.batch is None else self.batch // self._per_person

    @property
    def parts(self) -> int:
        """How many turns of a node it takes to use all of its rows; 1 for nodes, or while that is not known."""
        if self.rows is None or self.batch is None:
            return 1
        return -(-self._units // self.units_per_update)

    @property
    def proposals(self) -> tuple[Budget, ...]:
        """The same budget with each batch that a plan may have: as given, or all rows of a node, half, a quarter."""
        if self.rows is None or self.batch is not None:
            return (self,)
        batches = dict.fromkeys(-(-self._units // share) * self._per_person for share in _SHARES)
        return tuple(dataclasses.replace(self, batch=batch) for batch in batches)

    @property
    def largest_rate(self) -> float:
        """The largest learning rate with which updates are contractions."""
        return 2.0 / (ASSUMED_SMOOTHNESS if self.smoothness is None else self.smoothness)

    def gradient_noise(self, noise_multiplier: float) -> float:
        """Return the standard deviation of the noise on an update's gradient, over the gradient bound.

        For records and persons an update is the sum of at most `batch` rows' gradients, divided by `batch`. So it is no
        longer than the gradient bound k of one row, as a node's is. Its noise is the multiplier times the most that one
        unit can contribute (k; with several rows per person, as many times k), divided by `batch`, too.
        """
        return noise_multiplier if self.batch is None else noise_multiplier * self._per_person / self.batch

    @property
    def _turns(self) -> TurnLaw:
        turns = schedule_kind(self.schedule).turns
        assert turns is not None  # the record has refused a schedule that no accountant covers
        return turns

    def law(self, timeout: float) -> RoundLaw:
        """Return how long a round takes with a timeout, and how often a node is skipped."""
        return round_law(self.delay, timeout, self.hop_latency, self.nodes, self.ready, turns=self._turns)

    def expected_time(self, timeout: float, steps: int) -> float:
        """Return how long `steps` take on average."""
        if self.ready == "fresh":
            return expected_latency(self.delay, timeout, self.hop_latency, steps)
        return steps * self.law(timeout).duration / self.nodes

    def most_updates_timeout(self) -> float:
        """Return the timeout with the least time between updates."""
        return choose_timeout_ready(self.delay, self.hop_latency, self.nodes, self.ready, turns=self._turns).timeout

    def timeouts(self) -> set[float]:
        """Return timeouts that a search may begin with."""
        found = {self.most_updates_timeout()}
        for skip in _SKIPS:
            # Not every law has a timeout for every skip probability: nodes may be dead, or ready at once.
            with contextlib.suppress(InvalidInput):
                found.add(timeout_for_skip(self.delay, skip))
        if self.ready != "fresh":  # nodes that remember need far less patience
            found |= set(np.geomspace(1e-2 * min(found), min(found), 4).tolist())
        return {timeout for timeout in found if timeout > 0.0}

    def run(self, steps: int, skip: float, timeout: float = math.inf) -> PlannedRun:
        """Return the record of a run of this budget; its noise is still to be chosen.

        Where nodes remember, skips are not independent: those that are sure to update count (docs/privacy.md), and a
        hundredth of delta is for rounds with fewer of them.
        """
        record = planned_run(
            schedule=self.schedule,
            nodes=self.nodes,
            steps=steps,
            skip=skip if self.ready == "fresh" else 0.0,
            noise_multiplier=1.0,
            protects=self.protects,
            parts=self.parts,
        )
        if self.ready == "fresh":
            return record
        late = Remembering(delay=self.delay, timeout=timeout, ready=self.ready, hop_latency=self.hop_latency)
        failure = 1e-2 * self.delta
        others = sure_others(late, nodes=self.nodes, rounds=record.rounds, failure=failure)
        return record.replace(others=others, failure=failure)
