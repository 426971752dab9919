"""The law of what the final model alone tells on the two rings, before a run (docs/privacy.md, "The final model only").

An outsider looks once, at the end. The noise of all after an update of the target hides it, and each update may be
charged to any of that noise. The rules below give each update noise of its own, so that the costs just add.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np

from .._arrays import Floats
from .._binomial import binomial_pmf
from ._rings import Floor, contributions, counter_floors, rectangles, update_block
from ._rotation import ClassRange
from ._step_sizes import group_starts, share, share_after
from .leakage import Block, IndependentLeakage, Terms, spread
from .record import PlannedRun


def _count(trials: int, ready: float, most: int = 64) -> tuple[Floats, Floats]:
    """Return values and probabilities of Bin(trials, ready), or of something smaller with fewer values.

    Fewer noises only make a leakage larger, so some numbers next to each other are represented by the first of them.
    """
    first, pmf = binomial_pmf(trials, ready)
    starts = np.unique(np.linspace(0, len(pmf), min(most, len(pmf)), endpoint=False).astype(np.int64))
    return (first + starts).astype(np.float64), np.add.reduceat(pmf, starts)


def ring_final(run: PlannedRun, failure: float, units: ClassRange) -> IndependentLeakage:
    """Return what the final model tells about any node of the fixed ring.

    A contribution is charged to all noise up to the node's next one: that of n - 1 others in each of `every` rounds.
    The last one is charged to what the rest of the run adds. The node is taken to be the last of its round, so in the
    last round that is nothing. And the others' updates of its first round are not counted in its number.
    """

    @cache
    def law(rounds: int) -> tuple[Floats, Floats]:
        noises, probabilities = _count((run.nodes - 1) * rounds, run.others_ready, 512)
        return 1.0 + noises, run.target_ready * probabilities

    blocks = []
    if units.first == 1 and run.rounds > 1:
        blocks.append(update_block(run, 1, *law(units.every if units.times > 1 else units.rest), 1))
    for update, repeats, last in contributions(counter_floors(run, failure, 0), units):
        blocks.append(update_block(run, update, *law(units.rest if last else units.every), repeats))
    return IndependentLeakage(blocks, failure=0.0 if run.others_ready == 1.0 else failure)


class _Sides:
    """How many others take part before and after the target's slot of a round of the randomised ring, in groups.

    P(i before, j after) = g(i + j), g(t) = P(Bin(n-1, q) = t) / (t + 1) = P(Bin(n, q) = t + 1) / (n q).
    """

    def __init__(self, nodes: int, ready: float) -> None:
        first, pmf = binomial_pmf(nodes, ready)
        law = np.zeros(nodes)
        kept = np.arange(len(pmf)) + first - 1
        law[kept[kept >= 0]] = pmf[kept >= 0] / (nodes * ready)
        starts = group_starts(nodes, 32, 1.05)
        ends = np.append(starts[1:], nodes)
        one = np.cumsum(law[::-1])[::-1]  # the law of either side alone
        self.numbers = starts.astype(np.float64)
        self.one = np.add.reduceat(one, starts)
        self.both = rectangles(law, starts, ends)


def random_ring_final(run: PlannedRun, failure: float, units: ClassRange) -> IndependentLeakage:
    """Return what the final model tells about any node of the randomised ring."""
    sides = _Sides(run.nodes, run.others_ready)
    floors = counter_floors(run, failure, 0) if run.rounds > 1 else []
    blocks = (_each_round if units.every == 1 else _some_rounds)(run, units, sides, floors)
    return IndependentLeakage(blocks, failure=0.0 if run.others_ready == 1.0 or run.rounds == 1 else failure)


def _first(run: PlannedRun, sides: _Sides, rounds: int, own: int) -> Block:
    """Return the first round's cost: all noise after it counts, in this round and in `rounds` whole rounds.

    How early the update is, is known from those who came before it. At most `own` updates of the target that do not
    count lie among the noise.
    """
    others, chances = _count((run.nodes - 1) * rounds, run.others_ready)
    update = 1.0 + sides.numbers[:, None, None]
    noises = sides.numbers[:, None] + others
    values = share_after(update, float(own), noises[None, :, :], run.step_size)
    probabilities = run.target_ready * sides.both[:, :, None] * chances
    return Block.single(values.ravel(), probabilities.ravel())


def _some_rounds(run: PlannedRun, units: ClassRange, sides: _Sides, floors: list[Floor]) -> list[Block]:
    """Charge a contribution to the noise after it in its round and in the rounds up to the next contribution.

    The target's own updates in between are noise as well, and are left out; they only make the sum of the noise larger.
    No two contributions share a round, so all is independent.
    """

    @cache
    def law(rounds: int) -> tuple[Floats, Floats]:
        others, chances = _count((run.nodes - 1) * rounds, run.others_ready)
        noises = 1.0 + sides.numbers[:, None] + others
        return noises.ravel(), run.target_ready * (sides.one[:, None] * chances).ravel()

    blocks = []
    if units.first == 1:
        blocks.append(_first(run, sides, units.every - 1 if units.times > 1 else units.rest, 0))
    for update, repeats, last in contributions(floors, units):
        blocks.append(update_block(run, update, *law(units.rest if last else units.every - 1), repeats))
    return blocks


def _each_round(run: PlannedRun, units: ClassRange, sides: _Sides, floors: list[Floor]) -> list[Block]:
    """Charge the update of a round to itself and to the others of the next round, the last one to those after it.

    Between an update and the others of the next round lie fewer than n others and an own update; that one contributes,
    so its noise is left to itself. The first update may be charged to those after it in the first round as well, which
    nobody else uses. The last two updates share some noise: see `_last_two`.
    """
    if run.rounds == 1:
        return [_first(run, sides, 0, 0)]
    blocks = [_first(run, sides, 1, 1)] if run.rounds > 2 else []
    others, chances = _count(run.nodes - 1, run.others_ready, 512)
    for floor in floors:
        if (repeats := min(floor.end, run.rounds - 1) - floor.start) > 0:
            values = share_after(np.array(float(floor.update)), float(run.nodes), others, run.step_size)
            blocks.append(Block.single(values, run.target_ready * chances, repeats))
    earlier = next((floor.update for floor in floors if floor.start <= run.rounds - 1 < floor.end), 1)
    blocks.append(_last_two(run, earlier, floors[-1].update))
    return blocks


def _last_two(run: PlannedRun, earlier: int, latest: int) -> Block:
    """Return the cost of the updates in the last round but one and in the last, together.

    Of N others in the last round, t come after the target (uniform on 0..N). Spread over all N and over those t, the
    two shifts meet in t noises: with costs x and y that adds 2 x t / (1 + t). Or the earlier one is spread over the
    N - t before the target only, and nothing is added. Either may be chosen for each path.
    """
    n, ready = run.nodes, run.target_ready
    pairs = _pairs(*binomial_pmf(n - 1, run.others_ready))

    def before(noises: Floats) -> Floats:
        return share_after(np.array(float(earlier)), float(n), noises, run.step_size)

    x, y = before(pairs.others), share(np.array(float(latest)), 1.0 + pairs.after, run.step_size)
    met = x + y + 2.0 * x * pairs.most_after / (1.0 + pairs.most_after)
    apart = before(np.maximum(pairs.others - pairs.most_after, 0.0)) + y
    values = np.concatenate([np.minimum(met, apart), x, y])
    one = ready * (1.0 - ready) * pairs.chances
    chances = np.concatenate([ready * ready * pairs.chances, one, one])
    # A cost of at most 2 is two equal halves; atoms are split between neighbouring values, which keeps their mean.
    halves = np.concatenate([[0.0], np.geomspace(1e-6, 1.0, 100)])
    mass = spread(0.5 * values, chances, halves)
    mass[0] += max(0.0, 1.0 - float(chances.sum()))
    kept = np.flatnonzero(mass > 0.0).tolist()
    return Block(tuple(Terms(halves[[i]], np.ones(1), 2, mass[[i]]) for i in kept))


@dataclass(frozen=True)
class _Pairs:
    """Groups of (N, t), t uniform on 0..N: the least N, the least and the largest t, and the probability."""

    others: Floats
    after: Floats
    most_after: Floats
    chances: Floats


def _pairs(first: int, pmf: Floats) -> _Pairs:
    starts = np.unique(np.linspace(0, len(pmf), min(128, len(pmf)), endpoint=False).astype(np.int64))
    after = group_starts(first + len(pmf), 32, 1.05).astype(np.float64)
    ends = np.append(after[1:], first + len(pmf))
    chances = []
    for start, end in pairwise([*starts.tolist(), len(pmf)]):
        numbers = first + np.arange(start, end)[:, None] + 1.0
        chances.append(pmf[start:end] @ (np.clip(np.minimum(ends, numbers) - after, 0.0, None) / numbers))
    least, most = first + starts, first + np.append(starts[1:], len(pmf)) - 1
    weights = np.array(chances)
    keep = weights > 0.0
    shape = weights.shape
    return _Pairs(
        others=np.broadcast_to(least[:, None].astype(np.float64), shape)[keep],
        after=np.broadcast_to(after, shape)[keep],
        most_after=np.minimum(np.broadcast_to(ends - 1.0, shape), most[:, None])[keep],
        chances=weights[keep],
    )
