"""Many runs at once: one independent random stream per run, on as many threads as there are cores."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from .._arrays import Floats
from ..learning import NeuralModel
from ..schedules import Laps, Schedule
from .compiled_runs import CompiledRuns
from .laps import LapRuns
from .lateness import rows_that_fit, timeline
from .layout import laid_out
from .neural_runs import NeuralRuns
from .setup import Hops, Interrupted, RunOutput, Setup
from .stragglers import draw_hops
from .wide_runs import WideRuns, is_wide

#: What all runs of a setup share.
Shared = CompiledRuns | NeuralRuns | WideRuns | LapRuns


def prepare_runs(setup: Setup) -> Shared:
    """Return what all runs of a setup share; setups that differ in length, step sizes or noise alone share it, too."""
    if isinstance(setup.schedule, Laps):
        return LapRuns(setup)
    if isinstance(setup.model, NeuralModel):
        return NeuralRuns(setup)
    return WideRuns(setup) if is_wide(setup) else CompiledRuns(setup)


def _never() -> bool:
    return False


def run_one(
    setup: Setup, number: int, prepared: Shared | None = None, stopped: Callable[[], bool] = _never
) -> RunOutput:
    """Simulate run `number` of a setup: always the same for the same seed and number, unless the setup is secret.

    A run that takes one update after another in Python raises `Interrupted` once it is `stopped`.
    """
    shared = prepared or prepare_runs(setup)
    if isinstance(shared, LapRuns):
        return shared.run(setup, number, stopped)
    if not isinstance(setup.schedule, Schedule):
        from .rivals.runs import run_rival  # numba is loaded only where it is needed

        assert isinstance(shared, CompiledRuns)
        return run_rival(setup, number, shared)
    rng, noise = setup.streams(number)
    path = setup.path(rng)
    nodes, lateness, hop_latency = setup.data.nodes, setup.lateness, setup.run.delay.hop_latency
    drawn = draw_hops(setup.delay, path, nodes, setup.stragglers, rng, lateness.compute)
    timeouts = _timeouts(setup)
    waited: Floats
    if lateness.usual:
        delays = drawn.answers
        updated, passed_on, fewer = delays <= timeouts, np.zeros(0, np.bool_), np.zeros((0, 2), np.int64)
        waited = np.cumsum(np.minimum(delays, timeouts) + hop_latency)
    else:
        # A share of a batch is not one of the node's own rows: their number must decide nothing.
        least, limits = 1.0 / setup.full_batch, np.broadcast_to(np.asarray(timeouts, np.float64), path.shape).copy()
        times = timeline(lateness, drawn, limits, rng, nodes=nodes, hop_latency=hop_latency, least_share=least)
        updated, passed_on, waited = times.updated, times.passed_on, times.clock
        fewer = _fewer_rows(setup, shared, path, times.share)
    learned = shared.run(setup, number, noise, Hops(path, updated, fewer), stopped)
    return RunOutput(
        number,
        *learned,
        latency=np.concatenate([[0.0], waited])[setup.points],
        offered=path,
        updated=updated,
        turns=np.bincount(path, minlength=nodes),
        skips=np.bincount(path[~updated], minlength=nodes),
        passed_on=passed_on,
        foreseeable=shared.on_gpu or not setup.secret,
    )


def _timeouts(setup: Setup) -> float | Floats:
    """Return how long the node of a hop is waited for: for one and all, or hop by hop if some rounds are patient."""
    patient_every = setup.run.delay.patient_every
    if patient_every is None:
        return setup.timeout
    rounds = np.arange(setup.hops) // setup.data.nodes
    return np.where((rounds + 1) % patient_every == 0, np.inf, setup.timeout)


def _fewer_rows(setup: Setup, shared: Shared, path: NDArray[np.int32], share: Floats) -> NDArray[np.int64]:
    """Return how many rows each update takes and where it begins; nothing if all of them take all rows."""
    if setup.lateness.late != "fewer-rows" or setup.lateness.compute is None:
        return np.zeros((0, 2), np.int64)
    rows = laid_out(setup) if isinstance(shared, NeuralRuns | LapRuns) else shared.layout
    return rows_that_fit(share, rows.parts_of(path), np.diff(rows.start), setup.protection.batch)


def run_many(
    setup: Setup, numbers: Iterable[int], *, threads: int | None = None, stop: threading.Event | None = None
) -> Iterator[RunOutput]:
    """Simulate several runs at once and yield each as soon as it is finished, in any order.

    If `stop` is set, runs that have not begun are left out, and those of networks that have begun, too.
    """
    shared = prepare_runs(setup)
    few = shared.parallel if isinstance(shared, NeuralRuns | LapRuns) else None
    workers = few or max(1, threads or os.cpu_count() or 1)
    left = threading.Event()

    def stopped() -> bool:
        return left.is_set() or (stop is not None and stop.is_set())

    def run(number: int) -> RunOutput | None:
        with suppress(Interrupted):
            return None if stopped() else run_one(setup, number, shared, stopped)
        return None

    # A user who leaves, by Ctrl-C in a notebook or by not asking for more, does not wait for runs of minutes.
    with ThreadPoolExecutor(workers) as pool, ExitStack() as leaving:
        leaving.callback(left.set)
        waiting = iter(numbers)
        running = {pool.submit(run, number) for number in islice(waiting, few or 2 * workers)}
        while running:
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                running |= {pool.submit(run, number) for number in islice(waiting, 1)}
                if (output := future.result()) is not None:
                    yield output
