"""Tight privacy of a run before it happens: what any observer will learn about any target."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import combinations_with_replacement, product

from .._numbers import ordinal
from ..errors import LEAST_DELTA, InvalidInput, require_delta, require_non_negative
from ..schedules import KnownOrder
from ._final import random_ring_final, ring_final
from ._known import Chances, FixedLeakage, OutsiderLeakage, PairLeakage, exact_account
from ._rings import random_ring_leakage, ring_leakage
from ._rotation import ClassRange, class_ranges, parts_that_count
from ._step_sizes import falls
from ._walk import random_walk_leakage
from .accountant import ALL_OTHERS, ALONE, AMPLIFIED, ANOTHER_NODE, IN_FULL, OUTSIDER, SHOWN, Guarantee, coalition
from .gaussian import narrow
from .leakage import BinomialLeakage, Block, IndependentLeakage, Leakage
from .orders import AgreedOrder, DesignedOrder, DrawnRing, DrawnWalk, FixedRing
from .record import IndependentSkips, Members, Outsider, PlannedRun, Protected, SureOthers

#: How many ways to be of some class in each of several runs are looked at, at most.
_MOST_COMBINATIONS = 300


class PrivacyCurve(ABC):
    """What an observer may learn about a target, as (epsilon, delta) for any of the two. All numbers are bounds."""

    #: mu^2 of one release that is charged in full.
    release: float

    @abstractmethod
    def guarantee(self, delta: float, epsilon: float | None = None) -> Guarantee:
        """Return the epsilon at a delta (or one that is known to be kept) with all that it cannot be read without."""

    @abstractmethod
    def classes(self, failure: float) -> list[list[Leakage]]:
        """Return for each class of units the laws of its leakage, leaving out paths of at most this probability.

        Each law of a class is a bound by itself, so the smallest holds. But a unit may be of any class, so the largest
        over the classes is what is promised. How many classes there are does not depend on `failure`.
        """

    def keeps(self, epsilon: float, delta: float) -> bool:
        """Say whether a budget is kept; it is exactly if `epsilon(delta)` is within it."""
        require_non_negative("epsilon", epsilon)
        require_delta(delta)
        epsilon, delta = float(epsilon), float(delta)
        return all(self._kept(laws, epsilon, delta) for laws in self.classes(1e-3 * delta))

    def _kept(self, laws: list[Leakage], epsilon: float, delta: float) -> bool:
        # The last law is mostly the best.
        return any(law.delta(epsilon, self.release) <= delta for law in reversed(laws))

    def delta(self, epsilon: float) -> float:
        """Return the delta that goes with an epsilon; never less than `LEAST_DELTA`, which no noise supports."""
        require_non_negative("epsilon", epsilon)
        epsilon = float(epsilon)
        return max(self._class_delta(which, epsilon) for which in range(len(self.classes(1e-12))))

    def _class_delta(self, which: int, epsilon: float) -> float:
        # A thousandth of delta may be spent on unlikely paths; how much that is, is found by trying.
        best, failure = 1.0, 1e-12
        for _ in range(6):
            laws = self.classes(failure)[which]
            values = [(law.expectation(epsilon, self.release), law.failure) for law in laws]
            best = min(best, *(value + lost for value, lost in values))
            core = max(1e-300, min(value for value, _ in values))
            if _decade(1e-3 * core) == _decade(failure):
                break
            failure = 1e-3 * core
        return max(best, LEAST_DELTA)

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon that goes with a delta (rounded up)."""
        require_delta(delta)
        delta = float(delta)
        worst = -1.0
        for every in self.classes(1e-3 * delta):
            laws = [law for law in every if law.failure < delta]  # one that fails more often says nothing
            if worst < 0.0 or not self._kept(laws, worst, delta):
                worst = max(worst, min(_solve(law, delta, self.release) for law in laws))
        return worst

    def kinds(self, delta: float) -> int:
        """Return how many classes of units there are."""
        return len(self.classes(1e-3 * delta))

    def excess(self, epsilon: float, delta: float, kind: int = 0) -> float:
        """Return the logarithm of how many times larger than its budget the delta of a class of units is."""
        laws = self.classes(1e-3 * delta)[kind]
        needed = min(law.delta(epsilon, self.release) for law in laws)  # the best of the bounds of a class
        return math.log(max(needed, 1e-320)) - math.log(delta)


