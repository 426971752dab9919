"""The clock of laps, and of a server's iterations: who is ready in time for each of them, and when it is over."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .._arrays import Floats
from ..delays import PairLatency
from ..errors import InvalidInput
from ..schedules import Federated, Laps
from .setup import Setup
from .stragglers import Drawn, draw_hops

#: A lap that has too few nodes in time this often will never have enough.
_MOST_TRIES = 1000


def who_takes_part(
    setup: Setup, among: Laps | Federated, rng: np.random.Generator
) -> tuple[NDArray[np.bool_], Floats, int]:
    """Draw who takes part in each lap, when each is over (from 0 on), and how many tries that took.

    A try with too few nodes is void: it costs time and no privacy, and what nodes have prepared is still there.
    """
    deadline, hop_latency, pairs = setup.timeout, setup.run.delay.hop_latency, setup.lateness.latency
    needed = among.needed if isinstance(among, Laps) else 0
    took_part, times = np.zeros((setup.steps, setup.data.nodes), np.bool_), np.zeros(setup.steps + 1)
    nodes, lap, in_vain = _Nodes(setup, rng), 0, 0
    for tries, turn in enumerate(_turns(setup, rng), 1):
        waits = nodes.waits(turn)
        answers = waits + turn.computing
        ready = answers <= deadline
        enough = np.count_nonzero(ready) >= needed
        passed = float(among.latencies(answers[None], deadline, hop_latency if pairs is None else 0.0)[0])
        if pairs is not None:
            assert isinstance(among, Laps)
            passed += among.round_trips * _round_trip(pairs, np.flatnonzero(ready), tries, rng)
        nodes.after(turn, waits, ready & enough, passed)
        in_vain = 0 if enough else in_vain + 1
        if in_vain == _MOST_TRIES:
            reason = f"{in_vain} times fewer than {needed} of {among.nodes} nodes were ready by then"
            raise InvalidInput.because("timeout", deadline, reason)
        if enough:
            took_part[lap], times[lap + 1] = ready, nodes.now
            lap += 1
        if lap == setup.steps:
            break
    return took_part, times, tries


def _turns(setup: Setup, rng: np.random.Generator) -> Iterator[Drawn]:
    """Draw what all nodes meet in one try after another, as many tries at a time as there are laps."""
    who = np.arange(setup.data.nodes, dtype=np.int32)
    while True:
        drawn = draw_hops(
            setup.delay, np.tile(who, setup.steps), len(who), setup.stragglers, rng, setup.lateness.compute
        )
        for each in zip(*(array.reshape(setup.steps, len(who)) for array in drawn[1:]), strict=True):
            yield Drawn(who, *each)


class _Nodes:
    """What all nodes have prepared, as time goes on; `ready_at` is nan for those that prepare nothing."""

    def __init__(self, setup: Setup, rng: np.random.Generator) -> None:
        self.now, self._deadline, self._ready = 0.0, setup.timeout, setup.lateness.ready
        self._ready_at = np.full(setup.data.nodes, 0.0 if self._ready == "ahead" else np.nan)
        self._reached = setup.lateness.availability
        self._phase = 0.0 if self._reached is None else rng.random() * self._reached.period  # they share a day

    def waits(self, turn: Drawn) -> Floats:
        """Return how long it is until each node can begin to compute; infinity for those that do not answer."""
        self._ready_at[turn.dead] = np.nan
        silent = turn.dead | turn.lost
        anew = ~silent & (np.isnan(self._ready_at) | (self._ready == "fresh"))
        # Not as a difference of moments, which rounds: a delay of just the deadline is in time.
        prepared = self._unreached(np.zeros(len(silent))) + turn.delays
        self._ready_at = np.where(anew, self.now + prepared, self._ready_at)
        waits = np.where(anew, prepared, np.maximum(self._ready_at - self.now, 0.0))
        return np.where(silent, np.inf, waits + self._unreached(waits))

    def _unreached(self, waits: Floats) -> Floats:
        """Return how much longer it is until each node can be reached, after it has waited."""
        if self._reached is None:
            return np.zeros(len(waits))
        return self._reached.waits(self._phase + self.now + np.where(np.isfinite(waits), waits, 0.0), len(waits))

    def after(self, turn: Drawn, waits: Floats, took_part: NDArray[np.bool_], passed: float) -> None:
        """Let time pass. Who takes part uses up what was prepared; who computes for too long is busy to the end."""
        ends, began = self.now + waits + turn.computing, waits <= self._deadline
        too_late = began & (waits + turn.computing > self._deadline)
        following = ends + turn.delays if self._ready == "ahead" else np.nan
        self._ready_at = np.where(took_part, following, np.where(too_late, ends, self._ready_at))
        self.now += passed


def _round_trip(pairs: PairLatency, in_time: NDArray[np.intp], tries: int, rng: np.random.Generator) -> float:
    """Return how long a message takes from the leader, which nodes in time are in turn, to each other one and back."""
    seconds = pairs.seconds[rng.integers(len(pairs.seconds))]
    if len(in_time) < 2:
        return 0.0
    places = in_time % pairs.nodes
    leader, others = places[tries % len(places)], np.delete(places, tries % len(places))
    return float((seconds[leader, others] + seconds[others, leader]).max())
