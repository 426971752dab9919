"""The curves of the paper's Figures 4 and 5, and of what goes beyond them: test error against latency, simulated."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import Floats
from .._writing import write_csv
from ..delays import Delay
from ..errors import InvalidInput
from ..runs import USUAL_LAW, Stragglers
from ..simulation import Result
from ..timeouts import timeout_for_skip
from .runner import SweepOutcome
from .sweep import Cell, Sweep, parse_sweep
from .theory import LAWS, THEOREMS

#: Runs of --quick, at most.
_QUICK_RUNS = 10
#: The columns of a sweep's table that every cell has.
_COLUMNS = ("steps", "updates_mean", "latency_mean", "latency_std", "test_error_mean", "test_error_std")


@dataclass(frozen=True, eq=False)
class EmpiricalCurve:
    """One curve: mean and standard deviation over runs of latency and test error, point by point.

    `values` are the keys of the sweep that tell the curve from others; `law` names the delays of its panel.
    """

    law: str
    values: Mapping[str, Any]
    noise_multiplier: float
    runs: int
    steps: NDArray[np.int64]
    updates: Floats
    latency: Floats
    latency_std: Floats
    error: Floats
    error_std: Floats

    @property
    def skip(self) -> float:
        """The skip probability."""
        return float(self.values["delay.skip"])

    def last(self, until: float) -> int:
        """Return the place of the last point whose mean latency is not beyond `until`."""
        return int(np.flatnonzero(self.latency <= until * 1.0001)[-1])


def shipped_sweeps() -> list[str]:
    """Return the names of the sweeps that come with skipring."""
    folder = resources.files(__package__) / "sweeps"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def paper_sweep(name: str, *, quick: bool = False, changes: Sequence[str] = ()) -> Sweep:
    """Return a sweep that comes with skipring; `quick` is for a look, not for numbers.

    >>> len(paper_sweep("figure4-row2").cells), paper_sweep("figure4-row2", quick=True).runs
    (3, 30)
    """
    if name not in shipped_sweeps():
        raise InvalidInput("NAME", name, f"one of {', '.join(shipped_sweeps())}")
    values = tomllib.loads((resources.files(__package__) / "sweeps" / f"{name}.toml").read_text(encoding="utf-8"))
    sweep = parse_sweep(values, name=name, changes=changes)
    return parse_sweep(values, name=name, changes=[*_quick(sweep), *changes]) if quick else sweep


def _quick(sweep: Sweep) -> list[str]:
    """Return what --quick changes: a few runs, and for networks two rounds, which a CPU can do."""
    run = sweep.cells[0].run
    if run.model.is_network:
        nodes = run.data.nodes or 0
        return ["simulation.runs=1", f"schedule.steps={2 * nodes}", "simulation.evaluate_every=20"]
    return [f"simulation.runs={min(_QUICK_RUNS, run.simulation.runs)}"]


def draw_latencies(result: Result, law: Delay, rng: np.random.Generator) -> Floats:
    """Draw the latencies that the runs of a token would have had under another law with the same skip probability.

    Which hops were skipped is independent of everything else, so that their number between two points is all that the
    times depend on. A skipped hop takes the timeout, another one a delay that is within it.
    """
    settings = result.settings
    if settings["delay"]["skip"] is None or result.schedule not in THEOREMS:
        raise InvalidInput.because("result", result.schedule, "must be of a token with a skip probability")
    if settings["delay"]["patient_every"] is not None or settings["stragglers"] != Stragglers().model_dump():
        raise InvalidInput.because("result", "stragglers", "must have skips that are independent and alike")
    late = settings["compute"]["law"], settings["network"]["latency"]
    if settings["delay"]["ready"] not in (None, "fresh") or late != (None, None):
        raise InvalidInput.because("result", "late", "must have nodes that begin anew and compute in no time")
    timeout = timeout_for_skip(law, float(settings["delay"]["skip"]))
    hops = np.diff(result.points)
    latency = np.zeros(result.latency.shape)
    for run, updates in enumerate(np.diff(result.updates, axis=1)):
        waits = np.add.reduceat(np.append(_within(law, timeout, int(updates.sum()), rng), 0.0), _starts(updates))
        waits[updates == 0] = 0.0  # an empty sum, which reduceat takes for the next number
        skips = hops - updates
        # Where nobody is skipped, the timeout may be infinite.
        lost = np.multiply(skips, timeout, out=np.zeros(len(hops)), where=skips > 0)
        gaps = waits + lost + hops * settings["delay"]["hop_latency"]
        latency[run, 1:] = np.cumsum(gaps)
    return latency


def _starts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts)[:-1]])


def _within(law: Delay, timeout: float, count: int, rng: np.random.Generator) -> Floats:
    """Draw delays that are within the timeout: those that are not are drawn again."""
    found: list[Floats] = []
    missing = count
    while missing > 0:
        some = law.sample(rng, max(64, missing))
        some = some[some <= timeout][:missing]
        found.append(some)
        missing -= len(some)
    return np.concatenate(found) if found else np.zeros(0)


def law_curves(sweep: Sweep, outcome: SweepOutcome, *, seed: int = 1) -> list[EmpiricalCurve]:
    """Return the curves of a sweep over skip probabilities for each of the paper's three laws of delays."""
    curves = []
    for place, (name, law) in enumerate(LAWS.items()):
        for number, (cell, result) in enumerate(_finished(sweep, outcome)):
            rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(place, number)))
            curves.append(_curve(name, cell, result, draw_latencies(result, law, rng)))
    return curves


def sweep_curves(sweep: Sweep, outcome: SweepOutcome) -> list[EmpiricalCurve]:
    """Return the curves of a sweep, one for each cell, with the latencies that were simulated."""
    return [
        _curve(str(result.settings["delay"]["law"] or USUAL_LAW), cell, result, result.latency)
        for cell, result in _finished(sweep, outcome)
    ]


def _finished(sweep: Sweep, outcome: SweepOutcome) -> Iterator[tuple[Cell, Result]]:
    for cell in sweep.cells:
        if cell.key in outcome.results:
            yield cell, outcome.results[cell.key]


def _curve(law: str, cell: Cell, result: Result, latency: Floats) -> EmpiricalCurve:
    return EmpiricalCurve(
        law=law,
        values=cell.changes,
        noise_multiplier=result.resolved.noise_multiplier,
        runs=result.runs,
        steps=result.points,
        updates=result.updates.mean(axis=0),
        latency=latency.mean(axis=0),
        latency_std=deviation(latency),
        error=result.test_error.mean(axis=0),
        error_std=deviation(result.test_error),
    )


def deviation(values: Floats) -> Floats:
    """Return the standard deviation over runs, point by point; of a single run nothing is known, and it is 0."""
    return np.std(values, axis=0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1])


def write_sweep_csv(sweep: Sweep, outcome: SweepOutcome, path: str | Path) -> None:
    """Write the mean and standard deviation over runs of every finished cell, a line for each evaluation point."""
    lines: list[list[object]] = [["label", *sweep.varied, *_COLUMNS]]
    for cell, result in _finished(sweep, outcome):
        known = [cell.label, *(_spelled(cell.value(key)) for key in sweep.varied)]
        curve = _curve("", cell, result, result.latency)
        columns = (curve.steps, curve.updates, curve.latency, curve.latency_std, curve.error, curve.error_std)
        lines += [[*known, *row] for row in zip(*(column.tolist() for column in columns), strict=True)]
    write_csv(path, lines)


def _spelled(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value).replace("Infinity", "inf")
