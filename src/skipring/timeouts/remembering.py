"""Nodes that remember what they have prepared: how long a round takes, and how often a node updates in it.

In a large ring the duration T of a round hardly varies. Given T, a node's cycle from one update to the next can be
followed: a preparation of length D is offered the token after about T, 2T, ... (on a random ring at a random place of
each round), is skipped while more than the timeout is left of it, and then waited for. Mean waits per turn give the
round's duration again, T = n (hop + wait): the fixed point is the law. It is exact in the limit of many nodes; how good
it is for few, tests/test_timeouts_ready.py says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Literal

import numpy as np

from .._arrays import Doubles
from ..delays import Delay
from ..errors import InvalidInput, require_integer, require_non_negative
from .fresh import TimeoutChoice, choose_timeout, expected_latency, require_timeout, skip_probability

Ready = Literal["fresh", "kept", "ahead"]


class TurnLaw(Enum):
    """When a node's turn comes: at one place of all rounds, once in each at any place, or at any time."""

    IN_PLACE = "in place"
    IN_ROUNDS = "in rounds"
    AT_RANDOM = "at random"


#: Timeouts whose pace is within this share of the best are as good; of them the longest skips the fewest.
_AS_GOOD = 1e-3


@dataclass(frozen=True)
class RoundLaw:
    """How long a round takes, the share of turns without an update, and the time from one update to the next."""

    duration: float
    skip_probability: float
    time_between_updates: float


def round_law(
    delay: Delay, timeout: float, hop_latency: float, nodes: int, ready: Ready, *, turns: TurnLaw = TurnLaw.IN_ROUNDS
) -> RoundLaw:
    """Return the law of a round in the limit of many nodes; for `fresh` it is exact (Lemma 1).

    >>> from skipring.delays import Lomax
    >>> law = round_law(Lomax(3.0, 2.0), 0.2139, 0.01, 1000, "ahead")
    >>> round(law.duration, 2), round(law.skip_probability, 4)
    (12.24, 0.0099)
    """
    require_integer("nodes", nodes, 2)
    require_non_negative("hop_latency", hop_latency)
    if ready not in ("fresh", "kept", "ahead"):
        raise InvalidInput("ready", ready, "fresh, kept or ahead")
    if ready == "fresh":
        duration = expected_latency(delay, timeout, hop_latency, nodes)
        skip = skip_probability(delay, timeout)
        return RoundLaw(duration, skip, duration / nodes / (1.0 - skip) if skip < 1.0 else math.inf)
    require_timeout(timeout)
    if math.isinf(delay.mean):
        reason = f"with {delay}, whose mean is infinite, nodes that remember are unready for ever longer"
        raise InvalidInput.because("ready", ready, reason)
    return _round(delay, timeout, hop_latency, nodes, ready, turns, skips=math.isfinite(timeout))


@lru_cache(maxsize=4096)  # a plan asks for the same timeouts again and again
def _round(
    delay: Delay, timeout: float, hop_latency: float, nodes: int, ready: Ready, when: TurnLaw, *, skips: bool
) -> RoundLaw:
    values, weights = _grid(delay)

    def wait_and_turns(duration: float, late: float) -> tuple[float, float]:
        waits, turns = _cycle(values, weights, timeout, duration, ready, when, late)
        return waits / turns, turns

    low, high = nodes * hop_latency, nodes * (hop_latency + min(timeout, delay.mean)) * (1.0 + 1e-12)
    duration, turns = high, 1.0
    for _ in range(45):
        duration = 0.5 * (low + high)
        # A node that prepares ahead begins when it has updated: the mean wait after its turn has come.
        wait, turns = wait_and_turns(max(duration, 1e-300), duration / nodes - hop_latency)
        low, high = (low, duration) if nodes * (hop_latency + wait) < duration else (duration, high)
    turns = turns if skips and turns > 1.0 + 1e-12 else 1.0  # weights sum to 1 but for rounding
    return RoundLaw(duration, 1.0 - 1.0 / turns, duration / nodes * turns)


@lru_cache(maxsize=32)
def _grid(delay: Delay) -> tuple[Doubles, Doubles]:
    """Return delays and weights that stand for the law: evenly by probability, and finer and finer in the tail."""
    survival = np.concatenate([np.linspace(1.0, 1e-2, 300), np.geomspace(1e-2, 1e-12, 80)[1:], [0.0]])
    weights = -np.diff(survival)
    points = np.asarray(delay.upper_quantile(survival[:-1] - 0.5 * weights), np.float64)
    values = np.where(np.isinf(points), 0.0, points)
    # What the tail's cells leave of the mean, or have too much, is put right in the last one: turns grow linearly.
    missing = delay.mean - float(weights @ values)
    values[-1] += max(missing, -weights[-1] * values[-1]) / weights[-1]
    return values, weights


