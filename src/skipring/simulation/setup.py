"""What decides a simulated run, and what it leaves."""

from __future__ import annotations

import dataclasses
import math
import secrets
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from .._arrays import AnyInts, Floats
from ..data import NodeData, require_finite_labels, require_single_precision, require_unit_rows
from ..errors import InvalidInput
from ..learning import LinearModel, NeuralModel, Protection, deal_parts, most_units, parts_stream
from ..runs import ResolvedRun, Stragglers, units_of_nodes
from ..schedules import RIVALS, Laps, Rival, Schedule
from .lateness import Lateness

#: Errors are computed in single precision, in which squares of larger numbers overflow.
_MOST_TEST_LABEL = 1e18
#: Into how many pieces a computation is cut where no batch is agreed on.
_PIECES = 100


class Interrupted(Exception):
    """The simulation was stopped; finished runs are in its folder."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Course(ResolvedRun):
    """What decides a simulated run, but for its rows: what its file came to, who is next, and who is late.

    Nothing of what the file came to is open. `steps` are hops (iterations, without a token), but for the closing ones.
    `lateness` is what becomes of a node's preparation, how long it computes, and what traces say.
    """

    timeout: float
    model: LinearModel | NeuralModel
    protection: Protection
    noise_multiplier: float
    schedule: Schedule | Rival
    stragglers: Stragglers = field(default_factory=Stragglers)
    lateness: Lateness = field(default_factory=Lateness)

    def __post_init__(self) -> None:
        never_answers = self.stragglers.may_never_answer or self.delay.mass_at_infinity > 0.0
        if not self.timeout > 0.0:
            raise InvalidInput("timeout", self.timeout, "above 0, or infinity")
        if math.isinf(self.timeout) and never_answers:
            raise InvalidInput.because(
                "timeout", "infinity", "a node that never answers would be waited for without end; say how long"
            )
        available = self.lateness.availability
        if math.isinf(self.timeout) and available is not None and not available.always_sometimes:
            raise InvalidInput.because("timeout", "infinity", f"{available}: a node can never be reached")
        if self.schedule.nodes != self.nodes:
            raise InvalidInput("nodes", self.schedule.nodes, f"the number of nodes of the data, {self.nodes}")
        self.stragglers.check(self.nodes)
        self.lateness.check(self.delay)
        if isinstance(self.schedule, Rival):
            self._check_rival(self.schedule)
        else:
            self._check_token(never_answers)

    def _check_token(self, never_answers: bool) -> None:
        """Refuse what only the rivals of the token can do, and patience without end."""
        clip_noisy, patient_every = self.run.learning.clip_noisy, self.run.delay.patient_every
        if clip_noisy is not None:
            raise InvalidInput.because(
                "clip_noisy",
                clip_noisy,
                f"is for schedules {' and '.join(name for name in RIVALS if name != Laps.name)} only",
            )
        if self.closing and isinstance(self.model, NeuralModel):
            reason = "without convexity each update counts in full, and no noise at the end hides it; say 0"
            raise InvalidInput.because("closing", self.closing, reason)
        if patient_every is not None and never_answers:
            reason = "a node that never answers would be waited for without end"
            raise InvalidInput.because("patient_every", patient_every, reason)

    def _check_rival(self, rival: Rival) -> None:
        """Refuse what only the token can do. A server waits for all that it asked, begun anew each time."""
        lateness, laps, clip_noisy = self.lateness, isinstance(rival, Laps), self.run.learning.clip_noisy
        if isinstance(self.model, NeuralModel) and not laps:
            raise InvalidInput.because("schedule", rival.name, "is there for linear models, not for networks")
        if clip_noisy is not None and laps:
            reason = "is for schedules whose noise is a node's own; what laps learn from is a sum"
            raise InvalidInput.because("clip_noisy", clip_noisy, reason)
        computes = lateness.compute is not None
        refused = {
            "patient_every": (self.run.delay.patient_every, True),
            # A server's forecast takes skips for independent.
            "ready": (None if lateness.ready == "fresh" else lateness.ready, not laps),
            "compute": (lateness.compute, not rival.leaves_late_out),
            "late": (None if lateness.late == "skip" else lateness.late, computes),
            "latency": (lateness.latency, not laps),
            "availability": (lateness.availability, not rival.leaves_late_out),
        }
        for parameter, (given, is_refused) in refused.items():
            if given is not None and is_refused:
                reason = f"is for schedules with a token only, not for {rival.name}"
                raise InvalidInput.because(parameter, given, reason)
        if not rival.leaves_late_out and (self.stragglers.may_never_answer or not self.stragglers.identical):
            reason = f"the schedule {rival.name} knows only delays that are all alike"
            raise InvalidInput.because("stragglers", "", reason)

    @property
    def full_batch(self) -> int:
        """The rows that a computing time is about: a constant of the run that no data decides.

        Where whole nodes are protected and use all of their rows, how many these are is as secret as what they say.
        There an update is made if a hundredth of the rows fits.
        """
        return _PIECES if self.protection.batch is None else self.protection.batch

    @property
    def iterations(self) -> bool:
        """Whether a step is an iteration of all nodes, and not a hop of a token."""
        return isinstance(self.schedule, Rival)

    @property
    def closing(self) -> int:
        """How many hops after the steps add noise and no gradient."""
        return 0 if isinstance(self.schedule, Rival) else self.schedule.closing_hops

    @property
    def hops(self) -> int:
        """All hops of the token, the closing ones included; iterations, where there is none."""
        return self.steps + self.closing

    def having(self, **changed: Any) -> Self:
        """Return the same with other values."""
        return dataclasses.replace(self, **changed)


@dataclass(frozen=True, kw_only=True, eq=False)
class Setup(Course):
    """Everything that decides what happens in a simulated run, but for its number: its course, and its rows.

    `labels_clipped` is how many labels of training rows were clipped to an agreed bound; None where there is none.
    `rows_left_out` is how many training rows were left out, where the rows of a person are limited. With `secret`,
    nobody can draw a run again: see `streams`.
    """

    data: NodeData
    test_x: Floats
    test_y: Floats
    labels_clipped: int | None = None
    rows_left_out: int | None = None
    secret: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nodes != self.data.nodes:
            raise InvalidInput("nodes", self.nodes, f"the number of nodes of the data, {self.data.nodes}")
        smallest, batch = int(self.data.sizes.min()), self.protection.batch
        if self.protection.unit == "node" and batch is not None and batch > smallest:
            raise InvalidInput("batch", batch, f"at most {smallest}, the number of rows of the smallest node")
        if self.units != (units := units_of_nodes(self.data, self.protection)):  # epsilon rests on them
            raise InvalidInput("units", self.units, f"those of the rows, {units}")
        for name, x in (("training", self.data.features), ("test", self.test_x)):
            if x.ndim != 2 or x.shape[1] != self.model.features:
                raise InvalidInput("features", x.shape, f"{self.model.features} columns in the {name} data")
            (require_unit_rows if isinstance(self.model, LinearModel) else require_single_precision)(x, name)
        self._check_labels()

    def _check_labels(self) -> None:
        """Refuse labels that are no numbers, and those with which a gradient could exceed the model's bound."""
        model, most, most_in_tests = self.model, math.inf, math.inf
        if isinstance(model, LinearModel) and model.loss.is_of_numbers:
            most_in_tests = _MOST_TEST_LABEL
            if not model.clips:
                most = model.label_bound
        require_finite_labels(self.data.labels, "training", most)
        require_finite_labels(self.test_y, "test", most_in_tests)

    @cached_property
    def parts(self) -> list[list[AnyInts]]:
        """For each node, the rows (numbered within the node) of each of the parts that its turns rotate through."""
        data = self.data
        persons = [None] * data.nodes if data.persons is None else np.split(data.persons, data.start[1:-1])
        return [
            deal_parts(int(rows), self.protection, parts_stream(self.run.simulation.seed, node), whose)
            for node, (rows, whose) in enumerate(zip(data.sizes, persons, strict=True))
        ]

    @property
    def most_units(self) -> int:
        """The most protected units that an update takes."""
        persons = self.data.persons
        return max(
            most_units(parts, self.protection, None if persons is None else persons[low:])
            for low, parts in zip(self.data.start[:-1], self.parts, strict=True)
        )

    def path(self, rng: np.random.Generator) -> NDArray[np.int32]:
        """Return the node of each hop of the token, the closing ones included."""
        assert isinstance(self.schedule, Schedule)
        return self.schedule.whole_path(self.steps, rng)

    def streams(self, number: int) -> tuple[np.random.Generator, np.random.Generator]:
        """Return where a run's path and delays come from, and its batches and noise.

        Both are one stream that follows from the seed, or, with `secret`, two of the operating system's randomness,
        which is kept nowhere. Two, because results tell of delays, and who knows what such a generator has drawn can
        compute what it draws next.
        """
        if self.secret:
            return _unforeseeable(), _unforeseeable()
        seeded = np.random.SeedSequence(self.run.simulation.seed, spawn_key=(number,))
        drawn = np.random.Generator(np.random.SFC64(seeded))
        return drawn, drawn

    @property
    def points(self) -> NDArray[np.int64]:
        """The numbers of hops after which metrics are taken: 0, and then every `evaluate_every`, and the end."""
        return np.append(np.arange(0, self.hops, self.run.simulation.evaluate_every), self.hops)


