"""From a run file to a result: all its runs on all cores, and what they cost in privacy."""

from __future__ import annotations

import dataclasses
import math
import platform
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from .._version import __version__
from ..errors import InvalidInput
from ..learning import LinearModel, NeuralModel
from ..runs import RunFile, parse_run, read_run_file
from .account import privacy_of
from .build import build
from .engine import run_many
from .result import Result, gather, load_run, save_run
from .setup import RunOutput, Setup

__all__ = ["Interrupted", "simulate"]

#: What is printed beside every epsilon of a simulation that looks at all nodes' rows to scale them.
_STANDARDISED = (
    "features are standardised by the mean and deviation of all nodes' rows (data.standardise), which no epsilon covers"
)


class Interrupted(Exception):
    """The simulation was stopped; finished runs are in its folder."""


def simulate(
    run: RunFile | str | Path | Mapping[str, Any],
    *,
    out: str | Path | None = None,
    resume: bool = False,
    threads: int | None = None,
    keep_models: bool = True,
    stop: threading.Event | None = None,
    progress: Callable[[int], None] | None = None,
) -> Result:
    """Simulate all runs of a run file (or its path, or its values by section), and account for their privacy.

    With `out`, every run is written to that folder as it finishes; `resume` goes on where an interrupted simulation
    stopped, and ends with the same bytes. Without `keep_models` the last models are left out, which may be large.
    """
    if not isinstance(run, RunFile):
        run = parse_run(run) if isinstance(run, Mapping) else read_run_file(run)
    if run.simulation.runs < 1:
        raise InvalidInput("simulation.runs", run.simulation.runs, "at least 1")
    with nullcontext() if run.model.name == "cnn" else _one_blas_thread():
        return _simulate(run, None if out is None else Path(out), resume, threads, keep_models, stop, progress)


def _one_blas_thread() -> AbstractContextManager[Any]:
    """Sums of products differ in their last digit with the number of threads that numpy's linear algebra uses."""
    from threadpoolctl import threadpool_limits  # scikit-learn's; a machine made for networks may lack it

    limits: AbstractContextManager[Any] = threadpool_limits(1, user_api="blas")
    return limits


def _simulate(
    run: RunFile,
    folder: Path | None,
    resume: bool,
    threads: int | None,
    keep_models: bool,
    stop: threading.Event | None,
    progress: Callable[[int], None] | None,
) -> Result:
    setup = build(run)
    known = _begin(folder, run, resume) if folder is not None else []
    if not keep_models:
        known = [_without_model(output) for output in known]
    elif any(output.model.size == 0 for output in known):
        raise InvalidInput.because("resume", folder, "was begun without models; go on without them")
    if progress is not None:
        progress(len(known))
    missing = sorted(set(range(run.simulation.runs)) - {output.number for output in known})
    finished = list(known)

    def done(output: RunOutput) -> None:
        output = output if keep_models else _without_model(output)
        finished.append(output)
        if folder is not None:
            try:
                save_run(folder / "runs", output)
            except OSError as error:
                reason = f"cannot be written: {error.strerror}; finished runs are kept, and --resume goes on"
                raise InvalidInput.because("out", folder, reason) from error
        if progress is not None:
            progress(len(finished))

    for _ in run_many(setup, missing, threads=threads, stop=stop, done=done):
        pass
    if len(finished) < run.simulation.runs:
        raise Interrupted(f"{len(finished)} of {run.simulation.runs} runs are finished")
    first = min(finished, key=lambda output: output.number)
    privacy = privacy_of(setup, run.privacy.delta, first if run.simulation.record_path else None)
    if run.data.standardise and isinstance(setup.model, LinearModel) and "refused" not in privacy:
        privacy["not_covered"] = _STANDARDISED
    settings = run.model_dump(mode="json") | {"resolved": _resolved(setup), "versions": _versions(setup)}
    result = gather(finished, setup.points, settings, privacy)
    if folder is not None:
        result.save(folder)
        for path in (folder / "runs").glob("*.npz"):
            path.unlink()
        (folder / "runs").rmdir()
        (folder / "started.json").unlink()
    return result


def _without_model(output: RunOutput) -> RunOutput:
    return dataclasses.replace(output, model=np.zeros(0))


def _resolved(setup: Setup) -> dict[str, Any]:
    """Return what the defaults and searches came to."""
    rival = dataclasses.asdict(setup.schedule) if setup.iterations else {}
    return rival | {
        "nodes": setup.data.nodes,
        "steps": setup.steps,
        "timeout": "infinity" if math.isinf(setup.timeout) else setup.timeout,
        "noise_multiplier": setup.noise_multiplier,
        "gradient_bound": setup.model.gradient_bound,
        "smoothness": None if math.isinf(setup.model.smoothness) else setup.model.smoothness,
        "model": setup.model.loss,
        "parameters": setup.model.parameters,
        **({} if setup.labels_clipped is None else {"labels_clipped": setup.labels_clipped}),
    }


def _versions(setup: Setup) -> dict[str, str]:
    """Return what the bytes of a result depend on beside its settings."""
    # A network needs no numba, which a machine made for networks may lack.
    used = ("numpy", "torch") if isinstance(setup.model, NeuralModel) else ("numpy", "scipy", "numba", "scikit-learn")
    return {"skipring": __version__, "python": platform.python_version(), **{name: version(name) for name in used}}


def _begin(folder: Path, run: RunFile, resume: bool) -> list[RunOutput]:
    """Prepare the folder; return the runs that are already in it."""
    asked = run.model_dump_json()
    marker = folder / "started.json"
    if resume:
        if not marker.exists():
            raise InvalidInput.because("resume", folder, "holds no simulation that was begun")
        if marker.read_text() != asked:
            raise InvalidInput.because("resume", folder, "was begun with another run file")
        return [load_run(path) for path in sorted((folder / "runs").glob("[0-9]*.npz")) if ".part" not in path.name]
    try:
        if (folder / "metrics.npz").exists() or any((folder / "runs").glob("*.npz")):
            raise InvalidInput.because("out", folder, "holds a simulation already; choose another folder or --resume")
        (folder / "runs").mkdir(parents=True, exist_ok=True)
        marker.write_text(asked)
    except OSError as error:
        raise InvalidInput.because("out", folder, f"cannot be written: {error.strerror}") from error
    return []
