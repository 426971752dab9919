"""The law of the leakage in an order that is known before the run (docs/privacy.md, "Orders by design").

Places are known, and only who takes part is left to chance: hops are independent, and so is what different intervals
between two looks of an observer tell. In an interval the target contributes at most twice. Let q be how likely others
take part, and N1 and N2 how many do between the two contributions and between the second one and the look: binomial.
What the interval tells is the greatest convex minorant, written out for two drifts. A pair's leakage is a sum of such
terms, and its law is kept as that of the other rings. Which pair is the worst one is not known beforehand. A bound that
is quick to compute, F(x) <= C e^(theta x) with the least C, tells for all of them at once which ones may be.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from .._arrays import Floats, Ints
from .._binomial import binomial_floor, binomial_pmf
from ..schedules import KnownOrder
from ._step_sizes import falls, group_starts, late_noise, share, share_after
from .gaussian import ROUNDING, gdp_delta, gdp_epsilon
from .leakage import Block, IndependentLeakage, Leakage
from .record import PlannedRun
from .transcript import Transcript, TranscriptAccountant

#: Exponents of the quick bound are powers of this.
_RATIO = 1.08
_LARGEST_EXPONENT = math.floor(math.log(500.0) / math.log(_RATIO))
_LEAST_EXPONENT = math.ceil(math.log(1e-6) / math.log(_RATIO))
#: How many pairs' laws are computed one by one; the quick bound holds for the others.
_ONE_BY_ONE = 32
#: From this many nodes on, all pairs are gone through on all cores.
_MANY_NODES = 200
#: Points of the lattice for the law of a pair: it is spread over a few releases only.
_LATTICE = 1 << 13


@dataclass(frozen=True)
class FixedLeakage(Leakage):
    """X is known: nothing is left to chance."""

    leakage: float

    @property
    def largest(self) -> float:
        """It has one value."""
        return self.leakage

    def expectation(self, epsilon: float, release: float) -> float:
        """Return F(X)."""
        return gdp_delta(math.sqrt(self.leakage * release), epsilon)

    def rough_epsilon(self, delta: float, release: float) -> float:
        """Return epsilon itself."""
        return gdp_epsilon(math.sqrt(self.leakage * release), delta)

    def log_mgf(self, theta: Floats) -> Floats:
        """Return theta X."""
        return theta * self.leakage

    def blocks(self, factor: float) -> list[Block]:
        """Return whole releases, and what is left of one."""
        whole = math.floor(self.leakage)
        rest = Block.single(np.array([factor * (self.leakage - whole)]), np.ones(1))
        return [Block.single(np.array([factor]), np.ones(1), whole), rest] if whole else [rest]


@dataclass(frozen=True)
class _Doubled(Leakage):
    """X is twice what another law says: terms of up to 2 are kept as halves, which a law of terms up to 1 can hold."""

    half: IndependentLeakage
    failure: float = 0.0

    @property
    def largest(self) -> float:
        """No leakage is larger."""
        return 2.0 * self.half.largest

    def expectation(self, epsilon: float, release: float) -> float:
        """Return E[F(X)]: half the leakage of releases that count double."""
        return self.half.expectation(epsilon, 2.0 * release)

    def log_mgf(self, theta: Floats) -> Floats:
        """Return that of the halves at twice theta."""
        return self.half.log_mgf(2.0 * theta)


@dataclass(frozen=True)
class Chances:
    """Who takes part, and what the number of an update is at least."""

    run: PlannedRun
    order: KnownOrder
    #: Probability of the paths on which a floor does not hold.
    failure: float

    @cached_property
    def floors(self) -> Ints:
        """What the number of a node's update in a round is at least: an array [round, node].

        Counted are the updates before it but for the observer's, who chooses whether to take part, and the target's if
        it is slower than others. Numbers of hops are rounded down to a grid, which lowers floors a little.
        """
        rounds, nodes = self.order.rounds, self.order.nodes
        if not falls(self.run.step_size):
            return np.ones((rounds, nodes), dtype=np.int64)
        left_out = 1 if self.run.target_ready >= self.run.others_ready else 2
        before = np.arange(rounds)[:, None] * (nodes - left_out) + np.maximum(self.order.places - 1, 0)
        if self.run.others_ready == 1.0:
            return before + 1
        starts = group_starts(int(before.max()) + 1, 16, 1.02)
        share_of_failure = self.failure / rounds
        least = np.array([binomial_floor(int(trials), self.run.others_ready, share_of_failure) for trials in starts])
        found: Ints = 1 + np.maximum.accumulate(least)[np.searchsorted(starts, before, side="right") - 1]
        return found

    def taking_part(self, others: int) -> tuple[Floats, Floats]:
        """Return numbers of nodes that take part among others, and their probabilities.

        Some numbers next to each other are represented by the first of them: less noise only adds.
        """
        first, pmf = binomial_pmf(others, self.run.others_ready)
        starts = group_starts(len(pmf), 64, 1.05)
        return (first + starts).astype(np.float64), np.add.reduceat(pmf, starts)

    def alone(self, update: int, others: int, left_out: int) -> tuple[Floats, Floats]:
        """Return values and probabilities of what one contribution tells, given that the target takes part."""
        numbers, probabilities = self.taking_part(others)
        if left_out == 0:
            return share(np.array(float(update)), 1.0 + numbers, self.run.step_size), probabilities
        return share_after(np.array(float(update)), float(left_out), numbers, self.run.step_size), probabilities

    def twice(self, first: int, second: int, between: int, after: int) -> tuple[Floats, Floats]:
        """Return the same for two contributions with update numbers of at least `first` and `second`."""
        n1, p1 = self.taking_part(between)
        n2, p2 = self.taking_part(after)
        a, b = n1[:, None], n2[None, :]
        law = self.run.step_size
        c = np.array(float(first))
        # Each by itself; or both as if the second drift were as large as the first, in the noise from the first one on.
        # Noise is in units of the first update's: c / i for update i. It grows with c, so that a floor may stand for c.
        apart = share(c, 1.0 + a, law) + share(np.maximum(float(second), c + 1.0 + a), 1.0 + b, law)
        noise1, noise = 1.0 / share(c, 1.0 + a, law), 1.0 / share(c, 2.0 + a + b, law)
        rest = np.maximum(noise - noise1, 1e-300) * (1.0 - 1e-10)
        together = np.where(noise1 <= rest, 4.0 / noise, 1.0 / noise1 + 1.0 / rest) * (1.0 + 1e-10)
        return np.minimum(apart, together).ravel(), (p1[:, None] * p2[None, :]).ravel()

    def interval(self, row: tuple[int, int, int, int, int], target: int) -> tuple[Floats, Floats]:
        """Return values and probabilities of what an interval tells (see `_known_kernel.cut`)."""
        k1, k2, first, second, left_out = row
        ready = self.run.target_ready
        floors = self.floors
        if first < 0 or second < 0:
            update = int(floors[max(first, second), target])
            values, probabilities = self.alone(update, k2, left_out)
            return values, ready * probabilities
        c1, c2 = int(floors[first, target]), int(floors[second, target])
        parts = [
            (ready * ready, self.twice(c1, c2, k1, k2)),
            (ready * (1.0 - ready), self.alone(c1, k1 + k2, 0)),  # its second hop is skipped
            (ready * (1.0 - ready), self.alone(c2, k2, 0)),  # its first one is
        ]
        return np.concatenate([v for _, (v, _) in parts]), np.concatenate([w * p for w, (_, p) in parts])


def law_of(chances: Chances, rows: list[tuple[int, int, int, int, int]], target: int) -> Leakage:
    """Return the law of the leakage of one pair, from the intervals of `_known_kernel.cut`."""
    alike: dict[tuple[int, ...], int] = {}
    for row in rows:
        k1, k2, first, second, left_out = row
        key = (k1, k2, first, second, left_out)
        if not falls(chances.run.step_size):  # then the rounds do not matter
            key = (k1, k2, min(first, 0), min(second, 0), 0)
        alike[key] = alike.get(key, 0) + 1
    blocks = []
    for (k1, k2, first, second, left_out), repeats in alike.items():
        values, probabilities = chances.interval((k1, k2, first, second, left_out), target)
        blocks.append(Block.single(0.5 * np.minimum(values, 2.0), probabilities, repeats))
    failure = chances.failure if falls(chances.run.step_size) and chances.run.others_ready < 1.0 else 0.0
    return _Doubled(IndependentLeakage(blocks, lattice=_LATTICE), failure)


class _Tables:
    """What the quick bound looks up: groups of numbers of others, of floors and of what is left out."""

    def __init__(self, chances: Chances, most: int) -> None:
        self.chances, self.most = chances, most
        self.others = group_starts(most + 1, 64, 1.04)
        self.group = np.searchsorted(self.others, np.arange(most + 1), side="right") - 1
        floors = chances.floors
        self.updates = 1 + group_starts(int(floors.max()), 12, 1.15)
        self.floor = np.searchsorted(self.updates, floors, side="right") - 1
        constant = not falls(chances.run.step_size)
        # Rounded up: what is left out makes later noise smaller.
        sizes = [0] if constant else [0, *(2**i for i in range(math.ceil(math.log2(most + 2)) + 1))]
        self.left_out = np.array(sizes, dtype=np.int64)
        self.off = np.zeros(most + 2, dtype=np.int64)
        if not constant:
            self.off = np.searchsorted(self.left_out, np.arange(most + 2), side="left")

    @cached_property
    def _laws(self) -> tuple[Floats, Floats]:
        """Numbers of others that take part, and the probability of each for every group of others."""
        numbers = group_starts(self.most + 1, 48, 1.06)
        law = np.zeros((len(self.others), len(numbers)))
        for place, others in enumerate(self.others.tolist()):
            first, pmf = binomial_pmf(others, self.chances.run.others_ready)
            where = np.searchsorted(numbers, first + np.arange(len(pmf)), side="right") - 1
            law[place] = np.bincount(where, pmf, len(numbers))
        return numbers.astype(np.float64), law

    def at(self, theta: float) -> tuple[Floats, Floats]:
        """Return the log moment generating functions `alone` and `after` of `pair_log_mgfs`."""
        numbers, law = self._laws
        run, ready = self.chances.run, self.chances.run.target_ready
        c = self.updates.astype(np.float64)[:, None]
        shape = (len(self.left_out), len(self.updates), len(self.others))
        alone, after = np.empty(shape), np.empty(shape)
        for place, left_out in enumerate(self.left_out.tolist()):
            between = max(0, left_out - 1)
            one = share_after(c, float(left_out), numbers, run.step_size)
            alone[place] = _log_mean(ready * _less_one(theta * one), law, theta)
            # Two contributions in the noise from the second one on, which is at most `left_out` updates later: its own
            # and that of those after it, in units of the first.
            rest = late_noise(c, float(between), numbers, run.step_size)
            both, either = np.minimum(2.0, 4.0 / rest), np.minimum(1.0, 1.0 / rest)
            grown = ready * ready * _less_one(theta * both) + 2.0 * ready * (1.0 - ready) * _less_one(theta * either)
            after[place] = _log_mean(grown, law, 2.0 * theta)
        return alone * ROUNDING, after * ROUNDING


def _less_one(powers: Floats) -> Floats:
    """Return e^x - 1; infinity where that is too large for a number."""
    with np.errstate(over="ignore"):
        return np.expm1(powers)


def _log_mean(grown: Floats, law: Floats, most: float) -> Floats:
    """Return ln(1 + the mean of `grown`), which is at most `most`; just that wherever powers have overflowed.

    There the mean is infinite, or no number at all: infinity times a probability of 0.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.log1p(grown @ law.T)
    return np.where(np.isfinite(found), np.minimum(found, most), most)


