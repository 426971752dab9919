"""Alternatives side by side: the same data and model under other timeouts, schedules or noise."""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from .._writing import write_file
from ..errors import InvalidInput, require_positive
from ..privacy import forecast
from ..runs import RunFile, with_changes
from ..schedules import RIVALS, SCHEDULES
from .build import build
from .result import Result
from .setup import Interrupted
from .simulate import simulate

#: Without a given error, the alternatives race to the best final error, give or take this factor.
_NEAR_BEST = 1.1
#: What tells the folder of a comparison from any other.
MARKER = "comparison.json"


@dataclass(frozen=True)
class Alternative:
    """One run file of a comparison, under a name that says what sets it apart."""

    name: str
    run: RunFile


@dataclass(frozen=True, eq=False)
class Compared:
    """A simulated alternative, and when it reached the error that all are compared at.

    `time_to_error` is infinity where that error was never reached. `epsilon` (promised for the steps made by then,
    rounded up to whole rounds) is None there, and where nothing is promised.
    """

    name: str
    result: Result
    time_to_error: float
    steps_to_error: int | None
    epsilon: float | None


@dataclass(frozen=True, eq=False)
class Comparison:
    """All alternatives, and the test error they are compared at."""

    error: float
    rows: tuple[Compared, ...]


def alternatives(
    file: str | Path | None,
    *,
    timeouts: Sequence[float | Literal["most-updates"]] | None = None,
    schedules: Sequence[str] | None = None,
    noise: Sequence[float] | None = None,
    epsilons: Sequence[float] | None = None,
    changes: Sequence[str] = (),
) -> list[Alternative]:
    """Return the run file once for every combination of the values given; what is not given does not vary.

    An infinite epsilon means no noise at all.

    >>> [other.name for other in alternatives(None, timeouts=[0.04, float("inf")], schedules=["ring"])]
    ['ring_timeout-0.04', 'ring_timeout-inf']
    """
    known = (*SCHEDULES, *RIVALS)
    _check(
        "timeouts", timeouts, lambda each: isinstance(each, str) or each > 0.0, "numbers above 0, inf or most-updates"
    )
    _check("schedules", schedules, lambda each: each in known, f"of {', '.join(known)}")
    _check("noise", noise, lambda each: 0.0 < each < math.inf, "a finite number above 0")
    _check("epsilons", epsilons, lambda each: each > 0.0, "numbers above 0, or inf (no noise)")
    if noise is not None and epsilons is not None:
        raise InvalidInput.because("epsilons", _spelled(epsilons[0]), "noise follows from epsilon; give one of the two")
    if timeouts is None and schedules is None and noise is None and epsilons is None:
        raise InvalidInput.because("timeouts", "missing", "give timeouts, schedules, noise or epsilons to compare")
    # For each dimension, what a value adds to the name and what it changes in the run file.
    dimensions = [
        [(name, f"schedule.name={name}") for name in schedules or ()],
        [(f"timeout-{_spelled(value)}", f"delay.timeout={_spelled(value)}") for value in timeouts or ()],
        [(f"noise-{_spelled(value)}", f"privacy.noise_multiplier={_spelled(value)}") for value in noise or ()],
        [(f"epsilon-{_spelled(value)}", _kept(value)) for value in epsilons or ()],
    ]
    return [
        Alternative("_".join(name for name, _ in choice), with_changes(file, [*changes, *(c for _, c in choice)]))
        for choice in itertools.product(*filter(None, dimensions))
    ]


def _check(parameter: str, values: Sequence[Any] | None, fits: Callable[[Any], bool], allowed: str) -> None:
    if values is None:
        return
    if len(values) == 0:
        raise InvalidInput(parameter, "(empty)", "a list of at least one value")
    for value in values:
        if not fits(value):
            raise InvalidInput(parameter, value, allowed)
        if values.count(value) > 1:
            raise InvalidInput.because(parameter, value, "is given twice")


def _kept(epsilon: float) -> str:
    """Return the change of a run file with which it keeps an epsilon; there is no noise if that is infinite."""
    return "privacy.noise_multiplier=0" if math.isinf(epsilon) else f"privacy.epsilon={_spelled(epsilon)}"


def _spelled(value: float | str) -> str:
    """Return a value as TOML reads it, all its digits included: a name stands for one value."""
    return value if isinstance(value, str) else repr(float(value)).removesuffix(".0")


