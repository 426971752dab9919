"""Four real hospitals learn together and protect each patient: accuracy against epsilon, beside what else they could
do.

Learning rate, length and clipping are searched anew for every split, on rows that are split off its training rows. So
what a model is tested on was never looked at before. No epsilon covers that search.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._arrays import Floats
from ..data import Dataset, load_dataset
from ..privacy import gdp_epsilon
from ..runs import parse_run
from ..schedules import USUAL_SCHEDULE
from ..simulation import Interrupted, RunOutput, Setup, build, planned, run_one, transcript_account
from .central import Tuning, central_noise, descend, ring_noise

DELTA = 1e-4
#: Who learns from what, and whom the noise protects.
METHODS = {
    "record": "together, each patient hidden",
    "own": "same, hospital as a column",
    "node": "together, each hospital hidden",
    "no noise": "together, nobody hidden",
    "alone": "each alone, patients hidden",
    "pooled": "in one place, patients hidden",
}
#: Accuracy of a model that calls all patients sick: mean over hospitals, and of all rows.
ALWAYS_SICK = (0.647, 0.518)
#: FLamby's accuracy for the same rows (arXiv 2210.04620; mean over hospitals; a server, noise at each hospital, delta
#: 1e-4; None: without noise), in the two versions that its repository has of the table behind the paper's figure.
FLAMBY: dict[str, dict[float | None, float]] = {
    "FLamby, one table": {None: 0.713, 10.0: 0.700, 5.0: 0.704, 1.0: 0.685, 0.1: 0.606},
    "FLamby, other table": {None: 0.789, 10.0: 0.777, 5.0: 0.774, 1.0: 0.781, 0.1: 0.664},
}
_TEST_SHARE, _VALIDATION_SHARE = 0.34, 1.0 / 3.0
_DIAMETER = 10.0


def _grid(
    rounds: Sequence[int], rates: Sequence[float], laws: Sequence[Literal["constant", "sqrt"]], bounds: Sequence[float]
) -> tuple[Tuning, ...]:
    return tuple(
        Tuning(rounds=r, rate=rate, step_size=law, gradient_bound=bound)
        for r, law, rate, bound in itertools.product(rounds, laws, rates, bounds)
    )


@dataclass(frozen=True, kw_only=True)
class Study:
    """How much is tried.

    Parameters
    ----------
    splits : how often a third of each hospital's rows is set aside for testing.
    folds : how often, for each split, a third of its training rows is set aside to choose among the grid.
    draws : how many models are learned with what was chosen, for each split.
    epsilons : the budgets.
    grid : what is searched; both kinds of learning take the same, and so does no noise.
    seed : the same seed gives the same numbers.
    """

    splits: int = 20
    folds: int = 3
    draws: int = 5
    epsilons: tuple[float, ...] = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
    grid: tuple[Tuning, ...] = _grid((5, 20), (1.0, 4.0), ("constant", "sqrt"), (0.2, 0.4, 1.0))
    seed: int = 1

    @classmethod
    def quick(cls) -> Study:
        """Return a study of a few seconds, for a look."""
        return cls(
            splits=4, folds=1, draws=2, epsilons=(0.5, 1.0, 5.0), grid=_grid((10,), (1.0, 4.0), ("constant",), (0.4,))
        )

    @property
    def cases(self) -> list[tuple[str, float | None]]:
        """All methods with their epsilons; None where nothing is protected."""
        return [(name, epsilon) for name in METHODS for epsilon in ((None,) if name == "no noise" else self.epsilons)]

    @property
    def pieces(self) -> int:
        """How many pieces of work there are: one for each case and split."""
        return self.splits * len(self.cases)


@dataclass(frozen=True)
class Quartiles:
    """Mean, median and quartiles over runs."""

    mean: float
    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Floats) -> Quartiles:
        """Return those of one number for each run."""
        return cls(float(np.mean(values)), *(float(value) for value in np.quantile(values, (0.25, 0.5, 0.75))))


@dataclass(frozen=True, kw_only=True)
class StudyRow:
    """What one method reached at one epsilon: accuracies over all runs, their quartiles, and what was chosen.

    `realised` is the epsilon of the worst pair on the paths that were taken, median and largest over runs. The epsilon
    that was asked for holds for a pair that was named before.
    """

    method: str
    epsilon: float | None
    runs: int
    mean_over_hospitals: Quartiles
    all_rows: Quartiles
    by_hospital: tuple[float, ...]
    chosen: str
    chosen_share: float
    noise_multiplier: float
    realised: tuple[float, float] | None


def hospital_study(
    study: Study,
    *,
    dataset: Dataset | None = None,
    stop: threading.Event | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[StudyRow]:
    """Carry a study out, split by split."""
    dataset = load_dataset("hospitals") if dataset is None else dataset
    found: dict[tuple[str, float | None], list[_Tried]] = {case: [] for case in study.cases}
    for number in range(study.splits):
        work = _Split(study, dataset, number)
        for place, (method, epsilon) in enumerate(study.cases):
            if stop is not None and stop.is_set():
                raise Interrupted(f"{number} of {study.splits} splits are finished")
            found[method, epsilon].append(work.tried(method, epsilon))
            if progress is not None:
                progress(number * len(study.cases) + place + 1)
    return [_row(method, epsilon, tried) for (method, epsilon), tried in found.items()]


@dataclass(frozen=True, eq=False)
class _Tried:
    """What came out of one split: accuracies (a row for each model: hospitals, then all rows), and what was chosen."""

    accuracy: Floats
    chosen: list[Tuning]
    noise: float
    realised: list[float]


def _row(method: str, epsilon: float | None, found: list[_Tried]) -> StudyRow:
    accuracy = np.concatenate([tried.accuracy for tried in found])
    chosen = Counter(str(tuning) for tried in found for tuning in tried.chosen)
    most, times = chosen.most_common(1)[0]
    realised = [value for tried in found for value in tried.realised]
    return StudyRow(
        method=method,
        epsilon=epsilon,
        runs=len(accuracy),
        mean_over_hospitals=Quartiles.of(accuracy[:, :-1].mean(axis=1)),
        all_rows=Quartiles.of(accuracy[:, -1]),
        by_hospital=tuple(accuracy[:, :-1].mean(axis=0).tolist()),
        chosen=most,
        chosen_share=times / chosen.total(),
        noise_multiplier=float(np.median([tried.noise for tried in found])),
        realised=(float(np.median(realised)), max(realised)) if realised else None,
    )


class _End(NamedTuple):
    """A simulated run: what decided it, and what came out."""

    setup: Setup
    output: RunOutput


class _Split:
    """One split of the rows, and the folds of its training rows on which is chosen."""

    def __init__(self, study: Study, dataset: Dataset, number: int) -> None:
        rng = np.random.default_rng((study.seed, number))
        self._study, self._seed = study, (study.seed, number)
        whole = _set_aside(dataset, _TEST_SHARE, rng)
        assert whole.test_rows is not None
        training = whole.part(~whole.test_rows)
        #: The split itself is number 0.
        self._rows = [whole, *(_set_aside(training, _VALIDATION_SHARE, rng) for _ in range(study.folds))]
        self._rows_with_hospital = [_with_hospital(rows) for rows in self._rows]
        self._setups: dict[tuple[Any, ...], Setup] = {}

    def tried(self, method: str, epsilon: float | None) -> _Tried:
        """Choose on the folds, then learn and test on the split itself."""
        if method == "alone":
            return self._alone(epsilon)
        rows, grid = self._rows_with_hospital if method == "own" else self._rows, self._study.grid
        score = np.zeros(len(grid))
        for fold in range(1, len(rows)):
            if method == "pooled":
                models = self._descended(fold, epsilon, grid)
            else:
                models = np.array([self._ring(fold, method, epsilon, tuning).output.model for tuning in grid])
            score += _accuracy(models, rows[fold])[:, :-1].mean(axis=1)
        best = grid[int(np.argmax(score))]
        if method == "pooled":
            models = self._descended(0, epsilon, [best] * self._study.draws)
            return _Tried(_accuracy(models, rows[0]), [best], _central(epsilon, best), [])
        ends = [self._ring(0, method, epsilon, best, draw) for draw in range(self._study.draws)]
        models = np.array([end.output.model for end in ends])
        realised = [_worst_pair(end) for end in ends] if epsilon is not None else []
        return _Tried(_accuracy(models, rows[0]), [best], ends[0].setup.noise_multiplier, realised)

    def _alone(self, epsilon: float | None) -> _Tried:
        """Let every hospital choose for itself, learn from its own rows, and be tested on its own."""
        grid, columns, chosen = self._study.grid, [], []
        for hospital in range(len(self._rows[0].group_names)):
            score = np.zeros(len(grid))
            for fold in range(1, len(self._rows)):
                models = self._descended(fold, epsilon, grid, hospital)
                score += _right(models, *_rows(self._rows[fold], test=True, hospital=hospital)[:2]).mean(axis=1)
            chosen.append(grid[int(np.argmax(score))])
            models = self._descended(0, epsilon, [chosen[-1]] * self._study.draws, hospital)
            columns.append(_right(models, *_rows(self._rows[0], test=True, hospital=hospital)[:2]))
        means = np.column_stack([column.mean(axis=1) for column in columns])
        accuracy = np.column_stack([means, np.concatenate(columns, axis=1).mean(axis=1)])
        return _Tried(accuracy, chosen, float(np.median([_central(epsilon, tuning) for tuning in chosen])), [])

    def _descended(
        self, fold: int, epsilon: float | None, tunings: Sequence[Tuning], hospital: int | None = None
    ) -> Floats:
        """Return a model for each tuning, learned in one place from the rows of all hospitals or of one."""
        x, y, _ = _rows(self._rows[fold], test=False, hospital=hospital)
        rng = np.random.default_rng((*self._seed, fold, 0 if hospital is None else 1 + hospital))
        return descend(x, y, tunings, [_central(epsilon, one) for one in tunings], rng, diameter=_DIAMETER)

    def _ring(self, fold: int, method: str, epsilon: float | None, tuning: Tuning, draw: int = 0) -> _End:
        """Simulate the run that a run file with these values describes."""
        key = (fold, method, tuning)
        if key not in self._setups:
            sections = _sections("node" if method == "node" else "record", tuning)
            sections["simulation"] = {"seed": _number(*self._seed, fold), "evaluate_every": 10**6}
            rows = self._rows_with_hospital if method == "own" else self._rows
            self._setups[key] = build(parse_run(sections), rows[fold])
        setup = self._setups[key]
        noise = 0.0 if epsilon is None else ring_noise(planned(setup), epsilon, DELTA)
        setup = setup.having(noise_multiplier=noise)
        return _End(setup, run_one(setup, draw))


def _number(*seeds: int) -> int:
    return int(np.random.SeedSequence(seeds).generate_state(1)[0])


def _sections(protects: str, tuning: Tuning) -> dict[str, dict[str, Any]]:
    """Return the run file of one tuning: a random ring on which nobody is skipped.

    An update takes all rows of a hospital; their sum is divided by the number of rows of the largest.
    """
    return {
        "data": {"name": "hospitals", "standardise": False, "unit_rows": False},
        "model": {"name": "logistic", "classes": ["healthy", "sick"]},
        "schedule": {"name": USUAL_SCHEDULE, "steps": 4 * tuning.rounds},
        "delay": {"timeout": math.inf},
        "learning": {
            "rate": tuning.rate,
            "step_size": tuning.step_size,
            "gradient_bound": tuning.gradient_bound,
            "diameter": _DIAMETER,
        },
        # The noise for a budget takes its place.
        "privacy": {"protects": protects, "noise_multiplier": 1.0, "delta": DELTA},
    }


def _central(epsilon: float | None, tuning: Tuning) -> float:
    return 0.0 if epsilon is None else central_noise(tuning.rounds, epsilon, DELTA)


def _worst_pair(end: _End) -> float:
    """Return the epsilon of the worst pair of hospitals on the path that was taken."""
    account = transcript_account(end.setup, end.output)
    return gdp_epsilon(account.worst(threads=1).mu, DELTA)


def _set_aside(dataset: Dataset, share: float, rng: np.random.Generator) -> Dataset:
    """Draw a share of each hospital's rows for testing."""
    assert dataset.groups is not None
    test = np.zeros(len(dataset.labels), bool)
    for hospital in range(len(dataset.group_names)):
        mine = np.flatnonzero(dataset.groups == hospital)
        test[rng.permutation(mine)[: round(share * len(mine))]] = True
    return dataclasses.replace(dataset, test_rows=test)


