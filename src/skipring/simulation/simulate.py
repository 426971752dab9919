"""From a run file to a result: all its runs on all cores, and what they cost in privacy."""

from __future__ import annotations

import dataclasses
import json
import math
import platform
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._digest import digest
from .._threads import one_blas_thread
from .._version import __version__
from .._writing import write_file
from ..data import Dataset, from_arrays
from ..delays import Delay
from ..errors import InvalidInput, require_integer
from ..learning import MarginLoss, NeuralModel, guess_of, is_network, register_loss
from ..models import Inputs, ModelFacts, TrainedModel, fixed_weights
from ..models import save_model as save_trained
from ..privacy import Guarantee
from ..runs import (
    RunFile,
    by_key,
    delta_notes,
    laps_notes,
    not_covered_in_simulations,
    parse_run,
    read_run_file,
    rows_notes,
    turns_per_node,
)
from ..schedules import Laps, Rival, Schedule
from .account import privacy_of
from .build import built
from .engine import run_many
from .laps import lap_rule, noise_on_a_gradient
from .result import ResolvedFacts, Result, gather, load_run, save_run
from .setup import Interrupted, RunOutput, Setup

#: Why a model states no epsilon although its runs would have one.
_ON_A_GPU = (
    "a GPU drew its noise from too few random bits to keep it secret; with model.device = cpu there is an epsilon"
)
_HELD = "holds a simulation already; --resume goes on with one that was interrupted, --out names another folder"


def simulate(
    run: RunFile | str | Path | Mapping[str, Any] | None = None,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    persons: ArrayLike | None = None,
    *,
    delay: Delay | None = None,
    schedule: Schedule | None = None,
    loss: MarginLoss | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    threads: int | None = None,
    keep_models: bool = True,
    stop: threading.Event | None = None,
    progress: Callable[[int], None] | None = None,
    save_model: str | Path | None = None,
    model_run: int = 0,
) -> Result:
    """Simulate all runs of a run file (or its path, or its values by section), and account for their privacy.

    Rows `X` with labels `y`, `groups` that say which node each row belongs to, and `persons` that say whose it is, take
    the place of the data that the run file names. A law of delays, a schedule and a loss of your own may be given as
    objects, too. With `out`, every run is written to that folder as it finishes; `resume` goes on where an interrupted
    simulation stopped, and ends with the same bytes. Without `keep_models` the last models are left out, which may be
    large. `save_model` is a file for the model of one run (`model_run`, from 0; the first), which `skipring.load_model`
    reads. The noise of all runs then comes from the operating system, and not from `simulation.seed`, which others may
    know: another call gives other runs.

    >>> rng = np.random.default_rng(1)
    >>> X, y, hospital = rng.normal(size=(400, 3)), rng.integers(2, size=400), np.arange(400) % 20
    >>> settings = {"simulation": {"runs": 2}, "privacy": {"noise_multiplier": 4.0}}
    >>> simulate(settings, X, y, hospital).test_error.shape  # before five laps, and after them
    (2, 2)
    """
    if not isinstance(run, RunFile):
        run = parse_run(run or {}, folder=Path()) if run is None or isinstance(run, Mapping) else read_run_file(run)
    given = _given(X, y, groups, persons, delay, schedule)
    if given.dataset is not None:
        run = run.having(data={"name": "arrays", "path": None})
    if loss is not None:
        run = run.having(model={"name": register_loss(loss).name})
    if schedule is not None:
        run = run.having(schedule={"name": schedule.name})
    kept = _Kept(None if out is None else Path(out), resume, keep_models)
    if save_model is not None:
        require_integer("model_run", model_run, 0)
        if model_run >= run.simulation.runs:
            raise InvalidInput("model_run", model_run, f"the number of a run, from 0 to {run.simulation.runs - 1}")
        if not keep_models:
            raise InvalidInput.because("save_model", save_model, "there is no model to save without keep_models")
        if not Path(save_model).absolute().parent.is_dir():  # said now, and not after hours
            raise InvalidInput.because("save_model", save_model, "its folder does not exist")
        given, kept = given._replace(secret=True), kept._replace(model=(Path(save_model), model_run))
    with nullcontext() if run.model.is_network else one_blas_thread():
        return _simulate(run, given, kept, threads, stop, progress)


class _Kept(NamedTuple):
    """What a simulation leaves: a folder, with the runs so far if it is to be resumed; all last models, or one."""

    folder: Path | None
    resume: bool
    models: bool
    model: tuple[Path, int] | None = None


