"""Many runs at once: one independent random stream per run, on as many threads as there are cores."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import NodeData
from ..delays import Delay
from ..errors import InvalidInput, require_integer, require_non_negative
from ..learning import LinearModel, NeuralModel, StepSizes
from ..schedules import Schedule
from .neural_runs import NeuralRuns
from .stragglers import Stragglers, draw_delays

__all__ = ["RunOutput", "Setup", "run_many", "run_one"]

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Setup:
    """Everything that decides what happens in a simulated run, but for its number.

    `batch` is the number of rows that a node uses for an update; None means all of its rows.
    """

    model: LinearModel | NeuralModel
    data: NodeData
    test_x: Floats
    test_y: Floats
    schedule: Schedule
    steps: int
    delay: Delay
    timeout: float
    hop_latency: float
    step_sizes: StepSizes
    noise_multiplier: float
    batch: int | None = None
    stragglers: Stragglers = field(default_factory=Stragglers)
    seed: int = 0
    evaluate_every: int = 100

    def __post_init__(self) -> None:
        require_integer("steps", self.steps, 1)
        require_integer("seed", self.seed, 0)
        require_integer("evaluate_every", self.evaluate_every, 1)
        require_non_negative("hop_latency", self.hop_latency)
        require_non_negative("noise_multiplier", self.noise_multiplier)
        if not self.timeout > 0.0:
            raise InvalidInput("timeout", self.timeout, "above 0, or infinity")
        if math.isinf(self.timeout) and (self.stragglers.may_never_answer or self.delay.mass_at_infinity > 0.0):
            raise InvalidInput.because(
                "timeout", "infinity", "a node that never answers would be waited for without end"
            )
        if self.schedule.nodes != self.data.nodes:
            raise InvalidInput("nodes", self.schedule.nodes, f"the number of nodes of the data, {self.data.nodes}")
        if self.batch is not None:
            require_integer("batch", self.batch, 1)
            if self.batch > int(self.data.sizes.min()):
                smallest = int(self.data.sizes.min())
                raise InvalidInput("batch", self.batch, f"at most {smallest}, the number of rows of the smallest node")
        for name, x in (("training", self.data.features), ("test", self.test_x)):
            if x.ndim != 2 or x.shape[1] != self.model.features:
                raise InvalidInput("features", x.shape, f"{self.model.features} columns in the {name} data")
            if isinstance(self.model, LinearModel) and len(x) and float(np.einsum("ij,ij->i", x, x).max()) > 1.0 + 1e-9:
                raise InvalidInput.because(
                    "unit_rows", False, f"rows of the {name} data have norms above 1, which the model's bounds rest on"
                )

    @property
    def points(self) -> NDArray[np.int64]:
        """The numbers of steps after which metrics are taken: 0, and then every `evaluate_every`, and the end."""
        return np.append(np.arange(0, self.steps, self.evaluate_every), self.steps)


@dataclass(frozen=True, eq=False)
class RunOutput:
    """What one run leaves: metrics at the setup's points, the last model, and the path."""

    number: int
    test_error: Floats
    loss: Floats
    latency: Floats
    updates: NDArray[np.int64]
    model: Floats
    offered: NDArray[np.int32]
    updated: NDArray[np.bool_]


class _Prepared:
    """The arrays that all runs share, in the layout that the kernels want."""

    def __init__(self, setup: Setup) -> None:
        from ._kernel import logistic_tables  # numba is loaded only where it is needed

        model = setup.model
        assert isinstance(model, LinearModel)
        self.x = np.ascontiguousarray(setup.data.features, dtype=np.float64)
        self.start = np.ascontiguousarray(setup.data.start, dtype=np.int64)
        labels, test = np.asarray(setup.data.labels, np.float64), np.asarray(setup.test_y, np.float64)
        if model.loss == "logistic":
            labels, test = 2.0 * labels - 1.0, 2.0 * test - 1.0
        self.y, self.test_y = labels, test.astype(np.float32)
        signs = self.test_y[:, None] if model.loss == "logistic" else np.float32(1.0)
        self.columns = np.ascontiguousarray((np.asarray(setup.test_x, np.float32) * signs).T)
        self.tables = logistic_tables(model.radius)
        self.limits = np.zeros(0)
        if model.clips and model.loss != "softmax":
            norms = np.sqrt(np.einsum("ij,ij->i", self.x, self.x))
            self.limits = model.gradient_bound / np.maximum(norms, 1e-300)
        self.sizes = setup.step_sizes.first(setup.steps)
        self.batch = setup.batch if setup.batch is not None else int(setup.data.sizes.max())