class Forecast(PrivacyCurve):
    """What any observer will learn about any target in a run that has not happened yet.

    It is the smaller of the amplified bound, where the run allows one, and of the assumption-free bound that charges
    each update of the target in full. Where units take turns, it is the largest of that over all classes of units, and
    over all numbers of parts that nodes have.
    """

    def __init__(self, run: PlannedRun) -> None:
        self.run = run
        self.method = "tight"
        self.release = run.release
        self._classes: dict[int, list[list[Leakage]]] = {}

    def guarantee(self, delta: float, epsilon: float | None = None) -> Guarantee:
        """Return the epsilon at a delta (or one that is known to be kept) with all that it cannot be read without."""
        run, (against, sees) = self.run, _observer(self.run)
        place = run.order.position if isinstance(run.order, FixedRing) else None
        target = "any node" if place is None else f"the node at place {place}"
        if isinstance(run.taking_part, IndependentSkips) and run.taking_part.target_skip is not None:
            target += f" that is skipped with probability {run.taking_part.target_skip:g}"
        return Guarantee(
            protects=run.protects,
            whose=target,
            against=against,
            sees=sees,
            method=self.method,
            delta=delta,
            epsilon=self.epsilon(delta) if epsilon is None else epsilon,
            assumptions=(AMPLIFIED if self.amplified else IN_FULL, *_notes(run, amplified=self.amplified)),
        )

    @property
    def facts(self) -> dict[str, object]:
        """What is told of the accounting beside its guarantee."""
        return {"amplified": self.amplified}

    @property
    def amplified(self) -> bool:
        """Whether the noise of others is counted."""
        run = self.run
        if isinstance(run.observer, Members):
            alone = isinstance(run.order, FixedRing) and run.order.distance in (None, 1)
            return run.convex and run.observer.observers == 1 and not alone
        return run.convex

    def classes(self, failure: float) -> list[list[Leakage]]:
        """Return for each class of units the assumption-free law and, where the run allows them, amplified laws."""
        # Powers of ten, so that neighbouring questions share one law.
        exponent = max(-307, _decade(failure)) if self.amplified else 0
        if exponent not in self._classes:
            # No law depends on the noise, and several forecasts of one process are often of the same run.
            run, failure = replace(self.run, noise_multiplier=1.0), 0.0
            if isinstance(run.taking_part, SureOthers):
                failure = run.taking_part.failure
                run = replace(run, taking_part=SureOthers(others=run.taking_part.others))
            classes = _classes(run, 10.0**exponent, amplified=self.amplified)
            self._classes[exponent] = [[law.but_for(failure) for law in laws] for laws in classes]
        return self._classes[exponent]

    def with_noise(self, noise_multiplier: float) -> Forecast:
        """Return the forecast of the same run with another noise, sharing all work that does not depend on it."""
        other = Forecast(replace(self.run, noise_multiplier=noise_multiplier))
        other._classes = self._classes
        return other


class Composition(PrivacyCurve):
    """What an observer learns about a target from several runs over the same data, one after the other.

    A search over parameters is such a composition; what is chosen by its results is covered, too.

    >>> from skipring.privacy import planned_run
    >>> run = planned_run(schedule="random-ring", nodes=100, steps=1000, skip=0.5, noise_multiplier=10.0)
    >>> round(forecast(run).epsilon(1e-6), 2), round(Composition(*[forecast(run)] * 4).epsilon(1e-6), 2)
    (0.98, 1.57)
    """

    def __init__(self, *forecasts: Forecast) -> None:
        if not forecasts:
            raise InvalidInput("forecasts", "nothing", "at least one forecast")
        if len({each.run.protects for each in forecasts}) > 1:
            raise InvalidInput.because(
                "forecasts", "several units", "all must protect the same: nodes, persons or records"
            )
        if len({each.run.outside for each in forecasts}) > 1:
            raise InvalidInput.because("forecasts", "several observers", "who is inside sees more than the final model")
        self.method = "tight"
        self.forecasts = forecasts
        self.release = max(forecast.release for forecast in forecasts)
        self._of = {each.run: each for each in forecasts}
        self._classes: dict[int, list[list[Leakage]]] = {}

    def guarantee(self, delta: float, epsilon: float | None = None) -> Guarantee:
        """Return the epsilon of all runs at a delta, with all that is said of any of them."""
        each = [forecast.guarantee(delta, 0.0) for forecast in self.forecasts]

        def all_said(words: Iterable[str]) -> str:
            return ", or ".join(dict.fromkeys(words))

        return Guarantee(
            protects=each[0].protects,
            whose=all_said(one.whose for one in each),
            against=all_said(one.against for one in each),
            sees=all_said(one.sees for one in each),
            method=f"{self.method}, composed",
            delta=delta,
            epsilon=self.epsilon(delta) if epsilon is None else epsilon,
            assumptions=(
                f"{len(each)} runs over the same data are counted together",
                *dict.fromkeys(words for one in each for words in one.assumptions),
            ),
        )

    def classes(self, failure: float) -> list[list[Leakage]]:
        """Return the law of the sum of the runs' leakages, for a unit of any class in each run."""
        exponent = _decade(failure / len(self.forecasts))
        if exponent not in self._classes:
            self._classes[exponent] = self._combined(10.0 ** max(-307, exponent))
        return self._classes[exponent]

    def _combined(self, share: float) -> list[list[Leakage]]:
        # Each run deals its units anew, so they may be of one class in one run and of another in the next.
        alike = Counter(each.run for each in self.forecasts)
        classes = {run: self._of[run].classes(share) for run in alike}
        if _ways(classes, alike) > _MOST_COMBINATIONS:  # fewer, coarser classes: what `every` alone says holds, too
            classes = {run: Forecast(_coarse(run)).classes(share) for run in alike}
        if _ways(classes, alike) > _MOST_COMBINATIONS:
            raise InvalidInput.because(
                "forecasts", f"{len(self.forecasts)} runs with rotation", "these are too many to put together"
            )
        choices = [combinations_with_replacement(classes[run], times) for run, times in alike.items()]
        releases = [run.release for run, times in alike.items() for _ in range(times)]
        # Either the assumption-free law of every run, or the last, most amplified one.
        return [
            [self._sum([laws[which] for some in chosen for laws in some], releases) for which in (0, -1)]
            for chosen in product(*choices)
        ]

    def _sum(self, laws: list[Leakage], releases: list[float]) -> Leakage:
        counts = [law for law in laws if isinstance(law, BinomialLeakage)]
        alike = len({law.probability for law in counts}) == 1 and len(set(releases)) == 1
        if alike and len(counts) == len(laws):
            return BinomialLeakage(sum(law.trials for law in counts), counts[0].probability)
        blocks: list[Block] = []
        for release, law in zip(releases, laws, strict=True):
            blocks += law.blocks(release / self.release)
        return IndependentLeakage(blocks, failure=sum(law.failure for law in laws))


