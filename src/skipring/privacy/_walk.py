"""The law of the leakage on the uniform random walk, before a run (docs/privacy.md, "Random walk").

A step is one hop: a node is drawn uniformly (the present holder may be drawn again), and it takes part or is skipped.
For one pair the hops are independent, each of one of four kinds. They are U, the target takes part (probability a); V,
the observer is sent the token (b); N, another node takes part (g); or nothing that matters.

The hops are cut into segments. An update of the target is charged to the noise up to the next event (U or V) or to the
end of its segment, whichever comes first. Given the number m of events in a segment, the numbers of hops in the m + 1
gaps are uniform over the compositions of hops - m. They are geometric variables conditioned on their sum, hence
negatively associated. So are the numbers of N's, a thinning of each gap by itself, and the charges, which decrease in
them. A sum of negatively associated terms is at most, in the convex order, the sum of independent terms with the same
marginal laws. Segments are independent of each other. An outsider, who sees the final model only, is the case b = 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from .._arrays import Floats
from .._binomial import binomial_floor, binomial_floors, binomial_pmf
from ._step_sizes import falls, group_starts, share
from .leakage import Block, IndependentLeakage, Terms
from .record import PlannedRun

#: Events per long segment. The end of a segment closes a gap like an event does, so more are better; the work grows.
_EVENTS = 40
#: At most this many floors of the update number are used.
_MOST_FLOORS = 200
#: Where the law of the number of N's in a segment is cut: a stochastically smaller law with few values.
_QUANTILES = np.array(
    [1e-14, 1e-10, 1e-7, 1e-5, 1e-3, 0.01, 0.03, 0.07, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.93]
)


@dataclass(frozen=True)
class _HopKinds:
    target: float  # a
    observer: float  # b
    other: float  # g

    @property
    def event(self) -> float:
        return self.target + self.observer


@dataclass(frozen=True)
class _Segments:
    """Some segments of the same length, and a floor of the number of an update in them."""

    hops: int
    update: int
    repeats: int


def random_walk_leakage(run: PlannedRun, failure: float, *, floors: bool = True) -> IndependentLeakage:
    """Return the leakage of any pair on the random walk, for all views.

    Without `floors`, each update of the target is charged as if it were the first of the run. Then the hops need not be
    cut where the floor rises, which is better for short walks.
    """
    n = run.nodes
    if run.outside:  # nobody looks on the way, and the noise of all counts
        kinds = _HopKinds(run.target_ready / n, 0.0, (n - 1) * run.others_ready / n)
    else:
        kinds = _HopKinds(run.target_ready / n, run.observer.sees / n, (n - 2) * run.others_ready / n)
    segments = list(_segments(run, kinds, 0.5 * failure / _MOST_FLOORS if floors else 0.0))
    assert len(segments) <= _MOST_FLOORS
    cut = 0.5 * failure / sum(segment.repeats for segment in segments)
    gaps: dict[int, list[_Gaps]] = {}
    blocks = []
    for segment in segments:
        if segment.hops not in gaps:
            gaps[segment.hops] = list(_gap_laws(segment.hops, kinds, cut))
        mixture = tuple(
            Terms(
                share(np.array(float(segment.update)), 1.0 + law.others, run.step_size),
                law.probabilities * (kinds.target / kinds.event),
                law.fewest,
                law.counts,
            )
            for law in gaps[segment.hops]
        )
        blocks.append(Block(mixture, segment.repeats))
    return IndependentLeakage(blocks, failure=failure)


def _segments(run: PlannedRun, kinds: _HopKinds, failure: float) -> Iterator[_Segments]:
    """Cut the hops: short segments while the update number is small and grows fast, then long ones of equal length.

    The update number has floors that fail with probability `failure` each; if that is 0 there are none.
    Updates of target and others are counted, the observer's are not: whether it takes part is its own choice.
    """
    ready = kinds.target + kinds.other
    long = math.ceil(_EVENTS / kinds.event)
    hop, update = 1, 1  # the first hop of the segment, and the floor that is in force from there
    if falls(run.step_size) and failure > 0.0:
        while True:
            following = update * (2 if update < 16 else 4)
            end = _first_hop(following - 1, ready, failure, hop, run.steps)
            if end is None or end - hop >= long:
                break
            if end > hop:
                yield _Segments(end - hop, update, 1)
            hop, update = end, following

    def floor_at(start: int) -> int:
        return max(update, 1 + binomial_floor(start - 1, ready, failure)) if failure > 0.0 else 1

    rest = run.steps + 1 - hop
    number = max(1, round(rest / long))
    length = rest // number
    index = 0
    while index < number - 1:
        # Once c is a thousand times a gap, the step sizes within a gap are equal, and a coarse floor costs nothing.
        growth = 1.25 if index < 16 else 2.0
        following = min(number - 1, max(index + 1, math.floor(growth * index)))
        yield _Segments(length, floor_at(hop + index * length), following - index)
        index = following
    yield _Segments(rest - index * length, floor_at(hop + index * length), 1)


def _first_hop(updates: int, ready: float, failure: float, low: int, steps: int) -> int | None:
    """Return the first hop before which there were `updates` updates but for `failure`; None if not within `steps`."""

    def reached(hop: int) -> bool:
        return binomial_floor(hop - 1, ready, failure) >= updates

    high = low
    while not reached(high):
        if high == steps:
            return None
        low, high = high, min(steps, 2 * high + 8)
    while low < high:
        middle = (low + high) // 2
        if reached(middle):
            high = middle
        else:
            low = middle + 1
    return low


@dataclass(frozen=True)
class _Gaps:
    """How many N's follow an event, in segments with `fewest`, `fewest` + 1, ... events (probabilities: `counts`)."""

    others: Floats
    probabilities: Floats
    fewest: int
    counts: Floats


