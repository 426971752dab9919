"""The law of the leakage on the two rings, before a run (docs/privacy.md, "Rings")."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .._arrays import Floats
from .._binomial import binomial_floor, binomial_pmf
from ._rotation import ClassRange
from ._step_sizes import group_starts, share
from .leakage import Block, IndependentLeakage
from .orders import FixedRing
from .record import PlannedRun, SureOthers


@dataclass(frozen=True)
class Floor:
    """What the number of an update of the target is at least, in rounds start..end-1."""

    start: int
    end: int
    update: int


def counter_floors(run: PlannedRun, failure: float, head_start: int) -> list[Floor]:
    """Return floors of the update number for rounds 2 to the last but one, and for the last.

    The number of an update of the target in round r is at least 1 + the updates of earlier rounds. The observer's own
    are not counted: whether it takes part is its own choice. All floors together fail with probability `failure`.
    `head_start` counts the nodes that come before the target in every round. A floor never falls from one round to a
    later one.
    """
    counted = run.nodes - (1 if run.target_ready >= run.others_ready else 2)
    if isinstance(run.taking_part, SureOthers):
        counted = run.taking_part.others  # nothing is known of how often the target takes part
    starts, r = [], 2
    while r < run.rounds:
        starts.append(r)
        r = max(r + 1, math.floor(1.12 * r))
    bounds = [*starts, run.rounds, run.rounds + 1]
    share_of_failure = failure / max(1, len(bounds) - 1)
    floors: list[Floor] = []
    least = 0
    for start, end in pairwise(bounds):
        trials = counted * (start - 1) + head_start
        least = max(
            least, trials if run.others_ready == 1.0 else binomial_floor(trials, run.others_ready, share_of_failure)
        )
        floors.append(Floor(start, end, 1 + least))
    return floors


def contributions(floors: list[Floor], units: ClassRange) -> Iterator[tuple[int, int, bool]]:
    """Yield (floor of the update number, number of rounds, whether it is the last one) for rounds with a floor."""
    for floor in floors:
        if repeats := units.contributions(floor.start, floor.end):
            yield floor.update, repeats, False
        if floor.start <= units.last_round < floor.end:
            yield floor.update, 1, True


def update_block(run: PlannedRun, update: int, noises: Floats, probabilities: Floats, repeats: int) -> Block:
    """Return rounds in which an update of at least this number is charged to a random number of noises."""
    return Block.single(share(np.array(float(update)), noises, run.step_size), probabilities, repeats)


def ring_leakage(run: PlannedRun, failure: float, units: ClassRange) -> IndependentLeakage:
    """Return the leakage of a pair at a distance of at least 2 on the fixed ring.

    One update of the target per round at most; the noise of those who take part between target and observer covers it.
    Without a position, the worst is taken twice over: the target is last (the final model shows its last update bare)
    and nobody precedes it in the round. Rounds are independent, so of some units those that count are just left.
    """
    ring = run.order
    assert isinstance(ring, FixedRing)
    assert ring.distance is not None
    q = run.others_ready
    wraps = ring.position is None or ring.position + ring.distance > run.nodes
    head_start = 0 if ring.position is None else ring.position - 1 - int(wraps)

    def block(update: int, between: int, repeats: int) -> Block:
        first, pmf = binomial_pmf(between, q)
        return update_block(run, update, 1.0 + first + np.arange(len(pmf)), run.target_ready * pmf, repeats)

    after_target = 0 if ring.position is None else run.nodes - ring.position
    between = ring.distance - 1
    blocks = []
    if units.first == 1 and run.rounds > 1:
        start = head_start if run.others_ready == 1.0 else 0
        blocks.append(block(1 + start, between, 1))
    for update, repeats, last in contributions(counter_floors(run, failure, head_start), units):
        bare = last and units.rest == 0 and wraps
        blocks.append(block(update, after_target if bare else between, repeats))
    return IndependentLeakage(blocks, failure=0.0 if run.others_ready == 1.0 else failure)


class _Groups:
    """How many of the other nodes take part before, between and after the slots of target and observer in a round.

    The three numbers are uniform over the compositions of their sum T ~ Bin(n-2, q). Their laws follow from
    g(t) = P(T = t) / C(t+2, 2) = 2 P(Bin(n,q) = t+2) / (n (n-1) q^2), the probability of one composition of t.
    """

    def __init__(self, nodes: int, ready: float) -> None:
        first, pmf = binomial_pmf(nodes, ready)
        composition = np.zeros(nodes - 1)  # g(0), ..., g(n-2)
        kept = np.arange(len(pmf)) + first - 2
        inside = kept >= 0
        composition[kept[inside]] = pmf[inside] * 2.0 / (nodes * (nodes - 1.0) * ready * ready)
        self.composition = composition
        #: f(t) = sum_{s >= t} g(s): P(one group is i, another is j) = f(i + j).
        self.two = _tail_sums(composition)
        #: w(k) = sum_{j >= k} f(j): the law of one group.
        self.one = _tail_sums(self.two)
        #: w2(j) = (j + 1) f(j): the law of the sum of two groups of one round.
        self.sum_of_two = (1.0 + np.arange(nodes - 1)) * self.two


def _tail_sums(terms: Floats) -> Floats:
    return np.cumsum(terms[::-1])[::-1]


def _convolve(a: Floats, b: Floats) -> Floats:
    if min(len(a), len(b)) <= 512:
        return np.convolve(a, b)
    size = 1 << (len(a) + len(b) - 2).bit_length()
    product = np.fft.irfft(np.fft.rfft(a, size) * np.fft.rfft(b, size), size)[: len(a) + len(b) - 1]
    return np.maximum(product, 0.0)


def random_ring_leakage(run: PlannedRun, failure: float, units: ClassRange) -> IndependentLeakage:
    """Return the leakage of any pair on the randomised ring, for both views.

    In a round the target comes before the observer ("uv") or after it ("vu"), with probability 1/2 each. Each update of
    the target is charged to the noise up to the next event among its own next slot and the observer's next look. If the
    observer does not look in this round, that is not before the first of the two slots of the next round. Those numbers
    are negatively dependent across rounds, so independent copies are larger in the convex order.

    Units that contribute in every second round or less have nothing to hide in the next round. The target's slot there
    is no event, and the noise counts up to the observer's slot. Each round is used once, so all is independent.
    """
    sees = run.observer.sees
    groups = _Groups(run.nodes, run.others_ready)
    w, w2 = groups.one, groups.sum_of_two
    half = 0.5 * run.target_ready
    onwards = w if units.every == 1 else 0.5 * (w + w2)  # those of the next round before what ends the window

    seen = half * sees * w
    unseen, after = half * (1.0 - sees) * w2, half * w
    last_law = _padded_sum(seen, unseen, after)
    inner_law = _padded_sum(seen, _convolve(unseen, onwards) if sees < 1.0 else unseen, _convolve(after, onwards))

    def compressed(law: Floats) -> tuple[Floats, Floats]:
        # Fewer noises only make the leakage larger, so a group may be represented by its first member.
        starts = group_starts(len(law), 8192, 1.0004)
        return 1.0 + starts, np.add.reduceat(law, starts)

    inner, ending = compressed(inner_law), compressed(last_law)
    blocks = [_first_round(run, groups, onwards)] if units.first == 1 else []
    if run.rounds > 1:
        for update, repeats, last in contributions(counter_floors(run, failure, 0), units):
            noises, probabilities = ending if last and units.rest == 0 else inner
            blocks.append(update_block(run, update, noises, probabilities, repeats))
    return IndependentLeakage(blocks, failure=0.0 if run.others_ready == 1.0 or run.rounds == 1 else failure)


def _padded_sum(*laws: Floats) -> Floats:
    total = np.zeros(max(map(len, laws)))
    for law in laws:
        total[: len(law)] += law
    return total


def _first_round(run: PlannedRun, groups: _Groups, onwards: Floats) -> Block:
    """Return the first round's leakage from the joint law of the update number and the noises after it.

    Early updates have large step sizes, and little noise of others can follow them; but how early an update is, is
    known here. Both numbers are grouped; a group is represented by its first member, which only adds.
    """
    starts = group_starts(run.nodes - 1, 24, 1.1)
    ends = np.append(starts[1:], run.nodes - 1)
    later = np.add.reduceat(onwards, starts)  # those of the second round before what ends the window
    sees, half = run.observer.sees, 0.5 * run.target_ready
    # (probability, joint law of (number before the update, number after it in the round), seen within the round)
    cases = [
        (half * sees, rectangles(groups.two, starts, ends), True),  # uv: before u, between
        (
            half * (1.0 - sees),
            _weighted_after(groups.composition, starts, ends),
            False,
        ),  # uv, unseen: + after v
        (half, _weighted_after(groups.composition, starts, ends).T, False),  # vu: before and between, after u
    ]
    values: list[Floats] = []
    probabilities: list[Floats] = []
    for weight, joint, closed in cases:
        if weight == 0.0:
            continue
        updates = 1.0 + starts[:, None]
        if closed or run.rounds == 1:
            values.append(share(updates, 1.0 + starts[None, :], run.step_size).ravel())
            probabilities.append(weight * joint.ravel())
        else:
            noises = 1.0 + starts[None, :, None] + starts[None, None, :]
            values.append(share(updates[:, :, None], noises, run.step_size).ravel())
            probabilities.append(weight * (joint[:, :, None] * later).ravel())
    return Block.single(np.concatenate(values), np.concatenate(probabilities))


def _guard(size: int) -> float:
    """Return more than rounding can take from a rectangle: its corners are sums of sums of `size` terms, at most 1."""
    return 2e-16 * (8.0 + math.sqrt(size))


def rectangles(law: Floats, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Floats:
    """Return the sums of law(i + j) over all rectangles of groups."""
    # sum_{i >= a, j >= b} law(i + j) depends on a + b only.
    size = len(law)
    corner = np.zeros(2 * size + 2)
    corner[:size] = _tail_sums(_tail_sums(law))
    s, e = starts, ends
    sums = corner[s[:, None] + s] - corner[s[:, None] + e] - corner[e[:, None] + s] + corner[e[:, None] + e]
    exact = np.zeros(2 * size + 2)
    exact[:size] = law
    single = (e - s == 1)[:, None] & (e - s == 1)
    return np.where(single, exact[s[:, None] + s], np.maximum(sums, 0.0) + _guard(size))


def _weighted_after(law: Floats, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Floats:
    """Return the sums of (j + 1) law(i + j) over all rectangles of groups: i one group of nodes, j two together."""
    # For single i's and j's this is exact; (j + 1) law(i + j) summed over j >= b is
    # sum_{j >= b} law(i + j) (j - b + 1) + b sum_{j >= b} law(i + j), so again functions of a + b and b only.
    size = len(law)
    once, twice, thrice = (np.zeros(2 * size + 2) for _ in range(3))
    once[:size] = _tail_sums(law)
    twice[:size] = _tail_sums(once[:size])
    thrice[:size] = _tail_sums(twice[:size])

    def corner(a: NDArray[np.int64], b: NDArray[np.int64]) -> Floats:
        total = a[:, None] + b
        return thrice[total] + b * twice[total]

    s, e = starts, ends
    sums = corner(s, s) - corner(s, e) - corner(e, s) + corner(e, e)
    exact = np.zeros(2 * size + 2)
    exact[:size] = law
    single = (e - s == 1)[:, None] & (e - s == 1)
    return np.where(single, (s + 1.0) * exact[s[:, None] + s], np.maximum(sums, 0.0) + _guard(size))
