"""Laps on real tables with sites: how far they are, at several epsilons, from all rows in one place without privacy.

Laps are what a run file without further words comes to; their constants were found on other splits of these tables.
Their rivals get the better of two ways, by the log loss on the test rows: a walk that of two learning rates, a site
alone that of two ridges.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from .._threads import one_blas_thread
from ..data import Dataset, consortium_tables, load_dataset
from ..planning import LAPS_CLOSE
from ..privacy import gdp_mu
from ..runs import RunFile, parse_run
from ..schedules import USUAL_SCHEDULE, Laps
from ..simulation import Interrupted
from .split_scores import Case, OneSplit, Score

#: Who learns from what.
LAPS_WHO = {
    "own guess": "majority of the site",
    "alone": "each site alone, no noise",
    "walk": "shared, walk",
    Laps.name: "shared, laps",
    "pooled": "all rows in one place",
    "best": "same, ridge cross-validated",
}
HOSPITALS = "hospitals"
#: The ridge of scikit-learn's LogisticRegression if nobody says, and a lighter one, which sites alone fare better with.
_USUAL_RIDGE, _LIGHT_RIDGE = 1.0, 0.3
_MOST_DELTA = 1e-4


@dataclass(frozen=True, kw_only=True)
class LapStudy:
    """Which tables, how often test rows are set aside (`runs`), and at which epsilons.

    The same seed gives the same numbers.
    """

    tables: tuple[str, ...] = (HOSPITALS, *consortium_tables())
    runs: int = 9
    epsilons: tuple[float, ...] = (0.5, 1.0, 2.0, 8.0)
    rates: tuple[float, ...] = (3.0, 10.0)
    seed: int = 1

    @classmethod
    def quick(cls) -> LapStudy:
        """Return a study of some seconds, for a look."""
        return cls(tables=(HOSPITALS, "radon", "breast-cancer"), runs=3, epsilons=(1.0, 8.0))

    @property
    def ways(self) -> list[tuple[str, float | None, float | None]]:
        """All that is compared: who, at which epsilon, and with which rate or ridge (None: it follows from rows)."""
        walks = [("walk", epsilon, rate) for epsilon in self.epsilons for rate in self.rates]
        laps = [(Laps.name, epsilon, None) for epsilon in self.epsilons]
        quiet = [("alone", None, None), ("alone", None, _LIGHT_RIDGE), ("pooled", None, _USUAL_RIDGE)]
        return [("own guess", None, None), *quiet, ("best", None, None), *walks, *laps]

    @property
    def pieces(self) -> int:
        """How many pieces of work there are."""
        return len(self.tables) * self.runs * len(self.ways)


@dataclass(frozen=True, kw_only=True)
class LapsRow:
    """What one of them reached on a table: medians over splits, on all test rows.

    `excess` is the log loss above that of all rows in one place: with scikit-learn's usual ridge, and with one that is
    cross-validated. `strength` is rows x mu / columns, from which follows what is `promised`, if anything. `chosen` is
    the rate or the ridge (None: cross-validated).
    """

    table: str
    sites: int
    rows: int
    columns: int
    delta: float
    who: str
    epsilon: float | None
    log_loss: float
    accuracy: float
    auc: float
    excess: tuple[float, float]
    strength: float | None
    promised: float | None
    chosen: float | None


def lap_study(
    study: LapStudy,
    *,
    stop: threading.Event | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[LapsRow]:
    """Carry a study out, table by table."""
    with one_blas_thread(), ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for number, name in enumerate(study.tables):
            dataset = load_dataset(name if name == HOSPITALS else f"consortium:{name}")
            found: list[list[Score]] = []
            for split in range(study.runs):
                work = _Split(study, name, dataset, study.seed + split)
                found.append([])
                for score in pool.map(lambda way, of=work: of.score(*way, stop=stop), study.ways):
                    if score is None:
                        raise Interrupted(f"{number} of {len(study.tables)} tables are finished")
                    found[-1].append(score)
                    if progress is not None:
                        progress((number * study.runs + split) * len(study.ways) + len(found[-1]))
            yield from _rows(study, name, work, found)


class _Split:
    """One way to set test rows aside, and all who learn from the others."""

    def __init__(self, study: LapStudy, name: str, dataset: Dataset, seed: int) -> None:
        run = _run(name, dataset, seed)
        self.delta = run.privacy.delta
        self.laps = OneSplit(run, dataset)
        ring = {rate: run.having(schedule={"name": USUAL_SCHEDULE}, learning={"rate": rate}) for rate in study.rates}
        self._walks = {rate: OneSplit(walk, dataset) for rate, walk in ring.items()}

    def score(
        self, who: str, epsilon: float | None, way: float | None, *, stop: threading.Event | None
    ) -> Score | None:
        if stop is not None and stop.is_set():
            return None
        if who == "walk":
            assert way is not None
            return self._walks[way].score(Case("together", epsilon))
        if who in ("alone", "pooled", "best"):
            return self.laps.solved("alone" if who == "alone" else "pooled", ridge=way)
        return self.laps.score(Case("together" if who == Laps.name else who, epsilon))


def _run(name: str, dataset: Dataset, seed: int) -> RunFile:
    """Return the run file of a table: no row decides anything but what is learned."""
    dealt = consortium_tables().get(name, {}).get("dealt")
    return parse_run(
        {
            "data": {"name": dataset.name, "nodes": dealt, "standardise": False, "unit_rows": False},
            "model": {"name": "logistic", "classes": list(dataset.classes)},
            "schedule": {"name": Laps.name},
            "delay": {"timeout": math.inf},
            # Any of them takes the place of this epsilon.
            "privacy": {"protects": "record", "epsilon": 1.0, "delta": min(_MOST_DELTA, 0.1 / len(dataset.labels))},
            "simulation": {"seed": seed},
        }
    )


def _rows(study: LapStudy, name: str, work: _Split, found: list[list[Score]]) -> Iterator[LapsRow]:
    """Yield a row for each who and epsilon, of the way with the least log loss."""
    rows, columns = work.laps.shape
    numbers = np.array([[_numbers(score) for score in split] for split in found])
    medians = np.median(numbers, axis=0)
    best: dict[tuple[str, float | None], int] = {}
    for place, (who, epsilon, _) in enumerate(study.ways):
        if medians[place, 0] < medians[best.setdefault((who, epsilon), place), 0]:
            best[who, epsilon] = place
    losses = numbers[..., 0]
    above = [np.median(losses - losses[:, [best[who, None]]], axis=0) for who in ("pooled", "best")]
    for (who, epsilon), place in best.items():
        strength = None if epsilon is None else rows * gdp_mu(epsilon, work.delta) / columns
        yield LapsRow(
            table=name,
            sites=work.laps.nodes,
            rows=rows,
            columns=columns,
            delta=work.delta,
            who=who,
            epsilon=epsilon,
            log_loss=float(medians[place, 0]),
            accuracy=float(medians[place, 1]),
            auc=float(medians[place, 2]),
            excess=(float(above[0][place]), float(above[1][place])),
            strength=strength,
            promised=_promised(strength) if strength is not None and who == Laps.name else None,
            chosen=study.ways[place][2],
        )


def _numbers(score: Score) -> tuple[float, float, float]:
    """Return log loss, accuracy and AUC of all test rows."""
    assert score.log_loss is not None
    return score.log_loss[1], 1.0 - score.all_rows, math.nan if score.auc is None else score.auc


def _promised(strength: float) -> float | None:
    return next((most for least, most in LAPS_CLOSE if strength >= least), None)