def _ways(classes: dict[PlannedRun, list[list[Leakage]]], times: Counter[PlannedRun]) -> int:
    """Return in how many ways a unit can be of some class in each run; runs that are alike are not told apart."""
    return math.prod(math.comb(len(classes[run]) + times[run] - 1, times[run]) for run in classes)


def _coarse(run: PlannedRun) -> PlannedRun:
    """Return the run as if all nodes had the greatest common divisor of their numbers of parts: no unit has more."""
    return replace(run, unit=Protected(protects=run.protects, parts=(run.unit.every,)))


def _decade(failure: float) -> int:
    """Return the power of ten below; what rounding has left just under one counts as that."""
    return math.floor(math.log10(failure) + 1e-6)


def forecast(run: PlannedRun) -> Forecast:
    """Account for a run before it happens.

    >>> from skipring.privacy import planned_run
    >>> run = planned_run(schedule="random-ring", nodes=1000, steps=24000, skip=1e-4, noise_multiplier=10.5976)
    >>> round(forecast(run).epsilon(delta=1e-6), 3)
    0.693
    """
    return Forecast(run)


def _observer(run: PlannedRun) -> tuple[str, str]:
    """Say who looks, and what they see and know."""
    if isinstance(run.observer, Outsider):
        return OUTSIDER, SHOWN
    several, slow = run.observer.observers, run.observer.observer_skip
    who = ANOTHER_NODE if several == 1 else ALL_OTHERS if several == run.nodes - 1 else coalition(several)
    distance = run.order.distance if isinstance(run.order, FixedRing) else None
    place = "" if distance is None else f"the one {distance} hops after it, "
    eager = "always ready" if slow is None else f"skipped with probability {slow:g} or more"
    return who, f"{place}{eager}, who knows the path and sees the final model"


def _notes(run: PlannedRun, *, amplified: bool) -> Iterator[str]:
    """Say what else a guarantee rests on, or leaves out."""
    if isinstance(run.taking_part, SureOthers):
        sure = run.taking_part
        failing = f", but for a probability of {sure.failure:.2g}, which is part of delta" if sure.failure else ""
        yield (
            f"in each round at least {sure.others} other nodes, fixed before its order is drawn, update wherever"
            f" their turn comes{failing}"
        )
        yield "nobody prepares by the coming order, and no data decides who is late"
    if isinstance(run.order, AgreedOrder | DesignedOrder):
        closing = f", the last {run.order.closing} of its hops by noise alone" if run.order.closing else ""
        yield f"it holds for every pair of the order that is agreed on beforehand{closing}"
    elif isinstance(run.order, DrawnRing) and amplified:
        yield "it is an average over random orders: in the one that is drawn some pairs are above it, and others below"
    if run.outside:
        yield ALONE
    if run.unit.parts != (1,) and isinstance(run.order, DrawnWalk):
        yield "rotation is not counted on the random walk: each update of the node is charged as if the unit were in it"
    elif run.unit.parts != (1,):
        turns = [ordinal(number) for number in run.unit.parts]
        often = turns[0] if len(turns) == 1 else f"{', '.join(turns[:-1])} or {turns[-1]}"
        yield (
            f"the {run.protects} contributes at every {often} turn of its node at most, skipped turns"
            " included, and who looks may know at which"
        )
        if len(turns) > 1:
            yield "nodes have different numbers of parts, and the largest over these is stated"