class _Given(NamedTuple):
    """What takes the place of something that the run file names; `secret`: of the seed of noise, order and delays."""

    dataset: Dataset | None = None
    delay: Delay | None = None
    schedule: Schedule | None = None
    secret: bool = False

    def described(self, *, kept: bool = False) -> dict[str, dict[str, str]]:
        """Return what was given in words, for the settings of a result; arrays by their digest.

        What is `kept` beside models with secret noise has no digest of rows, by which a guess of a row could be tested.
        """
        words = {"delay": str(self.delay)} if self.delay is not None else {}
        if self.secret:
            words["noise"] = "of the operating system"
        if self.schedule is not None:
            words["schedule"] = repr(self.schedule)
        if self.dataset is not None and not (kept and self.secret):
            of = self.dataset
            persons = [] if of.persons is None else [of.persons]
            words["data"] = digest([of.features, of.labels, of.groups, *persons]).hex()
        return {"given": words} if words else {}


def _given(
    X: ArrayLike | None,
    y: ArrayLike | None,
    groups: ArrayLike | None,
    persons: ArrayLike | None,
    delay: Delay | None,
    schedule: Schedule | None,
) -> _Given:
    if delay is not None and not isinstance(delay, Delay):
        raise InvalidInput("delay", repr(delay), "a law of skipring.delays; texts belong into the run file")
    if schedule is not None and not isinstance(schedule, Schedule):
        raise InvalidInput("schedule", repr(schedule), "a schedule of skipring.schedules, or of your own")
    if X is None and y is None and groups is None and persons is None:
        return _Given(None, delay, schedule)
    if X is None or y is None:
        raise InvalidInput.because("y" if X is not None else "X", "missing", "rows and labels are given together")
    return _Given(from_arrays(X, y, groups, persons), delay, schedule)


def _simulate(
    run: RunFile,
    given: _Given,
    kept: _Kept,
    threads: int | None,
    stop: threading.Event | None,
    progress: Callable[[int], None] | None,
) -> Result:
    folder = kept.folder
    setup, inputs = built(run, given.dataset, delay=given.delay, order=given.schedule, secret=given.secret)
    asked = json.dumps(run.model_dump(mode="json") | given.described()) if given.described() else run.model_dump_json()
    known = _begin(folder, asked, kept.resume) if folder is not None else []
    if not kept.models:
        known = [_without_model(output) for output in known]
    elif any(output.model.size == 0 for output in known):
        raise InvalidInput.because("resume", folder, "was begun without models; go on without them")
    if progress is not None:
        progress(len(known))
    missing = sorted(set(range(run.simulation.runs)) - {output.number for output in known})
    finished = list(known)
    with by_key(**({} if run.laps.deadline is None else {"timeout": "laps.deadline"})):
        for output in run_many(setup, missing, threads=threads, stop=stop):
            finished.append(output if kept.models else _without_model(output))
            if folder is not None:
                save_run(folder, finished[-1])
            if progress is not None:
                progress(len(finished))
    if len(finished) < run.simulation.runs:
        raise Interrupted(f"{len(finished)} of {run.simulation.runs} runs are finished")
    first = min(finished, key=lambda output: output.number)
    privacy = privacy_of(setup, run.privacy.delta, first if run.simulation.record_path else None)
    if privacy.refused is None:
        uncovered = not_covered_in_simulations(run, foreseeable=not given.secret)
        privacy = dataclasses.replace(privacy, promised=dataclasses.replace(privacy.promised, not_covered=uncovered))
    settings = run.model_dump(mode="json") | given.described(kept=True)
    result = gather(finished, setup.points, settings, _resolved(run, setup, inputs), _versions(setup), privacy)
    if folder is not None:
        result.save(folder)
        for path in (folder / "runs").glob("*.npz"):
            path.unlink()
        (folder / "runs").rmdir()
        (folder / "started.json").unlink()
    if kept.model is not None:
        output = next(output for output in finished if output.number == kept.model[1])
        save_trained(trained_model(result, inputs, output), kept.model[0])
    return result


def _without_model(output: RunOutput) -> RunOutput:
    return dataclasses.replace(output, model=np.zeros(0))


