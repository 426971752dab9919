"""A simulated run of a rival: draw who is late, step and average, and count the time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...learning import LinearModel
from ...learning import _compiled as compiled
from ...schedules import Federated, Gossip
from ...timeouts import skip_probability
from ..compiled_runs import CompiledRuns
from ..lap_clock import who_takes_part
from ..setup import RunOutput, Setup
from ._kernel import FEDERATED, GOSSIP, Averaging
from .graphs import graph_stream

#: Every node of gossip has a model of its own; the test error is the mean over this many of them.
_JUDGES = 32


def run_rival(setup: Setup, number: int, shared: CompiledRuns) -> RunOutput:
    """Simulate run `number` of gossip or federated learning, unless secret always the same for seed and number."""
    model, rival, nodes = setup.model, setup.schedule, setup.data.nodes
    assert isinstance(model, LinearModel)
    rng, noise = setup.streams(number)
    points = setup.points
    metrics = shared.metrics(setup)
    most = setup.run.learning.clip_noisy or 0.0
    room = compiled.scratch_for(model, shared.rows, shared.test)
    how = (shared.model, shared.rows, shared.rule(setup), most)
    skips: NDArray[np.int64] = np.zeros(nodes, dtype=np.int64)
    took_part = np.zeros(0, np.bool_)
    if isinstance(rival, Gossip):
        passed = rival.latencies(setup.steps, setup.delay, setup.timeout, setup.run.delay.hop_latency, rng)
        times = np.append(0.0, np.cumsum(passed))
        linked = rival.edge_probability(skip_probability(setup.delay, setup.timeout))
        judges = np.unique(np.linspace(0, nodes - 1, min(nodes, _JUDGES)).astype(np.int64))
        models = np.zeros((nodes, model.parameters))
        graphs, averaging = (
            graph_stream(setup.run.simulation.seed, number),
            Averaging(rival.rounds, linked, rival.acceleration),
        )
        GOSSIP(noise, graphs, *how, averaging, shared.test, room, judges, models, metrics)
        w = models.mean(axis=0)
        updates = points * nodes
    else:
        assert isinstance(rival, Federated)
        ready, times, _ = who_takes_part(setup, rival, rng)
        w = np.zeros(model.parameters)
        FEDERATED(noise, *how, ready, shared.test, room, w, metrics)
        skips = setup.steps - ready.sum(axis=0)
        if number == 0:  # of all runs it would take much room
            took_part = ready.ravel()
        updates = np.concatenate([[0], np.cumsum(ready.sum(axis=1))])[points]
    turns = np.full(nodes, setup.steps, dtype=np.int64)
    nowhere = np.zeros(0, dtype=np.int32)
    return RunOutput(
        number,
        metrics.errors,
        metrics.losses,
        updates,
        w,
        times[points],
        nowhere,
        took_part,
        turns,
        skips.astype(np.int64),
        foreseeable=not setup.secret,
    )


def who_is_ready(setup: Setup, number: int) -> NDArray[np.bool_]:
    """Return for each iteration of a federated run who took part, the same as in its simulation."""
    assert isinstance(setup.schedule, Federated)
    assert not setup.secret  # nobody can draw it again
    return who_takes_part(setup, setup.schedule, setup.streams(number)[0])[0]