def compare_runs(
    chosen: Sequence[Alternative],
    *,
    error: float | None = None,
    out: str | Path | None = None,
    threads: int | None = None,
    stop: threading.Event | None = None,
    progress: Callable[[int], None] | None = None,
) -> Comparison:
    """Simulate all alternatives; say when each reached an error, and the epsilon spent by then.

    Without `error`, it is 1.1 times the best final mean error of all. With `out`, every alternative leaves a result
    folder of its name there. `progress` is told the number of runs finished so far, over all alternatives.
    """
    if not chosen:
        raise InvalidInput("alternatives", "(empty)", "a list of at least one run file")
    if error is not None:
        require_positive("error", error)
    if out is not None:
        _check_folders(Path(out), chosen)
    # A value that only the last alternative cannot use must not cost the time of all the others.
    for alternative in chosen:
        build(alternative.run)
    if out is not None:
        _mark(Path(out), chosen)
    results: list[Result] = []
    finished = 0

    def report(runs: int) -> None:
        if progress is not None:
            progress(finished + runs)

    for alternative in chosen:
        folder = None if out is None else Path(out) / alternative.name
        if stop is not None and stop.is_set():
            raise Interrupted(f"{len(results)} of {len(chosen)} alternatives are finished")
        try:
            results.append(simulate(alternative.run, out=folder, threads=threads, stop=stop, progress=report))
        except Interrupted:
            raise Interrupted(f"{len(results)} of {len(chosen)} alternatives are finished") from None
        finished += alternative.run.simulation.runs
    asked = error if error is not None else _NEAR_BEST * min(float(r.test_error[:, -1].mean()) for r in results)
    rows = (_at_error(alternative.name, result, asked) for alternative, result in zip(chosen, results, strict=True))
    return Comparison(asked, tuple(rows))


def _check_folders(out: Path, chosen: Sequence[Alternative]) -> None:
    """Refuse a folder with anything in it that is not a comparison's, or that git keeps."""
    if out.exists() and not out.is_dir():
        raise InvalidInput.because("out", out, "is a file")
    if out.is_dir() and any(out.iterdir()):
        if not (out / MARKER).is_file():
            reason = "exists, and is not the folder of a comparison: nothing is mixed into it; --out names another one"
            raise InvalidInput.because("out", out, reason)
        if _is_tracked(out):
            reason = "has files in it that git keeps: nothing is mixed into them; --out names another one"
            raise InvalidInput.because("out", out, reason)
    for alternative in chosen:
        folder = out / alternative.name
        if (folder / "metrics.npz").exists() or (folder / "started.json").exists():
            raise InvalidInput.because("out", folder, "holds a simulation already; --out names another folder")


def _is_tracked(folder: Path) -> bool:
    """Say whether git keeps something in a folder; where there is no git, nothing is."""
    words = ["git", "-C", str(folder), "ls-files", "--", "."]
    try:
        return bool(subprocess.run(words, capture_output=True, check=False, timeout=20).stdout)
    except (OSError, subprocess.TimeoutExpired):
        return False


def _mark(out: Path, chosen: Sequence[Alternative]) -> None:
    """Make the folder of a comparison, with a file that says that it is one and which alternatives it has had."""
    marker = out / MARKER
    try:
        known = json.loads(marker.read_text())["alternatives"] if marker.exists() else []
        out.mkdir(parents=True, exist_ok=True)
        names = list(dict.fromkeys([*known, *(alternative.name for alternative in chosen)]))
        write_file(marker, json.dumps({"alternatives": names}, indent=2) + "\n", synced=False)
    except OSError as error:
        raise InvalidInput.because("out", out, f"cannot be written: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise InvalidInput.because("out", marker, "is damaged; --out names another folder") from None


def _at_error(name: str, result: Result, error: float) -> Compared:
    reached = np.flatnonzero(result.test_error.mean(axis=0) <= error)
    if not len(reached):
        return Compared(name, result, math.inf, None, None)
    steps = int(result.points[reached[0]])
    return Compared(name, result, result.time_to_error(error), steps, _epsilon(result, steps))


def _epsilon(result: Result, steps: int) -> float | None:
    """Return what is promised for the first steps of a run; None where there is none."""
    if result.privacy.refused is not None:
        return None
    if steps == 0:  # the first model is no secret
        return 0.0
    try:
        return forecast(result.privacy.planned_for(steps)).epsilon(result.privacy.delta)
    except InvalidInput:
        return None