def _cycle(
    delays: Doubles, weights: Doubles, timeout: float, duration: float, ready: Ready, when: TurnLaw, late: float
) -> tuple[float, float]:
    """Return the mean sum of waits and the mean number of turns from one update of a node to its next."""
    if ready == "ahead":
        waits, turns = _from_elsewhere(delays + late, timeout, duration, when)
    else:
        again, more = _from_elsewhere(delays, timeout, duration, when)
        skipped = delays > timeout
        waits = np.minimum(delays, timeout) + np.where(skipped, again, 0.0)
        turns = 1.0 + np.where(skipped, more, 0.0)
    return float(weights @ waits), float(weights @ turns)


def _from_elsewhere(delays: Doubles, timeout: float, duration: float, when: TurnLaw) -> tuple[Doubles, Doubles]:
    """Return for each delay the waits and turns of the rounds after the one in which the preparation began."""
    if math.isinf(timeout):
        timeout = float(delays.max()) + 1.0
    if when is TurnLaw.AT_RANDOM:
        return _walk(delays, timeout, duration)
    if when is TurnLaw.IN_PLACE:
        turns = np.maximum(1.0, np.ceil((delays - timeout) / duration))
        return (turns - 1.0) * timeout + np.clip(delays - turns * duration, 0.0, timeout), turns
    # A turn in the k-th round after one at place u of its round comes T (k - u + v) later, v uniform on (0, 1). All in
    # units of T: with s = D/T + u the node is skipped in round k if k + v < z = s - timeout. It is for k < floor(z), in
    # round floor(z) with probability z - floor(z), and not after that.
    places = (np.arange(12) + 0.5) / 12
    s = delays[:, None] / duration + places
    most = timeout / duration
    z = s - most
    whole = np.floor(z)
    part = z - whole
    once = _hinge(s - 1.0)
    left = np.minimum(1.0 - part, most)
    several = (whole - 1.0) * most + part * most + most * left - 0.5 * left * left + part * _hinge(part + most - 1.0)
    waits = duration * np.where(z < 1.0, once, several).mean(axis=1)
    return waits, np.maximum(z, 1.0).mean(axis=1)


def _hinge(x: Doubles) -> Doubles:
    """Return E max(0, x - v) for v uniform on (0, 1)."""
    inside = np.clip(x, 0.0, 1.0)
    return 0.5 * inside * inside + np.maximum(x - 1.0, 0.0)


def _walk(delays: Doubles, timeout: float, duration: float) -> tuple[Doubles, Doubles]:
    """Turns come as in a Poisson process, one in T on average."""
    skipped = np.maximum(delays - timeout, 0.0) / duration
    rest = np.minimum(delays, timeout)
    return skipped * timeout + rest + duration * np.expm1(-rest / duration), 1.0 + skipped


def choose_timeout_ready(
    delay: Delay, hop_latency: float, nodes: int, ready: Ready, *, turns: TurnLaw = TurnLaw.IN_ROUNDS
) -> TimeoutChoice:
    """Return the best timeout with what it means for a run; of those that are as good (0.1 %), the longest.

    >>> from skipring.delays import Lomax
    >>> choice = choose_timeout_ready(Lomax(3.0, 2.0), 0.01, 1000, "ahead")
    >>> choice.time_between_updates < 0.011
    True
    """
    if ready == "fresh":
        return choose_timeout(delay, hop_latency)
    points = delay.search_points()
    # Nodes that are ready cost nothing, so that timeouts far below any delay may be the best.
    ends = max(min(float(points[0]), 1e-3 * hop_latency), 1e-6 * delay.mean), float(points[-1])
    timeouts = np.append(np.geomspace(*ends, 40) if ends[0] < ends[1] else points, math.inf)

    def pace(timeout: float) -> float:
        return round_law(delay, timeout, hop_latency, nodes, ready, turns=turns).time_between_updates

    paces = np.array([pace(float(timeout)) for timeout in timeouts])
    place = int(np.argmin(paces))
    least, timeout = float(paces[place]), float(timeouts[place])
    around = timeouts[max(0, place - 1) : place + 2]
    around = around[np.isfinite(around)]
    if len(around) > 1:  # one refinement: between two neighbours the pace is flat
        finer = np.geomspace(around[0], around[-1], 9)
        found = np.array([pace(float(each)) for each in finer])
        if found.min() < least:
            least, timeout = float(found.min()), float(finer[np.argmin(found)])
    good = timeouts[paces <= least * (1.0 + _AS_GOOD)]
    timeout = max(timeout, float(good.max(initial=0.0)))
    law = round_law(delay, timeout, hop_latency, nodes, ready, turns=turns)
    return TimeoutChoice(timeout, law.skip_probability, law.time_between_updates)
