"""What learning together is measured by, on one split of the rows: guess, learn alone, or put all rows in one place.

All of it takes the model, the learning rate and the clipping of the run file. A learner without noise makes as many
updates as the run has hops. A learner in one place with noise makes as many as a node has turns in the run, each of
them charged in full. That is, k updates that a unit takes part in are one Gaussian mechanism with the root of k times
as large a mu. That holds for an observer who sees all of them, so also for one who is shown the last model only; no
smaller number is proven here.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from .._arrays import Floats
from ..data import Dataset, NodeData
from ..delays import Exponential
from ..errors import InvalidInput
from ..learning import LinearModel, guess_errors, row_errors
from ..runs import RunFile, Stragglers, by_key, dealt_rows, turns_per_node, units_of_nodes, usual_batch
from ..schedules import Schedule
from ..simulation import DealtRows, Lateness, Setup, planned, run_one, setup_on
from .central import central_noise, ring_noise


@dataclass(frozen=True)
class Case:
    """Who learns (guess, own guess, alone, together, pooled), and at which epsilon; None: without noise."""

    who: str
    epsilon: float | None = None


@dataclass(frozen=True, eq=False)
class Score:
    """Test errors: as mean over nodes, over all test rows, and at each node (nan where it has no test rows).

    Where rows belong to nodes, a node's model is tested on the test rows of that node. Else all are tested on all.
    """

    mean_over_nodes: float
    all_rows: float
    at_nodes: Floats
    noise_multiplier: float = 0.0


@dataclass(frozen=True)
class _OneNode(Schedule):
    """Nobody but one node, whose turn it always is."""

    name: ClassVar[str] = "one place"
    nodes: int = 1

    def __post_init__(self) -> None:
        """Take one node, which no ring is made of."""

    def _path(self, steps: int, rng: np.random.Generator) -> NDArray[np.int32]:
        return np.zeros(steps, np.int32)


def cases_of(run: RunFile, epsilons: Sequence[float], *, own_rows: bool) -> list[Case]:
    """Return all that can be asked of a run; `own_rows` says whether test rows belong to nodes, too."""
    cases = [Case("guess"), *([Case("own guess")] if own_rows else []), Case("alone")]
    cases += [Case("alone", epsilon) for epsilon in epsilons]
    cases += [Case("together", epsilon) for epsilon in epsilons] + [Case("together")]
    if run.privacy.protects != "node":  # in one place nobody knows whose node a row is of
        cases += [Case("pooled", epsilon) for epsilon in epsilons]
    return [*cases, Case("pooled")]


class OneSplit:
    """One way to set test rows aside, and who reaches which error on them; the run file's seed decides which rows."""

    def __init__(self, run: RunFile, dataset: Dataset) -> None:
        if run.model.is_network:
            reason = "baselines are there for linear models (model.features make more of them), not for networks"
            raise InvalidInput.because("model.name", run.model.name, reason)
        # Where nodes learn how long to wait, their noise is that of a run in which nobody is skipped.
        self._run = run.having(
            delay={"timeout": math.inf} if run.delay.timeout == "adaptive" else {},
            privacy={"noise_multiplier": 0.0, "epsilon": None},
            simulation={"evaluate_every": 10**9},
        )
        dataset, ready, owned = dealt_rows(self._run, dataset)
        self._setup = setup_on(self._run, DealtRows.of(self._run, dataset, ready, owned))
        model = self._setup.model
        assert isinstance(model, LinearModel)
        self._model, self._classes = model, len(dataset.classes)
        by_groups = run.data.split in (None, "groups")
        #: The node of each test row, where test rows belong to nodes.
        self.groups = ready.test_groups if by_groups else None

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return self._setup.data.nodes

    @property
    def updates(self) -> tuple[int, int]:
        """How many updates are made in one place: without noise, and with."""
        setup = self._setup
        return setup.steps, turns_per_node(self.nodes, setup.steps, iterations=setup.iterations)

    @property
    def units(self) -> int:
        """How many records, persons or nodes are protected."""
        return sum(self._setup.units or ())

    def score(self, case: Case) -> Score:
        """Return what comes out of one case."""
        return getattr(self, "_" + case.who.replace(" ", "_"))(case.epsilon)

    def _guess(self, _: float | None) -> Score:
        return self._scored([guess_errors(self._setup.data.labels, self._setup.test_y, classes=self._classes)])

    def _own_guess(self, _: float | None) -> Score:
        nodes = [self._rows_of(node) for node in range(self.nodes)]
        return self._scored([guess_errors(own.labels, self._setup.test_y, classes=self._classes) for own in nodes])

    def check(self, epsilons: Sequence[float]) -> None:
        """Refuse epsilons that no noise, or no proof, keeps in this run."""
        for epsilon in epsilons:
            self._ring_noise(epsilon)

    def _ring_noise(self, epsilon: float) -> float:
        with by_key():
            run = planned(self._setup.having(noise_multiplier=1.0), delta=self._run.privacy.delta)
            return ring_noise(run, epsilon, self._run.privacy.delta)

    def _together(self, epsilon: float | None) -> Score:
        noise = 0.0 if epsilon is None else self._ring_noise(epsilon)
        return self._scored([self._errors(self._setup.having(noise_multiplier=noise), 0)], noise)

    def _alone(self, epsilon: float | None) -> Score:
        setups = [self._in_one_place(self._rows_of(node), 1, epsilon) for node in range(self.nodes)]
        errors = [self._errors(setup, 1 + node) for node, setup in enumerate(setups)]
        return self._scored(errors, float(np.median([setup.noise_multiplier for setup in setups])))

    def _pooled(self, epsilon: float | None) -> Score:
        data = self._setup.data
        setup = self._in_one_place(
            dataclasses.replace(data, start=np.array([0, len(data.labels)])), self.nodes, epsilon
        )
        return self._scored([self._errors(setup, 0)], setup.noise_multiplier)

    def _rows_of(self, node: int) -> NodeData:
        data = self._setup.data
        low, high = int(data.start[node]), int(data.start[node + 1])
        persons = None if data.persons is None else data.persons[low:high]
        return NodeData(data.features[low:high], data.labels[low:high], np.array([0, high - low]), persons)

    def _in_one_place(self, data: NodeData, nodes: int, epsilon: float | None) -> Setup:
        """Return the setup of a place with the rows of `nodes`; an update takes as many rows as theirs would."""
        setup, protection = self._setup, self._setup.protection
        if protection.batch is not None:
            most = len(data.labels) if protection.unit == "node" else usual_batch(self._run, data)
            protection = dataclasses.replace(protection, batch=min(nodes * protection.batch, most))
        quiet, noisy = self.updates
        alone = dataclasses.replace(
            setup,
            run=self._run.having(delay={"patient_every": None}, learning={"clip_noisy": None}),
            nodes=1,
            units=units_of_nodes(data, protection),
            steps=quiet if epsilon is None else noisy,
            delay=Exponential(1.0),
            timeout=math.inf,
            protection=protection,
            schedule=_OneNode(),
            stragglers=Stragglers(),
            lateness=Lateness(),
            data=data,
        )
        if epsilon is None:
            return alone
        charged = -(-noisy // alone.part_counts[0])  # rows that take turns take part in this many of them
        return alone.having(noise_multiplier=central_noise(charged, epsilon, self._run.privacy.delta))

    def _errors(self, setup: Setup, number: int) -> Floats:
        """Return the error on each test row of what a run ends with."""
        # One test row will do while it learns: to lay all of them out again for each node takes longer than learning.
        learns = dataclasses.replace(setup, test_x=setup.test_x[:1], test_y=setup.test_y[:1])
        w = run_one(learns, number).model
        return row_errors(self._model, w, setup.test_x, setup.test_y)

    def _scored(self, errors: Sequence[Floats], noise: float = 0.0) -> Score:
        """Return the score of errors on each test row, of a model for all nodes or of one for each."""
        each = list(errors) if len(errors) > 1 else [errors[0]] * self.nodes
        if self.groups is None:
            at_nodes = np.array([one.mean() for one in each])
            return Score(float(at_nodes.mean()), float(at_nodes.mean()), at_nodes, noise)
        mine = [one[self.groups == node] for node, one in enumerate(each)]
        at_nodes = np.array([own.mean() if len(own) else math.nan for own in mine])
        return Score(float(np.nanmean(at_nodes)), float(np.concatenate(mine).mean()), at_nodes, noise)
