"""From a run file to a result: load the data, choose timeout and noise, simulate, account."""

from __future__ import annotations

import dataclasses
import math
import platform
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from .._version import __version__
from ..data import Dataset, NodeData, Prepared, load_dataset, prepare, read_table, split_over_nodes
from ..delays import Delay, parse_delay
from ..errors import InvalidInput
from ..learning import LinearModel, NeuralModel, StepSizes
from ..learning.linear import LossName
from ..schedules import schedule
from ..timeouts import best_timeout, skip_probability, timeout_for_skip
from .account import noise_for, privacy_of
from .baselines import RIVALS, Federated, Gossip
from .engine import run_many
from .result import ResolvedRun, Result, gather, load_run, save_run
from .runfile import RunFile, parse_run, read_run_file
from .setup import RunOutput, Setup
from .stragglers import Stragglers, stragglers_of

__all__ = ["Interrupted", "build", "simulate"]

_DEFAULT_NODES = 113
_DEFAULT_ROUNDS = 30
_DEFAULT_EPSILON = 8.0
#: Why a squared loss without an agreed bound has no epsilon: who replaces a node's labels moves everybody's noise.
_NO_BOUND = (
    "the noise follows from the largest label of all nodes' rows; "
    "give model.label_bound, to which labels are clipped, or learning.gradient_bound"
)
#: What is printed beside every epsilon of a simulation that looks at all nodes' rows to scale them.
_STANDARDISED = (
    "features are standardised by the mean and deviation of all nodes' rows (data.standardise), which no epsilon covers"
)
#: Why there is none if labels decide who is late: the path tells who holds which class, and no noise hides the path.
_BY_LABELS = (
    "who is late, and so who takes part, depends on the nodes' labels: no epsilon can be stated; "
    "privacy.noise_multiplier gives noise without one"
)
_LOSSES: dict[str, LossName] = {name: name for name in get_args(LossName)}
#: The key of the run file that sets a parameter, for messages.
_KEYS = {
    "rate": "learning.rate",
    "batch": "learning.batch",
    "diameter": "learning.diameter",
    "gradient_bound": "learning.gradient_bound",
    "step_size": "learning.step_size",
    "steps": "schedule.steps",
    "nodes": "data.nodes",
    "unit_rows": "data.unit_rows",
    "split": "data.split",
    "alpha": "data.alpha",
    "shards_per_node": "data.shards_per_node",
    "exponent": "data.exponent",
    "test_share": "data.test_share",
    "groups": "data.node",
    "name": "data.name",
    "label": "data.label",
    "node": "data.node",
    "path": "data.path",
    "model": "model.name",
    "ridge": "model.ridge",
    "delay": "delay.law",
    "timeout": "delay.timeout",
    "skip": "delay.skip",
    "patient_every": "delay.patient_every",
    "schedule": "schedule.name",
    "rounds": "gossip.rounds",
    "degree": "gossip.degree",
    "slots": "gossip.slots",
    "access": "gossip.access",
    "acceleration": "gossip.acceleration",
    "channels": "federated.channels",
    "clip_noisy": "learning.clip_noisy",
    "slow_class": "stragglers.slow_class",
    "class_factor": "stragglers.class_factor",
    **{name: f"stragglers.{name}" for name in Stragglers.__dataclass_fields__},
    "stragglers": "stragglers.*",
    "hop_latency": "delay.hop_latency",
    "epsilon": "privacy.epsilon",
    "delta": "privacy.delta",
    "noise_multiplier": "privacy.noise_multiplier",
    "runs": "simulation.runs",
    "seed": "simulation.seed",
    "evaluate_every": "simulation.evaluate_every",
}


class Interrupted(Exception):
    """The simulation was stopped; finished runs are in its folder."""


@contextmanager
def in_words_of_the_run_file() -> Iterator[None]:
    """Refuse what is refused in here by the key of the run file that sets it."""
    try:
        yield
    except InvalidInput as problem:
        key = _KEYS.get(problem.parameter, problem.parameter)
        raise InvalidInput.because(key, problem.given, problem.reason) from None


def build(run: RunFile) -> Setup:
    """Return the setup that a run file describes."""
    with in_words_of_the_run_file():
        return _build(run)


def owned_rows(run: RunFile, usual_nodes: int = _DEFAULT_NODES) -> tuple[Dataset, Prepared, NodeData]:
    """Return the data set of a run file, the same prepared, and its training rows dealt to nodes.

    It is the same in a simulation and at every node of a network. `usual_nodes` counts where the run file says nothing.
    """
    data = run.data
    dataset = (
        load_dataset(data.name) if data.path is None else read_table(data.path, label=data.label or "", node=data.node)
    )
    check_agreement(run, dataset)
    # Data and split have a stream of their own: they are the same for all runs.
    rng = np.random.default_rng(np.random.SeedSequence(run.simulation.seed, spawn_key=(2**32 - 1,)))
    ready = prepared_rows(run, dataset, rng)
    kind = data.split or ("groups" if ready.train_groups is not None else "iid")
    nodes = data.nodes if data.nodes is not None or kind == "groups" else usual_nodes
    owned = split_over_nodes(
        ready.train_x,
        ready.train_y,
        nodes,
        rng,
        kind=kind,
        alpha=data.alpha,
        shards_per_node=data.shards_per_node,
        exponent=data.exponent,
        groups=ready.train_groups,
    )
    return dataset, ready, owned


