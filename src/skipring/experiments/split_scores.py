"""What learning together is measured by, on one split of the rows: guess, learn alone, or put all rows in one place.

One place without noise takes a solver: the model's loss is minimised to the end, with a ridge that is cross-validated
on the rows it learns from. With noise it learns by laps of one node, whatever the schedule of the run. That is the
noise of a trusted server, and covers an observer who sees all sums.
"""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._arrays import Floats
from ..data import Dataset, NodeData
from ..delays import Exponential
from ..errors import InvalidInput
from ..learning import LinearModel, guess_errors, usual_laps
from ..runs import RunFile, Stragglers, by_key, dealt_rows, units_of_nodes, usual_batch
from ..schedules import Laps
from ..simulation import DealtRows, Lateness, Setup, noise_for, run_one, setup_on
from .solver import cross_validated, solved


@dataclass(frozen=True)
class Case:
    """Who learns (guess, own guess, alone, together, pooled), and at which epsilon; None: without noise."""

    who: str
    epsilon: float | None = None


@dataclass(frozen=True, eq=False)
class Score:
    """How wrong predictions are on test rows: as mean over nodes, over all rows, and at each (nan: no test rows).

    Where rows belong to nodes, a node's model is tested on the test rows of that node. Else all are tested on all. The
    log loss (mean over nodes, over all rows) is there for models that tell how likely classes are; `auc`, of all rows,
    for two classes.
    """

    mean_over_nodes: float
    all_rows: float
    at_nodes: Floats
    log_loss: tuple[float, float] | None
    auc: float | None
    noise_multiplier: float = 0.0


class _Predicted(NamedTuple):
    """What a model comes to on each test row: its error, its log loss, and how much speaks for the second class."""

    errors: Floats
    losses: Floats
    scores: Floats


@dataclass(frozen=True, kw_only=True)
class _OnePlace(Laps):
    """Laps of nobody but one node, from which nobody has to hide its share of the noise."""

    nodes: int = 1
    coalition: int | None = 0
    least_nodes: int | None = 1

    def __post_init__(self) -> None:
        """Take one node, which no laps between nodes are made of."""


def cases_of(run: RunFile, epsilons: Sequence[float], *, own_rows: bool) -> list[Case]:
    """Return all that can be asked of a run; `own_rows` says whether test rows belong to nodes, too."""
    # In one place nobody knows whose node a row is of, and laps protect no nodes.
    noisy = [] if run.privacy.protects == "node" else epsilons
    cases = [Case("guess"), *([Case("own guess")] if own_rows else []), Case("alone")]
    cases += [Case("alone", epsilon) for epsilon in noisy]
    cases += [Case("together", epsilon) for epsilon in epsilons] + [Case("together")]
    return [*cases, *(Case("pooled", epsilon) for epsilon in noisy), Case("pooled")]