class Hops(NamedTuple):
    """What happens at each hop: whose turn it is, and whether it updates.

    `fewer` says how many rows each update takes at most, and at which row it begins; it is empty if all take all rows.
    """

    path: NDArray[np.int32]
    updated: NDArray[np.bool_]
    fewer: NDArray[np.int64]


class Learned(NamedTuple):
    """What a run ends with: test errors, losses and numbers of updates at the setup's points, and the last model."""

    test_error: Floats
    loss: Floats
    updates: NDArray[np.int64]
    model: Floats


@dataclass(frozen=True, eq=False)
class RunOutput:
    """What one run leaves: metrics at the setup's points, the last model, and the path.

    `turns` and `skips` count for each node how often it was its turn, and how often it did not update. `passed_on` says
    at which hops a node had the token and passed it on unchanged: it has looked, and added no noise (empty: nowhere).
    Where there is no token, there is no path, and the last model is the mean of all nodes' models. Of the first run of
    federated learning, `updated` says for each iteration who took part in it, node by node. `foreseeable` says that its
    noise could be computed again, from a seed or by trying all that a GPU begins with.
    """

    number: int
    test_error: Floats
    loss: Floats
    updates: NDArray[np.int64]
    model: Floats
    latency: Floats
    offered: NDArray[np.int32]
    updated: NDArray[np.bool_]
    turns: NDArray[np.int64]
    skips: NDArray[np.int64]
    passed_on: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    foreseeable: bool = True


def _unforeseeable() -> np.random.Generator:
    """Return a generator that begins with 384 bits of the operating system's randomness.

    Philox makes each block of its numbers from a secret key and a counter. The generator of runs with a seed would not
    do. A few of its numbers determine all others, and a model after one update shows as many as it has parameters.
    """
    secret = secrets.randbits(384)
    return np.random.Generator(np.random.Philox(key=secret >> 256, counter=secret & ((1 << 256) - 1)))
