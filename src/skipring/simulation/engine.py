"""Many runs at once: one independent random stream per run, on as many threads as there are cores."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import Floats
from ..learning import LinearModel, NeuralModel
from ..schedules import Schedule
from .lateness import Timeline, rows_that_fit, timeline
from .neural_runs import NeuralRuns
from .setup import Interrupted, KernelArrays, RunOutput, Setup, laid_out
from .stragglers import Drawn, draw_hops
from .wide_runs import WideRuns, is_wide

#: What all runs of a setup share.
Shared = KernelArrays | NeuralRuns | WideRuns


def prepare_runs(setup: Setup) -> Shared:
    """Return what all runs of a setup share; setups that differ in length, step sizes or noise alone share it, too."""
    if isinstance(setup.model, NeuralModel):
        return NeuralRuns(setup)
    return WideRuns(setup) if is_wide(setup) else KernelArrays(setup)


def _never() -> bool:
    return False


def run_one(
    setup: Setup, number: int, prepared: Shared | None = None, stopped: Callable[[], bool] = _never
) -> RunOutput:
    """Simulate run `number` of a setup: always the same for the same seed and number, unless the setup is secret.

    A run that takes one update after another in Python raises `Interrupted` once it is `stopped`.
    """
    shared = prepared or prepare_runs(setup)
    if not isinstance(setup.schedule, Schedule):
        from .rivals.runs import run_rival  # numba is loaded only where it is needed

        assert isinstance(shared, KernelArrays)
        return run_rival(setup, number, shared)
    nodes = setup.data.nodes
    rng, noise = setup.streams(number)
    path = setup.path(rng)
    drawn = draw_hops(setup.delay, path, nodes, setup.stragglers, rng)
    timeouts = _timeouts(setup)
    waited: Floats
    if setup.lateness.usual:
        delays = drawn.answers
        ready, passed_on, fewer = delays <= timeouts, np.zeros(0, np.bool_), np.zeros((0, 2), np.int64)
        waited = np.cumsum(np.minimum(delays, timeouts) + setup.run.delay.hop_latency)
    else:
        ready, passed_on, share, waited = _late(setup, path, drawn, timeouts, rng)
        fewer = _fewer_rows(setup, shared, path, share)
    points = setup.points
    if isinstance(shared, NeuralRuns):
        errors, losses, updates, w = shared.run(setup, number, noise, path, ready, fewer, stopped)
    elif isinstance(shared, WideRuns):
        errors, losses, updates, w = shared.run(setup, noise, path, ready, fewer, stopped)
    else:
        errors, losses, updates, w = _run_linear(setup, shared, noise, path, ready, fewer)
    latency = np.concatenate([[0.0], waited])[points]
    turns, skips = np.bincount(path, minlength=nodes), np.bincount(path[~ready], minlength=nodes)
    known = not setup.secret or (not isinstance(shared, KernelArrays) and shared.on_gpu)
    return RunOutput(number, errors, losses, latency, updates, w, path, ready, turns, skips, passed_on, known)


def _timeouts(setup: Setup) -> float | Floats:
    """Return how long the node of a hop is waited for: for one and all, or hop by hop if some rounds are patient."""
    patient_every = setup.run.delay.patient_every
    if patient_every is None:
        return setup.timeout
    rounds = np.arange(setup.hops) // setup.data.nodes
    return np.where((rounds + 1) % patient_every == 0, np.inf, setup.timeout)


def _late(
    setup: Setup, path: NDArray[np.int32], drawn: Drawn, timeouts: float | Floats, rng: np.random.Generator
) -> Timeline:
    """Return what happens where nodes remember what they have prepared, take time to compute, or follow a trace."""
    lateness = setup.lateness
    computing = np.zeros(len(path))
    if lateness.compute is not None:
        computing = lateness.compute.at_turns(path, rng) * drawn.factors
    return timeline(
        lateness,
        path=path,
        delays=drawn.delays,
        computing=computing,
        dead=drawn.dead,
        lost=drawn.lost,
        timeouts=np.broadcast_to(np.asarray(timeouts, np.float64), path.shape).copy(),
        hop_latency=setup.run.delay.hop_latency,
        least_share=1.0 / setup.full_batch,  # not by the node's own rows: their number must decide nothing
        nodes=setup.data.nodes,
        rng=rng,
    )


def _fewer_rows(setup: Setup, shared: Shared, path: NDArray[np.int32], share: Floats) -> NDArray[np.int64]:
    """Return how many rows each update takes and where it begins; nothing if all of them take all rows."""
    if setup.lateness.late != "fewer-rows" or setup.lateness.compute is None:
        return np.zeros((0, 2), np.int64)
    rows = laid_out(setup) if isinstance(shared, NeuralRuns) else shared.layout
    return rows_that_fit(share, rows.parts_of(path), np.diff(rows.start), setup.protection.batch)


def _run_linear(
    setup: Setup,
    shared: KernelArrays,
    rng: np.random.Generator,
    path: NDArray[np.int32],
    ready: NDArray[np.bool_],
    fewer: NDArray[np.int64],
) -> tuple[Floats, Floats, NDArray[Any], Floats]:
    from ..learning import _compiled as compiled  # numba is loaded only where it is needed
    from ._kernel import WALKS

    model, points = setup.model, len(setup.points)
    assert isinstance(model, LinearModel)
    metrics = compiled.RunMetrics(
        setup.run.simulation.evaluate_every, np.empty(points), np.empty(points), np.empty(points, dtype=np.int64)
    )
    w = np.zeros(model.parameters)
    room = compiled.scratch_for(model, shared.rows, shared.test)
    walk = WALKS[model.loss.kernel]
    parts = shared.layout.parts_of(path, setup.closing)
    walk(rng, shared.model, shared.rows, setup.rule, parts, ready, fewer, shared.test, room, w, metrics)
    return metrics.errors, metrics.losses, metrics.updates, w


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
    begun are left out, and those of networks that have begun, too.
    """
    shared = prepare_runs(setup)
    workers = shared.parallel if isinstance(shared, NeuralRuns) else max(1, threads or os.cpu_count() or 1)
    left = threading.Event()

    def stopped() -> bool:
        return left.is_set() or (stop is not None and stop.is_set())

    # Whoever leaves, by Ctrl-C in a notebook or by not asking for more, does not wait for runs of minutes.
    with ThreadPoolExecutor(workers) as pool, ExitStack() as leaving:
        leaving.callback(left.set)
        waiting = iter(numbers)
        running: set[Future[RunOutput]] = set()
        finished: dict[int, RunOutput] = {}
        following = iter(numbers)
        expected = next(following, None)

        def begin() -> None:
            number = None if stopped() else next(waiting, None)
            if number is not None:
                running.add(pool.submit(run_one, setup, number, shared, stopped))

        for _ in range(workers if isinstance(shared, NeuralRuns) else 2 * workers):
            begin()
        while running:
            ended, running_now = wait(running, return_when=FIRST_COMPLETED)
            running = set(running_now)
            for future in ended:
                try:
                    output = future.result()
                except Interrupted:
                    continue
                finished[output.number] = output
                if done is not None:
                    done(output)
                begin()
            while expected is not None and expected in finished:
                yield finished.pop(expected)
                expected = next(following, None)