def _gap_laws(hops: int, kinds: _HopKinds, cut: float) -> Iterator[_Gaps]:
    """Return the laws of a gap by the number of events; numbers that only `cut` of all segments exceed are left out."""
    most = hops - binomial_floor(hops, 1.0 - kinds.event, cut)
    first, pmf = binomial_pmf(hops, kinds.event)
    counts = np.zeros(hops + 1)
    counts[first : first + len(pmf)] = pmf
    mean, deviation = hops * kinds.event, math.sqrt(hops * kinds.event)
    low, high = max(1, math.floor(mean - 3.5 * deviation)), math.ceil(mean + 4.5 * deviation)
    ends, step = [0], 1
    while ends[-1] < most:
        following = ends[-1] + 1
        if following < low:
            following = low
        elif following > high:
            step += 1
            following = ends[-1] + step
        ends.append(min(following, most))
    start = 0
    for end in ends:
        # More events mean shorter gaps: the law of the largest number serves the group.
        others, probabilities = _gap_law(hops, end, kinds) if end else (np.zeros(1), np.zeros(1))
        # np.log is taken of the counts; what underflows is far below everything else.
        yield _Gaps(others, probabilities, start, np.maximum(counts[start : end + 1], 1e-300))
        start = end + 1


def _gap_law(hops: int, events: int, kinds: _HopKinds) -> tuple[Floats, Floats]:
    """Return values and probabilities of the number of N's in a gap, in a segment with `events`.

    With T N's in all, spread over events + 1 gaps, P(gap >= k) = C(T - k + m, m) / C(T + m, m), and
    P(gap = k) = P(gap = k - 1) (T - k + 1) / (T - k + m) from P(gap = 0) = m / (T + m). T ~ Bin(hops - m, .).
    """
    m = float(events)
    # Rounded down, but for a chance of exactly 1: everyone is always ready.
    chance = min(1.0, kinds.other / (1.0 - kinds.event) * (1.0 - 1e-15)) if kinds.event < 1.0 else 0.0
    totals = np.concatenate([[0], binomial_floors(hops - events, chance, _QUANTILES)]).astype(np.float64)
    weights = np.diff(np.concatenate([[0.0], _QUANTILES, [1.0]]))
    exact = 64
    starts = group_starts(int(totals[-1]) + 1, exact, 1.02).astype(np.float64)
    k, total = starts[1:exact], totals[:, None]
    ratios = np.maximum(total - k + 1.0, 0.0) / np.maximum(total - k + m, 1.0)
    singles = np.cumprod(np.concatenate([m / (total + m), ratios], axis=1), axis=1)
    probabilities = np.zeros(len(starts))
    probabilities[:exact] = weights @ singles
    if len(starts) > exact:
        left = total - np.append(starts[exact:], totals[-1] + 1.0)  # what remains of T beyond the start of a group
        logs = _log_rising(np.maximum(left, 0.0) + 1.0, m) - _log_rising(total + 1.0, m)
        tails = weights @ np.where(left >= 0.0, np.exp(logs), 0.0)
        # Rounding is some 1e-16 times m ln T.
        probabilities[exact:] = np.maximum(-np.diff(tails), 0.0) + 1e-11
    return starts, probabilities


def _log_rising(x: Floats, m: float) -> Floats:
    """Return ln Gamma(x + m) - ln Gamma(x), to 1e-16 times its size also where both are huge (Stirling's series)."""
    y = x + m

    def correction(z: Floats) -> Floats:
        return (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - 1.0 / (1680.0 * z * z)) / (z * z)) / (z * z)) / z

    series = (x - 0.5) * np.log1p(m / x) + m * np.log(y) - m + correction(y) - correction(x)
    return np.where(x > 20.0, series, gammaln(y) - gammaln(x))
