"""The clock of laps: who is ready in time for each of them, and when it is over."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._arrays import Floats
from ..errors import InvalidInput
from ..schedules import Laps
from .setup import Setup
from .together import all_delays

#: A lap that has too few nodes in time this often will never have enough.
_MOST_TRIES = 1000


def who_takes_part(setup: Setup, among: Laps, rng: np.random.Generator) -> tuple[NDArray[np.bool_], Floats, int]:
    """Draw who takes part in each lap, when each is over (from 0 on), and how many tries that took.

    A try with too few nodes is void: it costs time and no privacy, and everyone begins anew.
    """
    timeout, hop_latency = setup.timeout, setup.run.delay.hop_latency
    took_part, times = np.zeros((setup.steps, setup.data.nodes), np.bool_), np.zeros(setup.steps + 1)
    lap = tries = in_vain = 0
    seconds = 0.0
    while lap < setup.steps:
        delays = all_delays(setup, rng)
        for ready, passed in zip(delays <= timeout, among.latencies(delays, timeout, hop_latency), strict=True):
            tries, seconds = tries + 1, seconds + float(passed)
            enough = np.count_nonzero(ready) >= among.needed
            in_vain = 0 if enough else in_vain + 1
            if enough:
                took_part[lap], times[lap + 1] = ready, seconds
                lap += 1
            elif in_vain == _MOST_TRIES:
                reason = f"{in_vain} times fewer than {among.needed} of {among.nodes} nodes were ready by then"
                raise InvalidInput.because("timeout", timeout, reason)
            if lap == setup.steps:
                break
    return took_part, times, tries