class OneSplit:
    """One way to set test rows aside, and who reaches what on them; the run file's seed decides which rows."""

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
    def units(self) -> int:
        """How many records, persons or nodes are protected."""
        return sum(self._setup.units or ())

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows are learned from, and how many columns they have."""
        rows, columns = self._setup.data.features.shape
        return rows, columns

    def scores(self, cases: Sequence[Case], pool: ThreadPoolExecutor, stop: threading.Event | None) -> Iterator[Score]:
        """Yield what comes out of each case, as long as nobody asks to stop."""

        def score(case: Case) -> Score | None:
            return None if stop is not None and stop.is_set() else self.score(case)

        for found in pool.map(score, cases):
            if found is None:
                return
            yield found

    def score(self, case: Case) -> Score:
        """Return what comes out of one case."""
        return getattr(self, "_" + case.who.replace(" ", "_"))(case.epsilon)

    def check(self, epsilons: Sequence[float]) -> None:
        """Refuse epsilons that no noise, or no proof, keeps in this run."""
        for epsilon in epsilons:
            self._noisy(self._setup, epsilon)
            if self._run.privacy.protects != "node":
                self._in_one_place(self._rows_of(0), epsilon)

    def _guess(self, _: float | None) -> Score:
        return self._scored([self._guessed(self._setup.data.labels)])

    def _own_guess(self, _: float | None) -> Score:
        return self._scored([self._guessed(own.labels) for own in self._places("alone")])

    def _together(self, epsilon: float | None) -> Score:
        setup = self._noisy(self._setup, epsilon)
        return self._scored([self._learned(setup, 0)], setup.noise_multiplier)

    def _alone(self, epsilon: float | None) -> Score:
        return self.solved("alone") if epsilon is None else self._noisy_laps("alone", epsilon)

    def _pooled(self, epsilon: float | None) -> Score:
        return self.solved("pooled") if epsilon is None else self._noisy_laps("pooled", epsilon)

    def solved(self, who: str, ridge: float | None = None) -> Score:
        """Return the score of models without noise, of each node or of one place: with this ridge, or the best."""
        found = []
        for place, own in enumerate(self._places(who)):
            rng = np.random.default_rng((self._run.simulation.seed, place))
            best = cross_validated(self._model, own.features, own.labels, rng) if ridge is None else ridge
            found.append(self._predicted(solved(self._model, own.features, own.labels, best)))
        return self._scored(found)

    def _noisy_laps(self, who: str, epsilon: float) -> Score:
        setups = [self._in_one_place(own, epsilon) for own in self._places(who)]
        found = [self._learned(setup, 1 + place) for place, setup in enumerate(setups)]
        return self._scored(found, setups[0].noise_multiplier)

    def _places(self, who: str) -> list[NodeData]:
        """Return the rows of each place that learns without others: of every node, or of all together."""
        data = self._setup.data
        if who == "pooled":
            return [dataclasses.replace(data, start=np.array([0, len(data.labels)]))]
        return [self._rows_of(node) for node in range(self.nodes)]

    def _rows_of(self, node: int) -> NodeData:
        data = self._setup.data
        low, high = int(data.start[node]), int(data.start[node + 1])
        persons = None if data.persons is None else data.persons[low:high]
        return NodeData(data.features[low:high], data.labels[low:high], np.array([0, high - low]), persons)

    def _noisy(self, setup: Setup, epsilon: float | None) -> Setup:
        """Return the setup with the noise that keeps an epsilon, or none."""
        if epsilon is None:
            return setup
        with by_key():
            return setup.having(noise_multiplier=noise_for(setup, epsilon, self._run.privacy.delta))

    def _in_one_place(self, data: NodeData, epsilon: float) -> Setup:
        """Return the setup of laps in one place with these rows."""
        setup = self._setup
        protection = dataclasses.replace(setup.protection, batch=usual_batch(self._run, data))
        by_laps = isinstance(setup.schedule, Laps)
        alone = dataclasses.replace(
            setup,
            run=self._run.having(
                schedule={"name": Laps.name, "steps": None},
                delay={"patient_every": None},
                learning={"clip_noisy": None},
            ),
            nodes=1,
            units=units_of_nodes(data, protection),
            steps=setup.steps if by_laps else usual_laps(self._model, self._run.laps.optimiser),
            delay=Exponential(1.0),
            timeout=math.inf,
            protection=protection,
            schedule=_OnePlace(),
            stragglers=Stragglers(),
            lateness=Lateness(),
            data=data,
        )
        return self._noisy(alone, epsilon)

    def _learned(self, setup: Setup, number: int) -> _Predicted:
        """Return what a run ends with comes to."""
        # One test row will do while it learns: to lay all of them out again for each node takes longer than learning.
        learns = dataclasses.replace(setup, test_x=setup.test_x[:1], test_y=setup.test_y[:1])
        return self._predicted(run_one(learns, number).model)

    def _predicted(self, w: Floats) -> _Predicted:
        scores, y = self._setup.test_x @ w.reshape(self._model.shape).T, self._setup.test_y
        loss = self._model.loss
        return _Predicted(loss.errors(scores, y), loss.values(scores, y), scores)

    def _guessed(self, labels: NDArray[Any]) -> _Predicted:
        """Return what it comes to if each class is said to be as likely as it is common among these labels."""
        test_y, classes = self._setup.test_y, self._classes
        errors = guess_errors(labels, test_y, classes=classes)
        if not classes:
            return _Predicted(errors, errors, errors)
        # One row more, shared by all classes, so that none is impossible.
        counts = np.bincount(labels.astype(np.int64), minlength=classes) + 1.0 / classes
        share = counts / counts.sum()
        return _Predicted(errors, -np.log(share[test_y.astype(np.int64)]), np.full(len(test_y), share[-1]))

    def _scored(self, found: Sequence[_Predicted], noise: float = 0.0) -> Score:
        """Return the score of what a model for all nodes comes to on each test row, or one for each."""
        nodes, groups, y = self.nodes, self.groups, self._setup.test_y

        def of_rows(values: Sequence[Floats]) -> tuple[Floats, float]:
            """Return means at each node, and over all rows."""
            each = np.array(values)
            if groups is None:
                means = each.mean(axis=1)
                return np.resize(means, nodes), float(means.mean())
            own = _own(each, groups)
            with np.errstate(invalid="ignore"):
                at_nodes = np.bincount(groups, own, nodes) / np.bincount(groups, minlength=nodes)
            return at_nodes, float(own.mean())

        at_nodes, all_rows = of_rows([one.errors for one in found])
        log_loss = auc = None
        if self._model.loss.has_probabilities:
            losses, of_all = of_rows([one.losses for one in found])
            log_loss = float(np.nanmean(losses)), of_all
        if self._classes == 2 and len(self._model.shape) == 1 and np.ptp(y):
            scores = np.array([one.scores for one in found])
            auc = float(np.mean([_auc(y, each) for each in (scores if groups is None else [_own(scores, groups)])]))
        return Score(float(np.nanmean(at_nodes)), all_rows, at_nodes, log_loss, auc, noise)


def _own(each: Floats, groups: NDArray[Any]) -> Floats:
    """Return for each test row what the model of its node says; one model is that of all nodes."""
    return each[0 if len(each) == 1 else groups, np.arange(each.shape[1])]


def _auc(y: NDArray[Any], scores: Floats) -> float:
    from sklearn.metrics import roc_auc_score  # slow to import

    return float(roc_auc_score(y, scores))