class OrderLeakage(Leakage, ABC):
    """The largest over all pairs of a known order, or over all targets, of what may be told.

    The quick bound is computed for all of them. The laws of those for which it is largest are computed one by one,
    until none is left for which it says more than what was found, or enough are.
    """

    def __init__(self, chances: Chances, every: int, unit: int) -> None:
        self.chances, self.every, self.unit = chances, every, unit
        with_floors = falls(chances.run.step_size) and chances.run.others_ready < 1.0
        self.failure = chances.failure if with_floors else 0.0
        self._laws: dict[int, Leakage] = {}
        self._quick: dict[int, Floats] = {}  # for some exponents the bound of each pair
        self._largest: dict[int, float] = {}  # and for all that were asked for, the largest
        self._start: int | None = None

    @property
    def largest(self) -> float:
        """The target contributes no more often."""
        return float(1 + (self.chances.order.rounds - 1 - self.unit) // self.every)

    @abstractmethod
    def _log_mgfs(self, theta: float) -> Floats:
        """Return a bound of ln E[exp(theta X)] for each pair, or for each target."""

    @abstractmethod
    def _law(self, which: int) -> Leakage:
        """Return the law of one of them."""

    def _at(self, exponent: int) -> Floats:
        if exponent not in self._quick:
            if len(self._quick) * self.chances.order.nodes**2 > 1 << 24:
                self._quick.clear()
            self._quick[exponent] = self._log_mgfs(_RATIO**exponent)
            self._largest[exponent] = float(self._quick[exponent].max())
        return self._quick[exponent]

    def _top(self, exponent: int) -> float:
        """Return the largest bound over all pairs."""
        if exponent not in self._largest:
            self._at(exponent)
        return self._largest[exponent]

    def log_mgf(self, theta: Floats) -> Floats:
        """Return the largest over all pairs."""
        theta = np.atleast_1d(np.asarray(theta, dtype=np.float64))
        return np.array(
            [min(float(self._log_mgfs(t).max()) if t < 700.0 else math.inf, t * self.largest) for t in theta]
        )

    def rough_epsilon(self, delta: float, release: float) -> float:
        """Return the epsilon of the mean leakage of the worst pair, and some more."""
        mean = self._top(_LEAST_EXPONENT) / _RATIO**_LEAST_EXPONENT
        return 1.1 * gdp_epsilon(math.sqrt(mean * release), delta)

    def _best_exponent(self, epsilon: float, release: float) -> int:
        """Return the exponent that is best for the worst pair: downhill in strides, from where it was the last time."""
        values: dict[int, float] = {}

        def height(exponent: int) -> float:
            if exponent not in values:
                constant = log_constant(_RATIO**exponent, epsilon, release, self.largest)
                values[exponent] = constant + self._top(exponent)
            return values[exponent]

        here, stride = (0, 16) if self._start is None else (self._start, 4)
        while stride:
            low, high = max(_LEAST_EXPONENT, here - stride), min(_LARGEST_EXPONENT, here + stride)
            best = min((here, low, high), key=height)
            here, stride = (best, stride) if best != here else (here, stride // 2)
        self._start = here
        return here

    def _quick_bounds(self, epsilon: float, release: float) -> Floats:
        """Return ln of a bound of delta for each pair."""
        best = self._best_exponent(epsilon, release)
        return log_constant(_RATIO**best, epsilon, release, self.largest) + self._at(best)

    def expectation(self, epsilon: float, release: float) -> float:
        """Return an upper bound of E[F(X)] for every pair."""
        bounds = self._quick_bounds(epsilon, release)
        first = max(0, len(bounds) - _ONE_BY_ONE - 1)
        some = np.argpartition(bounds, first)[first:]
        some = some[np.argsort(bounds[some])[::-1]]
        worst = 0.0
        for place, which in enumerate(some.tolist()):
            quick = math.exp(min(0.0, float(bounds[which])))
            if quick <= worst:
                break
            if place == _ONE_BY_ONE:
                return quick
            if which not in self._laws:
                self._laws[which] = self._law(which)
            worst = max(worst, min(quick, self._laws[which].expectation(epsilon, release)))
        return min(1.0, worst)


class PairLeakage(OrderLeakage):
    """The largest over all pairs of a target and an observer that is always ready."""

    def __init__(self, chances: Chances, every: int, unit: int) -> None:
        super().__init__(chances, every, unit)
        order = chances.order
        self._places, self._looks = order.places, order.last_looks
        self._closing = np.array(order.closing, dtype=np.int64)
        self._tables = _Tables(chances, 2 * order.nodes + len(order.closing))

    def _log_mgfs(self, theta: float) -> Floats:
        from ._known_kernel import pair_log_mgfs  # numba is loaded only where it is needed

        tables, nodes = self._tables, self.chances.order.nodes
        out = np.empty((nodes, nodes))
        alone, after = tables.at(theta)
        given = (
            *(self._places, self._looks, self._closing, self.every, self.unit),
            *(tables.group, tables.floor, tables.off, alone, after, out),
        )
        if nodes < _MANY_NODES:
            pair_log_mgfs(0, nodes, *given)
            return out.ravel()
        workers = os.cpu_count() or 1
        edges = np.linspace(0, nodes, 4 * workers + 1).astype(int).tolist()
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(lambda pair: pair_log_mgfs(pair[0], pair[1], *given), pairwise(edges)))
        return out.ravel()

    def _law(self, which: int) -> Leakage:
        from ._known_kernel import cut

        target, observer = divmod(which, self.chances.order.nodes)
        rows = np.empty((self.chances.order.rounds + 1, 5), dtype=np.int64)
        found = cut(self._places, self._looks, self._closing, target, observer, self.every, self.unit, rows)
        return law_of(self.chances, [tuple(row) for row in rows[:found].tolist()], target)


class OutsiderLeakage(OrderLeakage):
    """The largest over all targets of what the final model alone tells.

    A contribution is charged to itself and to the others up to the target's next contribution, or to the end: different
    contributions use different noise. The target's hops in between are left out.
    """

    def __init__(self, chances: Chances, every: int, unit: int) -> None:
        super().__init__(chances, every, unit)
        order = chances.order
        rounds = np.arange(unit, order.rounds, every)
        hops = rounds[:, None] * order.nodes + order.places[rounds]
        whole = len(order.hops) + len(order.closing)
        closes = np.bincount(np.array(order.closing, dtype=np.int64), minlength=order.nodes)
        after = np.vstack([hops[1:], np.full((1, order.nodes), whole)]) - hops - 1
        own = np.vstack([np.full((len(rounds) - 1, order.nodes), every - 1), [order.rounds - 1 - rounds[-1] + closes]])
        self._rounds, self._others, self._own = rounds, after - own, own
        self._tables = _Tables(chances, max(int(self._others.max()), int(own.max())) + 1)

    def _log_mgfs(self, theta: float) -> Floats:
        tables = self._tables
        alone, _ = tables.at(theta)
        found = alone[tables.off[self._own], tables.floor[self._rounds], tables.group[self._others]]
        return np.asarray(found.sum(axis=0))

    def _law(self, which: int) -> Leakage:
        rows = [
            (0, int(self._others[i, which]), int(round_), -1, int(self._own[i, which]))
            for i, round_ in enumerate(self._rounds)
        ]
        return law_of(self.chances, rows, which)


def log_constant(theta: float, epsilon: float, release: float, largest: float) -> float:
    """Return ln of the least C with F(x) <= C e^(theta x) for all x from 0 to `largest`, rounded up.

    F grows, so in a cell from a to b it is at most F(b) e^(-theta a). Cells in which the maximum may lie are looked at
    more closely.
    """
    edges = np.concatenate([[0.0], np.geomspace(1e-4 * largest, largest, 500)])
    for _ in range(3):
        heights = gdp_delta(np.sqrt(edges * release), epsilon)
        with np.errstate(divide="ignore"):
            logs = np.log(heights)
        upper, lower = logs[1:] - theta * edges[:-1], logs[1:] - theta * edges[1:]
        best = float(upper.max())
        if best == -math.inf:  # below 1e-300 everywhere
            return -690.0
        may = np.flatnonzero(upper >= lower.max())
        if best - float(lower.max()) < 1e-4:
            break
        # All other cells are below a value that is attained in these.
        edges = np.linspace(edges[may[0]], edges[may[-1] + 1], 500)
    return best + 1e-9


class _PassedOn(TranscriptAccountant):
    """Nobody is skipped, but each observer looks at its turns and passes the token on unchanged.

    Updates are numbered without the observer's, so later step sizes are larger. What it learns falls with each update
    that it makes (docs/privacy.md, "Orders by design"), so no other behaviour tells it more. Its own updates stay in
    the chain, alone between two looks of its own, where they tell nothing about others.
    """

    def _rows(self, first: int, last: int) -> Floats:
        """Return mu^2 for observers first..last-1 (rows) and all targets."""
        looks, start = self.transcript.looks()
        out = np.empty((last - first, self.transcript.nodes))
        for place, observer in enumerate(range(first, last)):
            counted = self._updaters != observer
            steps = 1.0 / np.sqrt(1.0 + np.cumsum(counted) - counted)
            out[place] = self._of_nodes(self._looked(looks, start, observer, observer + 1, steps))[0]
            out[place, observer] = 0.0
        return out


def exact_account(run: PlannedRun, order: KnownOrder, parts: int) -> TranscriptAccountant:
    """Return the account of a run in which nobody is skipped; one release has mu = 1, so that mu^2 is the leakage."""
    path = order.whole_path
    numbers = np.arange(1.0, len(path) + 1.0)
    account = TranscriptAccountant if run.outside or not falls(run.step_size) else _PassedOn
    return account(
        Transcript(
            nodes=run.nodes,
            offered=path,
            updated=np.ones(len(path), dtype=np.bool_),
            step_sizes=1.0 / np.sqrt(numbers) if falls(run.step_size) else 1.0,
            noise_multiplier=2.0,
            against="outsider" if run.outside else "node",
            parts=parts,
            protects=run.protects,
            closing=len(order.closing),
        )
    )
