"""Is it worth it? Learning together beside guessing, learning alone, and putting all rows in one place."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._threads import one_blas_thread
from ..data import Dataset, made_up_rows
from ..errors import InvalidInput, require_integer, require_positive
from ..privacy import Unit, large_delta
from ..runs import RunFile, by_key, dataset_of, not_covered, stream
from ..schedules import Laps
from ..simulation import Interrupted
from .split_scores import Case, OneSplit, Score, cases_of

#: One side must be better in this share of the splits, so that we say it.
_MOSTLY = 0.8
#: The stream of random numbers that made-up rows are drawn from.
_MADE_UP = 2**32 - 6


class Band(NamedTuple):
    """The median over splits, and what a tenth of them lie below and above."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Band:
        """Return that of one number for each split."""
        return cls(*(float(value) for value in np.quantile(np.asarray(values), (0.1, 0.5, 0.9))))


@dataclass(frozen=True, kw_only=True)
class WorthRow:
    """What one case reached: bands over splits, the error in each split (mean over nodes), and its noise."""

    who: str
    epsilon: float | None
    mean_over_nodes: Band
    all_rows: Band
    errors: tuple[float, ...]
    noise_multiplier: float

    def better_than(self, other: WorthRow) -> int:
        """Return in how many splits its error is smaller."""
        return sum(mine < its for mine, its in zip(self.errors, other.errors, strict=True))


@dataclass(frozen=True, kw_only=True)
class Worth:
    """All cases on all splits, and what follows from them.

    `updates` is how many updates are made in one place: without noise, and with. `own_rows` says whether test rows
    belong to nodes, so that each node is tested on its own. `same_test_rows` says whether the data set comes with test
    rows, so that splits differ in chance alone. `numbers` says whether labels are numbers and not classes, and
    `not_covered` what else of all nodes' rows was read, for those who learn alone, too. `nobody_skipped` says that
    nodes would learn their timeouts in a network, where here all are waited for. `large_delta` warns of a delta above
    one over the number of what is protected.
    """

    rows: tuple[WorthRow, ...]
    splits: int
    nodes: int
    protects: Unit
    delta: float
    updates: tuple[int, int]
    own_rows: bool
    same_test_rows: bool
    numbers: bool
    not_covered: str | None = None
    made_up: int | None = None
    nobody_skipped: bool = False
    large_delta: str | None = None

    def row(self, who: str, epsilon: float | None = None) -> WorthRow | None:
        """Return the row of a case; None where there is none."""
        return next((row for row in self.rows if (row.who, row.epsilon) == (who, epsilon)), None)

    @property
    def conclusion(self) -> str:
        """One sentence that follows from the numbers."""
        return _conclusion(self)


def made_up(run: RunFile, rows: int) -> Dataset:
    """Return made-up rows of a run file's schema, drawn with its seed."""
    if run.table is None:
        reason = "needs a schema to draw rows from: [[column]] entries, or data.schema_file"
        raise InvalidInput.because("made_up", rows, reason)
    persons = run.privacy.protects == "person"
    rng = stream(run, _MADE_UP)
    with by_key(rows="made_up"):
        return made_up_rows(
            run.table, rows, rng, nodes=run.data.nodes, rows_of_one=run.rows_of_one if persons else None
        )


def pieces_of(run: RunFile, epsilons: Sequence[float], splits: int) -> int:
    """Return how many pieces of work there are at most: one for each case and split."""
    return splits * len(cases_of(run, epsilons, own_rows=True))


