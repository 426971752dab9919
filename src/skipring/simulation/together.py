"""How late all nodes are at once, where no token goes from one to the next."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..schedules import Federated, Laps
from .setup import Setup
from .stragglers import draw_hops


def all_delays(setup: Setup, rng: np.random.Generator) -> NDArray[np.floating[Any]]:
    """Draw the delay of every node in every iteration: the first thing that such a run draws.

    It is what passes until a node's gradient is there: until it can be reached, is ready, and has computed.
    """
    nodes, lateness = setup.data.nodes, setup.lateness
    everyone = np.tile(np.arange(nodes, dtype=np.int32), setup.steps)
    drawn = draw_hops(setup.delay, everyone, nodes, setup.stragglers, rng, lateness.compute)
    delays = (drawn.answers + drawn.computing).reshape(setup.steps, nodes)
    if lateness.availability is not None:
        assert isinstance(setup.schedule, Federated | Laps)
        now = rng.random() * lateness.availability.period
        for number in range(setup.steps):
            delays[number] += lateness.availability.waits(now, nodes)
            now += float(
                setup.schedule.latencies(delays[number : number + 1], setup.timeout, setup.run.delay.hop_latency)[0]
            )
    return delays