@lru_cache(maxsize=16)  # several megabytes each, for a thousand nodes
def _classes(run: PlannedRun, failure: float, *, amplified: bool) -> list[list[Leakage]]:
    """Return the laws of a run for each class of its units, leaving out paths of at most this probability each."""
    if isinstance(run.order, AgreedOrder | DesignedOrder) and amplified:
        return _known_classes(run, run.order.known, failure)
    if isinstance(run.order, DrawnWalk):
        # Turns come at random. Charging all updates is above any class, whose updates are some of them.
        plain: Leakage = BinomialLeakage(run.steps, run.target_ready / run.nodes)
        return [[plain, *(_walk_laws(run, failure) if amplified else ())]]
    if sure := isinstance(run.taking_part, SureOthers):
        # The ring of those who are sure to update, of target and observer; other updates only add noise
        # (docs/privacy.md, "Nodes that remember").
        ring = run.taking_part.others + 2
        run = replace(run, order=DrawnRing(nodes=ring, steps=ring * run.rounds), observer=Members())
    # An outsider is shown less than a member, so what holds against those holds as well, range by range.
    final = run.outside and amplified and not sure
    as_member = replace(run, observer=Members()) if run.outside else run
    law_of = ring_final if isinstance(run.order, FixedRing) else random_ring_final
    classes: list[list[Leakage]] = []
    # Others make noise at each of their turns, whatever rows they use: only the target's number of parts matters.
    for every in parts_that_count(run.unit.parts, run.rounds):
        for around in class_ranges(run.rounds, every):
            members = _member_laws(as_member, failure, around) if amplified else []
            plain = BinomialLeakage(around.times, run.target_ready)
            if not final:
                classes.append([plain, *members])
                continue
            for units in class_ranges(run.rounds, every, fine=True):
                if around.first <= units.first <= units.last <= around.last:
                    classes.append([plain, *members, law_of(run, failure, units)])
    return classes


def _known_classes(run: PlannedRun, order: KnownOrder, failure: float) -> list[list[Leakage]]:
    """Return the laws for a known order, in which only who takes part is left to chance, if anything is."""
    numbers = parts_that_count(run.unit.parts, run.rounds)
    if run.taking_part.everybody:
        return [[FixedLeakage(exact_account(run, order, every).worst().mu ** 2)] for every in numbers]
    chances = Chances(run, order, failure)
    classes: list[list[Leakage]] = []
    for every in numbers:
        for unit in range(min(every, run.rounds)):
            plain = BinomialLeakage(len(range(unit, run.rounds, every)), run.target_ready)
            laws: list[Leakage] = [plain, PairLeakage(chances, every, unit)]
            if run.outside:  # that is shown less than a member
                laws.append(OutsiderLeakage(chances, every, unit))
            classes.append(laws)
    return classes


def _member_laws(run: PlannedRun, failure: float, units: ClassRange) -> list[Leakage]:
    if isinstance(run.order, DrawnRing):
        return [random_ring_leakage(run, failure, units)]
    return (
        []
        if not isinstance(run.order, FixedRing) or run.order.distance in (None, 1)
        else [ring_leakage(run, failure, units)]
    )


def _walk_laws(run: PlannedRun, failure: float) -> list[Leakage]:
    runs = [replace(run, observer=Members()), run] if run.outside else [run]
    laws: list[Leakage] = []
    for each in runs:
        if falls(run.step_size) and run.steps <= 100 * run.nodes:
            laws.append(random_walk_leakage(each, failure, floors=False))
        laws.append(random_walk_leakage(each, failure))
    return laws


def _solve(law: Leakage, delta: float, release: float) -> float:
    """Return the upper end of a narrow bracket around the epsilon at which the law's delta falls to `delta`."""
    goal = math.log(delta)

    def excess(epsilon: float) -> float:
        value = law.delta(epsilon, release)
        return math.log(value) - goal if value > 0.0 else -1e6

    # The Rényi guess is above the answer, and seldom by a factor of two.
    low, high = 0.0, max(law.rough_epsilon(delta, release), 1e-6)
    at_high = excess(high)
    while at_high > 0.0:
        high *= 2.0
        at_high = excess(high)
    low, at_low = high, at_high
    while at_low <= 0.0:
        high, at_high = low, at_low
        low = 0.75 * low if low > 1e-9 else 0.0
        at_low = excess(low)
        if low == 0.0 and at_low <= 0.0:
            return 0.0
    return narrow(excess, low, at_low, high, at_high, width=1e-12 * high)