def _prepare(setup: Setup) -> _Prepared | NeuralRuns:
    return NeuralRuns(setup) if isinstance(setup.model, NeuralModel) else _Prepared(setup)


def run_one(setup: Setup, number: int, prepared: _Prepared | NeuralRuns | None = None) -> RunOutput:
    """Simulate run `number` of a setup: always the same for the same seed and number."""
    shared = prepared or _prepare(setup)
    rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(setup.seed, spawn_key=(number,))))
    path = setup.schedule.path(setup.steps, rng)
    delays = draw_delays(setup.delay, path, setup.data.nodes, setup.stragglers, rng)
    ready = delays <= setup.timeout
    waited = np.cumsum(np.minimum(delays, setup.timeout) + setup.hop_latency)
    points = setup.points
    if isinstance(shared, NeuralRuns):
        errors, losses, updates, w = shared.run(setup, rng, path, ready)
    else:
        errors, losses, updates, w = _run_linear(setup, shared, rng, path, ready)
    latency = np.concatenate([[0.0], waited])[points]
    return RunOutput(number, errors, losses, latency, updates, w, path, ready)


def _run_linear(
    setup: Setup,
    shared: _Prepared,
    rng: np.random.Generator,
    path: NDArray[np.int32],
    ready: NDArray[np.bool_],
) -> tuple[Floats, Floats, NDArray[np.int64], Floats]:
    from . import _kernel  # numba is loaded only where it is needed

    kernel: Any = _kernel  # compiled functions carry no types
    model = setup.model
    assert isinstance(model, LinearModel)
    points = setup.points
    errors, losses = np.empty(len(points)), np.empty(len(points))
    updates = np.empty(len(points), dtype=np.int64)
    w = np.zeros(model.parameters)
    noise = setup.noise_multiplier * model.gradient_bound
    walk = (shared.x, shared.y, shared.start, shared.batch, path, ready, shared.sizes, noise, setup.evaluate_every)
    end = (shared.columns, shared.test_y, w, errors, losses, updates)
    if model.loss == "softmax":
        clip = model.gradient_bound if model.clips else 0.0
        kernel.run_softmax(rng, model.classes, clip, model.ridge, model.radius, *walk, *end)
    else:
        loss = kernel.LOGISTIC if model.loss == "logistic" else kernel.SQUARED
        kernel.run_margin(rng, loss, shared.limits, model.ridge, model.radius, *shared.tables, *walk, *end)
    return errors, losses, updates, w


def run_many(
    setup: Setup,
    numbers: list[int],
    *,
    threads: int | None = None,
    stop: threading.Event | None = None,
    done: Callable[[RunOutput], None] | None = None,
) -> Iterator[RunOutput]:
    """Simulate several runs at once and yield them in order of their numbers.

    `done` is called in this thread as soon as a run is finished, in any order. If `stop` is set, runs that have not
    begun are left out.
    """
    shared = _prepare(setup)
    # Networks use all of a device for one run; runs come one after another.
    workers = 1 if isinstance(shared, NeuralRuns) else max(1, threads or os.cpu_count() or 1)
    with ThreadPoolExecutor(workers) as pool:
        waiting = iter(numbers)
        running: set[Future[RunOutput]] = set()
        finished: dict[int, RunOutput] = {}
        following = iter(numbers)
        expected = next(following, None)

        def begin() -> None:
            number = None if stop is not None and stop.is_set() else next(waiting, None)
            if number is not None:
                running.add(pool.submit(run_one, setup, number, shared))

        for _ in range(workers if workers == 1 else 2 * workers):
            begin()
        while running:
            ended, running_now = wait(running, return_when=FIRST_COMPLETED)
            running = set(running_now)
            for future in ended:
                output = future.result()
                finished[output.number] = output
                if done is not None:
                    done(output)
                begin()
            while expected is not None and expected in finished:
                yield finished.pop(expected)
                expected = next(following, None)