def worth(
    run: RunFile,
    *,
    epsilons: Sequence[float] = (0.5, 1.0, 2.0, 8.0),
    splits: int = 10,
    rows: int | None = None,
    threads: int | None = None,
    stop: threading.Event | None = None,
    progress: Callable[[int], None] | None = None,
) -> Worth:
    """Compare learning together at several epsilons with what else the nodes of a run file could do.

    Each split has its own test rows and its own noise, by the seeds `simulation.seed`, the next one, and so on. With
    `rows`, this number of made-up rows of the schema take the place of the data. The same seed gives the same numbers,
    on any number of threads.
    """
    chosen = sorted(set(map(float, epsilons)))
    if not chosen:
        raise InvalidInput("epsilons", "(empty)", "a list of at least one number")
    for epsilon in chosen:
        require_positive("epsilons", epsilon)
    require_integer("splits", splits, 1)
    run = run.walking()
    if run.schedule.name == Laps.name:  # nodes alone would be judged by as few steps as there are laps
        reason = "nodes alone and all rows in one place learn by the walk's steps here; compare knows laps"
        raise InvalidInput.because("schedule.name", run.schedule.name, reason)
    dataset = dataset_of(run) if rows is None else made_up(run, rows)
    found: list[list[Score]] = []
    cases: list[Case] = []
    with one_blas_thread(), ThreadPoolExecutor(max(1, threads or os.cpu_count() or 1)) as pool:
        for number in range(splits):
            split = OneSplit(_with_seed(run, run.simulation.seed + number), dataset)
            if not cases:
                own_rows = split.groups is not None
                cases, first = cases_of(run, chosen, own_rows=own_rows), split
                split.check(chosen)  # what cannot be stated is refused before anything takes its time
            done: list[Score] = []
            for score in pool.map(lambda case, of=split: None if _is_set(stop) else of.score(case), cases):
                if score is None:
                    raise Interrupted(f"{number} of {splits} splits are finished")
                done.append(score)
                if progress is not None:
                    progress(number * len(cases) + len(done))
            found.append(done)
    return Worth(
        rows=tuple(_row(case, [done[place] for done in found]) for place, case in enumerate(cases)),
        splits=splits,
        nodes=first.nodes,
        protects=run.privacy.protects,
        delta=run.privacy.delta,
        updates=first.updates,
        own_rows=own_rows,
        same_test_rows=dataset.test_rows is not None and run.data.validation is None,
        numbers=not dataset.classes,
        not_covered=not_covered(run),
        made_up=rows,
        nobody_skipped=run.delay.timeout == "adaptive",
        large_delta=large_delta(run.privacy.delta, run.privacy.protects, first.units),
    )


def baselines(run: RunFile) -> dict[str, Score]:
    """Return what guessing, learning alone and learning in one place reach without noise, on the run's test rows."""
    with one_blas_thread():
        split = OneSplit(run, dataset_of(run))
        return {case.who: split.score(case) for case in cases_of(run, [], own_rows=False) if case.who != "together"}


def _is_set(stop: threading.Event | None) -> bool:
    return stop is not None and stop.is_set()


def _with_seed(run: RunFile, seed: int) -> RunFile:
    return run.model_copy(update={"simulation": run.simulation.model_copy(update={"seed": seed})})


def _row(case: Case, scores: Sequence[Score]) -> WorthRow:
    return WorthRow(
        who=case.who,
        epsilon=case.epsilon,
        mean_over_nodes=Band.of([score.mean_over_nodes for score in scores]),
        all_rows=Band.of([score.all_rows for score in scores]),
        errors=tuple(score.mean_over_nodes for score in scores),
        noise_multiplier=float(np.median([score.noise_multiplier for score in scores])),
    )


def _conclusion(found: Worth) -> str:
    """Compare with the best without the others, which costs no privacy: a model of one's own, or a guess."""
    guess, alone, quiet = found.row("guess"), found.row("alone"), found.row("together")
    assert guess is not None
    assert alone is not None
    assert quiet is not None
    own = found.row("own guess")
    rivals = [guess, alone, *([] if own is None else [own])]
    private = [row for row in found.rows if row.who == "together" and row.epsilon is not None]

    def mostly(row: WorthRow, others: Sequence[WorthRow]) -> bool:
        return all(row.better_than(other) >= _MOSTLY * found.splits for other in others)

    def times(row: WorthRow, other: WorthRow) -> str:
        return f"in {row.better_than(other)} of {found.splits} splits"

    by = "what a node reaches alone without noise (mean over nodes)"
    for row in private:
        if mostly(row, rivals):
            # OneSplit by split, as they were counted: the medians of the table may be equal, or the other way round.
            gain = float(np.median(np.subtract(alone.errors, row.errors)))
            return (
                f"together at epsilon {row.epsilon:g} beats {by} {times(row, alone)}, in the median split by {gain:.3g}"
            )
    most = private[-1]
    learned = next((row for row in private if mostly(row, [guess])), None)
    nothing = f"at epsilon {most.epsilon:g} and below nothing is learned: no better than guessing"
    advice = "it takes more nodes, more rows, or a larger epsilon"
    if found.protects == "node":
        advice = 'protect records (privacy.protects = "record") instead of nodes'
    if not mostly(quiet, rivals):
        best = min(rivals, key=lambda row: row.mean_over_nodes.median)
        who, what = ("each node alone", by) if best.who == "alone" else ("guessing", "it")
        does = "better" if mostly(best, [quiet]) else "as well"
        return (
            f"{who} does {does}: even without noise, together beats {what} only {times(quiet, best)}, so learning "
            f"together gains nothing here{'' if learned is not None else f'; and {nothing}'}"
        )
    if learned is None:
        return f"{nothing} the same for all (it beats that only {times(most, guess)}); {advice}"
    return (
        f"from epsilon {learned.epsilon:g} on something is learned, but the noise costs more than the others' rows "
        f"bring: at epsilon {most.epsilon:g}, together beats {by} only {times(most, alone)}, and without noise in "
        f"{quiet.better_than(alone)}"
    )