def _with_hospital(dataset: Dataset) -> Dataset:
    """Add a column for each hospital, which is no secret: a patient's hospital is public.

    Any two of them are as far apart as two categories are, and rows stay within norm 1.
    """
    old = math.sqrt(6.0 / 7.0)
    assert dataset.groups is not None
    places = np.eye(len(dataset.group_names))[dataset.groups] * math.sqrt(1.0 / 7.0)
    names = (*dataset.feature_names, *dataset.group_names)
    return dataclasses.replace(dataset, features=np.hstack([old * dataset.features, places]), feature_names=names)


def _rows(dataset: Dataset, *, test: bool, hospital: int | None = None) -> tuple[Floats, NDArray[Any], NDArray[Any]]:
    """Return features, labels and hospitals of the test or the training rows, of one hospital or of all."""
    assert dataset.groups is not None
    assert dataset.test_rows is not None
    mask = dataset.test_rows if test else ~dataset.test_rows
    if hospital is not None:
        mask = mask & (dataset.groups == hospital)
    return dataset.features[mask], dataset.labels[mask], dataset.groups[mask]


def _right(models: Floats, x: Floats, y: NDArray[Any]) -> NDArray[np.bool_]:
    """Say for each model (row) and each patient (column) whether the prediction is right."""
    right: NDArray[np.bool_] = (models @ x.T > 0.0) == (y == 1)
    return right


def _accuracy(models: Floats, dataset: Dataset) -> Floats:
    """Return the accuracy of each model (row) on the test rows: at each hospital, and of all rows."""
    x, y, groups = _rows(dataset, test=True)
    right = _right(models, x, y)
    columns = [right[:, groups == hospital].mean(axis=1) for hospital in range(len(dataset.group_names))]
    return np.column_stack([*columns, right.mean(axis=1)])