def prepared_rows(run: RunFile, dataset: Dataset, rng: np.random.Generator) -> Prepared:
    """Set test rows aside and scale all rows, as a run file says."""
    data = run.data
    return prepare(
        dataset,
        rng,
        # Networks take pixels as they are.
        standardise=data.standardise and run.model.name != "cnn",
        unit_rows=data.unit_rows and run.model.name != "cnn",
        intercept=run.model.intercept,
        test_share=data.test_share,
    )


def check_agreement(run: RunFile, dataset: Dataset) -> None:
    """Refuse data that are not what the run file says of them."""
    agreed, columns = run.model, dataset.features.shape[1]
    if agreed.features is not None and agreed.features != columns:
        raise InvalidInput.because("model.features", agreed.features, f"{dataset.name} has {columns} features")
    if agreed.classes is not None and tuple(agreed.classes) != dataset.classes:
        its = f"the classes {', '.join(dataset.classes)}" if dataset.classes else "numbers as labels"
        raise InvalidInput.because("model.classes", ", ".join(agreed.classes), f"{dataset.name} has {its}")
    if agreed.label_bound is not None and dataset.classes:
        raise InvalidInput.because("model.label_bound", agreed.label_bound, f"{dataset.name} has classes, not numbers")


def clipped_labels(run: RunFile, labels: NDArray[Any]) -> tuple[NDArray[Any], int]:
    """Return labels of training rows within the agreed bound, if there is one, and how many were clipped to it.

    A label that is too large is not refused, since that would tell about it.
    """
    bound = run.model.label_bound
    if bound is None:
        return labels, 0
    return np.clip(labels, -bound, bound), int(np.count_nonzero(np.abs(labels) > bound))


def _build(run: RunFile) -> Setup:
    _refuse_what_needs_a_network(run)
    dataset, ready, owned = owned_rows(run)
    largest_label = float(np.abs(ready.train_y).max(initial=1.0))
    model = model_of(run, len(dataset.classes), ready.train_x.shape[1], largest_label)
    no_privacy = _no_privacy(run, model)
    labels, clipped = clipped_labels(run, owned.labels)
    owned = dataclasses.replace(owned, labels=labels)
    delay = parse_delay(run.delay.law)
    timeout = _timeout(run, delay)
    rival = run.schedule.name in RIVALS
    setup = Setup(
        model=model,
        data=owned,
        test_x=ready.test_x,
        test_y=ready.test_y,
        schedule=_rival(run, owned.nodes, delay, timeout) if rival else schedule(run.schedule.name, owned.nodes),
        steps=run.schedule.steps if run.schedule.steps is not None else _DEFAULT_ROUNDS * (1 if rival else owned.nodes),
        delay=delay,
        timeout=timeout,
        hop_latency=run.delay.hop_latency,
        step_sizes=StepSizes(run.learning.rate, run.learning.step_size, tuple(run.learning.own)),
        noise_multiplier=run.privacy.noise_multiplier or 0.0,
        batch=run.learning.batch,
        clip_noisy=run.learning.clip_noisy,
        patient_every=run.delay.patient_every,
        stragglers=stragglers_of(run, owned),
        seed=run.simulation.seed,
        evaluate_every=run.simulation.evaluate_every,
        why_no_privacy="" if no_privacy is None else no_privacy.reason,
        labels_clipped=None if run.model.label_bound is None else clipped,
    )
    if run.privacy.noise_multiplier is not None:
        return setup
    if no_privacy is not None:
        raise no_privacy
    budget = run.privacy.epsilon if run.privacy.epsilon is not None else _DEFAULT_EPSILON
    return dataclasses.replace(setup, noise_multiplier=noise_for(setup, budget, run.privacy.delta))


def _no_privacy(run: RunFile, model: LinearModel | NeuralModel) -> InvalidInput | None:
    """Return why no epsilon can be stated, whatever the noise; None if one can."""
    if run.stragglers.slow_class is not None:
        return InvalidInput.because("stragglers.slow_class", run.stragglers.slow_class, _BY_LABELS)
    if model.loss == "squared" and not label_bound_is_agreed(run):
        return InvalidInput.because("model.label_bound", "missing", _NO_BOUND)
    return None


def _refuse_what_needs_a_network(run: RunFile) -> None:
    if run.model.is_function:
        reason = "only the nodes of a network run a module of your own; simulate logistic, softmax, squared or cnn"
        raise InvalidInput.because("model", run.model.name, reason)
    if run.delay.timeout == "adaptive":
        reason = "only a network's nodes can learn a timeout from what they see; use best"
        raise InvalidInput.because("timeout", run.delay.timeout, reason)


