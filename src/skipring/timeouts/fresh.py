"""Nodes that begin anew at each turn: what a timeout costs in time, and the one that is best (Lemmas 1 and 2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from .._arrays import Doubles
from ..delays import Delay
from ..errors import InvalidInput, require_integer, require_non_negative, require_probability_below_one

SMALLEST = 1e-280  # stands for "towards 0": far below any clock, far above where doubles lose digits
GAIN = 1e-3  # stretches that provably cannot be better than the best by this much are not searched further
SAME = 1e-10  # gains below this are rounding
MOST_POINTS = 30_000


@dataclass(frozen=True)
class TimeoutChoice:
    """A timeout, how often it skips a node, and how much time then passes between two updates."""

    timeout: float
    skip_probability: float
    time_between_updates: float


def skip_probability(delay: Delay, timeout: float) -> float:
    """Return how likely a node is skipped: that it is not ready within the timeout.

    >>> from skipring.delays import Exponential
    >>> round(skip_probability(Exponential(1.0), 0.69315), 4)
    0.5
    """
    require_timeout(timeout)
    return delay.survival(float(timeout))


def expected_latency(delay: Delay, timeout: float, hop_latency: float, steps: int) -> float:
    """Return the average duration of a run (Lemma 1): each hop costs its latency and a limited wait.

    >>> from skipring.delays import Exponential
    >>> round(expected_latency(Exponential(1.0), math.inf, 0.01, 1000), 6)
    1010.0
    """
    require_timeout(timeout)
    require_non_negative("hop_latency", hop_latency)
    require_integer("steps", steps, at_least=1)
    return steps * (hop_latency + delay.truncated_mean(float(timeout)))


def time_between_updates(delay: Delay, timeout: float, hop_latency: float) -> float:
    """Return the average time from one update of the token to the next (Lemma 2); infinite if there is none.

    >>> from skipring.delays import Gamma
    >>> round(time_between_updates(Gamma(0.25, 1.0), 0.0048, 0.01), 5)
    0.04717
    """
    require_timeout(timeout)
    require_non_negative("hop_latency", hop_latency)
    return float(_pace(delay, np.array([timeout], dtype=np.float64), hop_latency)[0])


def timeout_for_skip(delay: Delay, skip: float) -> float:
    """Return the shortest timeout that skips a node with at most this probability.

    Where many delays are exactly equal (measured durations, discrete laws), the timeout's actual skip
    probability may be smaller: ask `skip_probability`. For 0 it is the longest possible delay, or infinity;
    infinity is refused where a node may be dead, since a run would wait for it forever.

    >>> from skipring.delays import Empirical, Lomax
    >>> round(timeout_for_skip(Lomax(3.0, 2.0), 0.7), 5)
    0.2525
    >>> timeout_for_skip(Empirical([1.0, 2.0, 3.0, 4.0]), 0.3)
    3.0
    """
    require_probability_below_one("skip", skip)
    never = delay.mass_at_infinity
    if never > skip:
        reason = f"with {delay}, a node is never ready with probability {never:.6g}; no timeout skips fewer"
        raise InvalidInput.because("skip", skip, reason)
    timeout = delay.upper_quantile(float(skip))
    if timeout == math.inf and never > 0.0:
        reason = (
            f"with {delay}, a node is never ready with probability {never:.6g}; only an endless wait "
            "skips no others, and a dead node would never end it"
        )
        raise InvalidInput.because("skip", skip, reason)
    if timeout == 0.0:
        at_once = delay.cdf(0.0)
        reason = f"with {delay}, a node is ready at once with probability {at_once:.6g}; every timeout skips fewer"
        raise InvalidInput.because("skip", skip, reason)
    return timeout


def best_timeout(delay: Delay, hop_latency: float) -> float:
    """Return the timeout with the least time between updates (Lemma 2); infinity if skipping does not help.

    The minimum is global. Between two neighbouring points of the search, the time between updates is at least the wait
    at the first over the chance to be ready before the second. Stretches are halved until this excludes them. At a
    smooth minimum the timeout is good to about seven digits: the objective is flat there.

    >>> from skipring.delays import Exponential, Gamma
    >>> best_timeout(Exponential(1.0), 0.01), round(best_timeout(Gamma(0.25, 1.0), 0.01), 5)
    (inf, 0.0048)
    """
    require_non_negative("hop_latency", hop_latency)
    if delay.mass_at_infinity >= 1.0:
        raise InvalidInput.because("delay", delay, "no node is ever ready, so no timeout is good")
    points = _search(delay, hop_latency)
    paces = _pace(delay, points, hop_latency)
    timeout, pace = _refined(delay, hop_latency, points, paces)
    towards_zero = _pace_towards_zero(delay, hop_latency, points, paces)
    if time_between_updates(delay, math.inf, hop_latency) <= min(pace, towards_zero) * (1.0 + SAME):
        return math.inf
    if towards_zero <= pace * (1.0 + SAME):
        _refuse_vanishing(delay, hop_latency)
    return timeout


def choose_timeout(delay: Delay, hop_latency: float) -> TimeoutChoice:
    """Return the best timeout with what it means for a run.

    >>> from skipring.delays import Lomax
    >>> choice = choose_timeout(Lomax(3.0, 2.0), 0.01)
    >>> round(choice.timeout, 4), round(choice.skip_probability, 5)
    (0.2139, 0.73726)
    """
    timeout = best_timeout(delay, hop_latency)
    pace = time_between_updates(delay, timeout, hop_latency)
    return TimeoutChoice(timeout, skip_probability(delay, timeout), pace)


def no_update_probability(
    delay: Delay, compute: Delay, timeout: float, *, share: float = 1.0, cells: int = 4000
) -> tuple[float, float]:
    """Return bounds from below and above of how likely a delay and a share of a computation exceed the timeout.

    Both are independent. Computing times are put into cells; in a cell the earliest and the latest is taken for all.

    >>> from skipring.delays import Constant, Exponential
    >>> low, high = no_update_probability(Exponential(1.0), Constant(0.5), 1.5)
    >>> round(low, 6), round(high, 6)
    (0.367879, 0.367879)
    """
    require_timeout(timeout)
    if not 0.0 < share <= 1.0:
        raise InvalidInput("share", share, "above 0 and at most 1")
    if math.isinf(timeout):
        never = max(delay.mass_at_infinity, compute.mass_at_infinity)
        return never, min(1.0, delay.mass_at_infinity + compute.mass_at_infinity)
    last = timeout / share
    inside = np.linspace(0.0, last, cells)
    points = compute.search_points()
    atoms = np.concatenate([points, np.nextafter(points, 0.0)])  # just before a point: its atom is a cell by itself
    edges = np.unique(np.concatenate([inside, compute.quantile(np.linspace(0.0, 1.0, cells)[:-1]), atoms]))
    edges = edges[(edges >= 0.0) & (edges < last)]
    edges = np.append(edges, last)
    mass = np.diff(compute.cdf(edges), prepend=0.0)  # of (previous edge, edge]; the first: of its edge alone
    before = np.append(edges[0], edges[:-1])
    late = compute.survival(last)
    low = late + float(mass @ delay.survival(np.maximum(timeout - share * before, 0.0)))
    high = late + float(mass @ delay.survival(np.maximum(timeout - share * edges, 0.0)))
    return max(0.0, low - 1e-12), min(1.0, high + 1e-12)  # more than rounding in the sums can take


def require_timeout(timeout: float) -> None:
    """Refuse what is no time to wait."""
    if not timeout > 0.0:
        raise InvalidInput("timeout", timeout, "a number above 0 (or inf)")


def _over(wait: Doubles, ready: Doubles) -> Doubles:
    with np.errstate(over="ignore"):
        ratio: Doubles = np.divide(wait, ready, out=np.full(wait.shape, math.inf), where=ready > 0.0)
    return ratio


def _pace(delay: Delay, timeouts: Doubles, hop_latency: float) -> Doubles:
    """Return the time between updates for many timeouts."""
    return _over(hop_latency + delay.truncated_mean(timeouts), delay.cdf(timeouts))


def _search(delay: Delay, hop_latency: float) -> Doubles:
    """Return timeouts so dense that no timeout between them is much better than the best of them."""
    points = delay.search_points()
    if not points.size:  # every node is ready at once, or never
        points = np.ones(1)
    unlimited = time_between_updates(delay, math.inf, hop_latency)
    best = min(unlimited, float(_pace(delay, points, hop_latency).min()))
    # A tiny hop latency (1e-30) can move the best timeout below the first point. Beyond the last one there is
    # nothing to gain: its chance to be ready is already within 1e-12 of what an endless wait would give.
    if 0.0 < hop_latency < best * delay.cdf(float(points[0])) and points[0] > SMALLEST:
        points = np.append(np.geomspace(SMALLEST, points[0], 1000)[:-1], points)
    while points.size < MOST_POINTS:
        waits = hop_latency + delay.truncated_mean(points)
        best = min(best, float(_over(waits, delay.cdf(points)).min()))
        # Just before a point: an atom there belongs to the point, not to the stretch before it.
        bounds = _over(waits[:-1], delay.cdf(np.nextafter(points[1:], 0.0)))
        promising = (bounds < best * (1.0 - GAIN)) & (points[1:] > points[:-1] * (1.0 + 1e-12))
        if not promising.any():
            break
        middles = np.sqrt(points[:-1][promising]) * np.sqrt(points[1:][promising])
        points = np.unique(np.append(points, middles))
    return points


def _refined(delay: Delay, hop_latency: float, points: Doubles, paces: Doubles) -> tuple[float, float]:
    """Return the best timeout near any of the local minima among the points, and its time between updates."""
    padded = np.concatenate([[math.inf], paces, [math.inf]])
    minima = np.flatnonzero((paces <= padded[:-2]) & (paces <= padded[2:]) & (paces <= paces.min() * (1 + 2 * GAIN)))
    # On a plateau every rounding error is a local minimum: a hundred of them are enough.
    minima = minima[np.argsort(paces[minima], kind="stable")[:100]]
    # Both sides apart: an atom at the point makes the objective jump there.
    before, after = minima[minima > 0], minima[minima < len(points) - 1]
    low = np.concatenate([points[before - 1], points[after]])
    high = np.concatenate([points[before], points[after + 1]])
    golden = (math.sqrt(5.0) - 1.0) / 2.0
    for _ in range(60):
        left, right = high - golden * (high - low), low + golden * (high - low)
        lower = _pace(delay, left, hop_latency) <= _pace(delay, right, hop_latency)
        low, high = np.where(lower, low, left), np.where(lower, right, high)
    middles = 0.5 * (low + high)
    start = int(np.argmin(paces))
    timeout, pace = float(points[start]), float(paces[start])
    if middles.size:
        found = _pace(delay, middles, hop_latency)
        end = int(np.argmin(found))
        nearest = float(points[np.argmin(np.abs(points - middles[end]))])
        # Next to an atom the search ends a hair beside it: the atom is meant.
        if found[end] < pace and abs(nearest - middles[end]) > 1e-9 * nearest:
            timeout, pace = float(middles[end]), float(found[end])
    return timeout, pace


def _pace_towards_zero(delay: Delay, hop_latency: float, points: Doubles, paces: Doubles) -> float:
    """Return the time between updates of ever shorter timeouts."""
    limit = time_between_updates(delay, SMALLEST, hop_latency)
    if hop_latency > 0.0:
        return limit
    # Some laws of scipy are not exact down to the smallest doubles: the searched tail's end counts as well.
    vanishing = (delay.cdf(points) <= 2e-12) | (points <= SMALLEST)
    return min(limit, float(paces[vanishing].min(initial=math.inf)))


def _refuse_vanishing(delay: Delay, hop_latency: float) -> NoReturn:
    """Refuse when every shorter timeout is better: the best one would be 0, and nobody is waited for."""
    if hop_latency == 0.0:
        reason = f"with {delay}, the shorter the timeout the better if a hop takes no time; say what it takes"
        raise InvalidInput.because("hop_latency", hop_latency, reason)
    reason = f"it is 0 with probability {delay.cdf(0.0):.6g}, so that the shorter the timeout the better"
    raise InvalidInput.because("delay", delay, reason)