def _resolved(run: RunFile, setup: Setup, inputs: Inputs) -> ResolvedFacts:
    """Return what the defaults and searches came to."""
    units = setup.units or ()
    laps = setup.schedule if isinstance(setup.schedule, Laps) else None
    if laps is None:
        noise_std = setup.protection.noise_std(setup.model, setup.noise_multiplier)
    else:
        noise_std = noise_on_a_gradient(setup)
    # A lap's sum is divided by no number that all agree on.
    whole = laps is not None and max(setup.part_counts) == 1
    turns = turns_per_node(setup.data.nodes, setup.steps, iterations=setup.iterations)
    return ResolvedFacts(
        nodes=setup.data.nodes,
        steps=setup.steps,
        timeout=setup.timeout,
        noise_multiplier=setup.noise_multiplier,
        gradient_bound=setup.model.gradient_bound if laps is None else lap_rule(setup).bound,
        smoothness=None if math.isinf(setup.model.smoothness) else setup.model.smoothness,
        model=setup.model.name,
        parameters=setup.model.parameters,
        labels_clipped=setup.labels_clipped,
        rival=setup.schedule if isinstance(setup.schedule, Rival) else None,
        noise_std=noise_std,
        batch=setup.protection.batch,
        parts=None if setup.protection.unit == "node" else max(setup.part_counts),
        rows_left_out=setup.rows_left_out,
        notes=(
            *(() if whole else rows_notes(setup.protection, max(units), turns)),
            *delta_notes(run, sum(units)),
            *laps_notes(run, laps),
        ),
        guess=guess_of(setup.data.labels, setup.test_y, classes=setup.model.label_classes),
        rows=len(setup.data.labels),
        test_rows=len(setup.test_y),
        columns=inputs.columns if inputs.schema is None else len(inputs.schema.features),
    )


def _versions(setup: Setup) -> dict[str, str]:
    """Return what the bytes of a result depend on beside its settings."""
    # A network needs no numba, which a machine made for networks may lack.
    used = ("numpy", "torch") if isinstance(setup.model, NeuralModel) else ("numpy", "scipy", "numba", "scikit-learn")
    return {"skipring": __version__, "python": platform.python_version(), **{name: version(name) for name in used}}


def _begin(folder: Path, asked: str, resume: bool) -> list[RunOutput]:
    """Prepare the folder; return the runs that are already in it."""
    marker = folder / "started.json"
    if resume:
        if not marker.exists():
            raise InvalidInput.because("resume", folder, "holds no simulation that was begun")
        if marker.read_text() != asked:
            reason = "was begun with another run file, or other data, or with or without a model to save"
            raise InvalidInput.because("resume", folder, reason)
        return [load_run(path) for path in sorted((folder / "runs").glob("[0-9]*.npz")) if ".part" not in path.name]
    try:
        if (folder / "metrics.npz").exists() or any((folder / "runs").glob("*.npz")):
            raise InvalidInput.because("out", folder, _HELD)
        (folder / "runs").mkdir(parents=True, exist_ok=True)
        write_file(marker, asked, synced=False)
    except OSError as error:
        raise InvalidInput.because("out", folder, f"cannot be written: {error.strerror}") from error
    return []


def _of_such_a_run(promised: Guarantee) -> Guarantee:
    """Return a promise about a node that was named before the run: the unluckiest of one run may lie beyond it."""
    also = tuple(map(_of_such_a_run, promised.also))
    return dataclasses.replace(promised, whose="any node of such a run, named beforehand", also=also)


def trained_model(result: Result, inputs: Inputs, output: RunOutput) -> TrainedModel:
    """Return the last model of a run of a result, with what such runs cost, if nobody can compute its noise again."""
    name, settings, number = result.resolved.model, result.settings, output.number
    network = is_network(name)
    guarantee = _of_such_a_run(result.privacy.promised)
    if output.foreseeable and guarantee.epsilon is not None:
        guarantee = dataclasses.replace(guarantee, epsilon=None, refused=_ON_A_GPU, also=())
    facts = ModelFacts(
        name=name,
        updates=int(result.updates[number, -1]),
        run=_digest_without_guesses(settings),
        guarantee=guarantee,
        source=f"simulation, run number {number} of {result.runs} (from 0)",
    )
    parameters = result.models[number].astype(np.float32 if network else np.float64)
    fixed = fixed_weights(name, int(settings["simulation"]["seed"]) + number)
    return TrainedModel(facts, inputs, parameters, fixed)


def _digest_without_guesses(settings: Mapping[str, Any]) -> str:
    """Return a digest of the settings by which nobody can test a guess of the seed; they have no digest of rows."""
    seedless = {name: value for name, value in settings["simulation"].items() if name != "seed"}
    return digest(dict(settings) | {"simulation": seedless}).hex()