def label_bound_is_agreed(run: RunFile) -> bool:
    """Say whether the bound of a squared loss follows from the run file alone, and not from anybody's labels."""
    return run.model.label_bound is not None or run.learning.gradient_bound is not None


def model_of(
    run: RunFile, classes: int, features: int, largest_label: float | None = None
) -> LinearModel | NeuralModel:
    """Return the model for rows with so many classes (0: labels are numbers) and features.

    `largest_label`, for simulations only, bounds labels that are numbers where the run file does not bound them.
    """
    if run.model.name == "cnn":
        if classes == 0:
            raise InvalidInput.because("model", "cnn", "the labels are numbers, not classes; use squared")
        return NeuralModel(
            features=features,
            classes=classes,
            clip=run.learning.gradient_bound,
            diameter=run.learning.diameter,
            device=run.model.device,
        )
    usual: LossName = "squared" if classes == 0 else "logistic" if classes == 2 else "softmax"
    name = usual if run.model.name is None else _LOSSES[run.model.name]
    if (name == "squared") != (classes == 0) or (name == "logistic" and classes > 2):
        raise InvalidInput.because("model", name, f"the labels have {classes or 'no'} classes; use {usual}")
    # A rival's models are averages, which nothing keeps in a ball; only the squared loss has no bound without one.
    usual_diameter = math.inf if run.schedule.name in RIVALS and name != "squared" else 10.0
    label_bound = run.model.label_bound
    if label_bound is None and name == "squared":
        # A clipped gradient is bounded whatever the labels are.
        label_bound = math.inf if run.learning.gradient_bound is not None else largest_label
        if label_bound is None:
            raise InvalidInput.because("model.label_bound", "missing", _NO_BOUND)
    return LinearModel(
        loss=name,
        features=features,
        diameter=usual_diameter if run.learning.diameter is None else run.learning.diameter,
        classes=max(2, classes),
        ridge=run.model.ridge,
        clip=run.learning.gradient_bound,
        label_bound=1.0 if label_bound is None else label_bound,
    )


def _timeout(run: RunFile, delay: Delay) -> float:
    if run.delay.skip is not None:
        return timeout_for_skip(delay, run.delay.skip)
    if run.delay.timeout is None or run.delay.timeout == "best":
        return best_timeout(delay, run.delay.hop_latency)
    return float(run.delay.timeout)


def _rival(run: RunFile, nodes: int, delay: Delay, timeout: float) -> Gossip | Federated:
    """Return how the iterations of gossip or federated learning go; the slots of gossip are simulated if not given."""
    if run.schedule.name == "federated":
        return Federated(nodes=nodes, channels=run.federated.channels)
    asked = run.gossip
    rival = Gossip(
        nodes=nodes, slots=1.0 if asked.slots is None else asked.slots, rounds=asked.rounds, degree=asked.degree
    )
    linked = rival.edge_probability(skip_probability(delay, timeout))
    # A stream of their own: what is simulated here must not depend on, or change, anything else.
    rng = np.random.default_rng(np.random.SeedSequence(run.simulation.seed, spawn_key=(2**32 - 2,)))
    if asked.slots is None:
        from .baselines import access_slots, best_access  # numba is loaded only where it is needed

        degree = linked * (nodes - 1)
        if asked.access is None:
            slots = best_access(nodes, degree, rng)[1]
        else:
            slots = float(access_slots(nodes, degree, asked.access, rng, graphs=20).mean())
        rival = dataclasses.replace(rival, slots=slots)
    if asked.acceleration:
        from .baselines.graphs import acceleration

        rival = dataclasses.replace(rival, acceleration=acceleration(nodes, linked, rng))
    return rival


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
    if run.data.standardise and isinstance(setup.model, LinearModel) and privacy.refused is None:
        privacy = dataclasses.replace(privacy, not_covered=_STANDARDISED)
    settings = run.model_dump(mode="json")
    result = gather(finished, setup.points, settings, _resolved(setup), _versions(setup), privacy)
    if folder is not None:
        result.save(folder)
        for path in (folder / "runs").glob("*.npz"):
            path.unlink()
        (folder / "runs").rmdir()
        (folder / "started.json").unlink()
    return result


def _without_model(output: RunOutput) -> RunOutput:
    return dataclasses.replace(output, model=np.zeros(0))


def _resolved(setup: Setup) -> ResolvedRun:
    """Return what the defaults and searches came to."""
    return ResolvedRun(
        nodes=setup.data.nodes,
        steps=setup.steps,
        timeout=setup.timeout,
        noise_multiplier=setup.noise_multiplier,
        gradient_bound=setup.model.gradient_bound,
        smoothness=None if math.isinf(setup.model.smoothness) else setup.model.smoothness,
        model=setup.model.loss,
        parameters=setup.model.parameters,
        labels_clipped=setup.labels_clipped,
        rival=setup.schedule if isinstance(setup.schedule, Gossip | Federated) else None,
    )


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
