"""Forecasts for units that take turns, and for an outsider: against all paths of small runs and simulated larger ones.

The oracle shares no code with the library. A path is a word of updates with the unit's rows (U), of updates without
them (N, also by the unit's own node) and of looks (L). It is cut at the looks, and each piece costs what the greatest
convex minorant of (noise so far, drift so far) does.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr

from skipring.errors import InvalidInput
from skipring.privacy import (
    Composition,
    Forecast,
    PaperBound,
    PlannedRun,
    calibrate,
    forecast,
    planned_run,
    whole_node,
)
from skipring.privacy._final import _each_round, _Sides, ring_final
from skipring.privacy._rings import counter_floors, random_ring_leakage, ring_leakage
from skipring.privacy._rotation import ClassRange, class_ranges
from skipring.privacy.forecast import _classes
from skipring.privacy.record import ScheduleName

Floats = NDArray[np.float64]
# (noise multiplier, epsilon): from nearly no privacy to a lot of it.
QUESTIONS = ((2.0, 0.0), (1.0, 0.5), (2.0, 6.0), (6.0, 2.0), (20.0, 0.05))


def gaussian_delta(mu: Floats, epsilon: float) -> Floats:
    safe = np.maximum(mu, 1e-12)
    delta = ndtr(0.5 * safe - epsilon / safe) - math.exp(epsilon) * ndtr(-0.5 * safe - epsilon / safe)
    return np.where(mu > 0.0, np.maximum(delta, 0.0), 0.0)


@cache
def piece(word: str, before: int, constant: bool) -> float:
    """What the updates of a word tell whoever looks after it; `before` updates were made earlier."""
    slopes: list[tuple[float, float]] = []  # drift and noise, pooled until the slopes rise
    for i, letter in enumerate(word):
        size = 1.0 if constant else 1.0 / math.sqrt(before + 1 + i)
        drift, noise = (size if letter == "U" else 0.0), size * size
        while slopes and slopes[-1][0] * noise >= drift * slopes[-1][1]:
            earlier = slopes.pop()
            drift, noise = drift + earlier[0], noise + earlier[1]
        slopes.append((drift, noise))
    return sum(drift * drift / noise for drift, noise in slopes)


def leakage(path: str, *, constant: bool) -> float:
    """W is a look and an update of the observer, whose noise it knows; everybody sees the final model."""
    total, made, since = 0.0, 0, ""
    for letter in path + "L":
        if letter in "LW":
            total += piece(since, made - len(since), constant)
            since, made = "", made + (letter == "W")
        else:
            since, made = since + letter, made + 1
    return total


@pytest.mark.parametrize(
    ("path", "expected"),
    [("U", 1.0), ("UNL", 0.5), ("UUL", 2.0), ("UNUL", 1.5), ("UUN", 4 / 3), ("NWUWNU", 2.0), ("NUNNWU", 4 / 3)],
)
def test_the_oracle_on_paths_that_can_be_done_by_hand(path: str, expected: float) -> None:
    assert leakage(path, constant=True) == pytest.approx(expected, rel=1e-14)


class Truth:
    """The exact law of the leakage of a unit of one class."""

    def __init__(self, law: dict[float, float]) -> None:
        assert sum(law.values()) == pytest.approx(1.0, abs=1e-12)
        self.leakages, self.chances = np.array(list(law)), np.array(list(law.values()))

    def delta(self, epsilon: float, noise: float) -> float:
        return float(self.chances @ gaussian_delta(np.sqrt(self.leakages) * 2.0 / noise, epsilon))


def orders_of(run: PlannedRun, place: int) -> list[tuple[int, ...]]:
    """Node 0 is the target, node 1 the observer (of an outsider: another node)."""
    if run.schedule == "random-ring":
        return list(itertools.permutations(range(run.nodes)))
    order = [-1] * run.nodes
    order[place - 1], order[(place - 1 + (run.keywords.get("distance") or 1)) % run.nodes] = 0, 1
    others = iter(range(2, run.nodes))
    return [tuple(node if node >= 0 else next(others) for node in order)]


@cache
def truth_of(run: PlannedRun, unit: int, observer_ready: float, place: int = 1) -> Truth:
    """All paths, for a unit that contributes in rounds unit, unit + every, ..."""
    target = 1.0 - run.keywords.get("target_skip", run.skip)
    words = {"": 1.0}
    for number in range(1, run.rounds + 1):
        own = "U" if number % run.unit.every == unit % run.unit.every else "N"
        ready = 1.0 - run.skip
        seen = {"W": observer_ready, "L" if run.keywords["against"] == "node" else "": 1.0 - observer_ready}
        if run.keywords["against"] == "outsider":
            seen = {"N": ready, "": run.skip}
        outcomes: list[dict[str, float]] = [{own: target, "": 1.0 - target}, seen]
        outcomes += [{"N": ready, "": run.skip}] * (run.nodes - 2)
        orders = orders_of(run, place)
        each: defaultdict[str, float] = defaultdict(float)
        for order in orders:
            for what in itertools.product(*(outcome.items() for outcome in outcomes)):
                each["".join(what[node][0] for node in order)] += math.prod(p for _, p in what) / len(orders)
        longer: defaultdict[str, float] = defaultdict(float)
        for word, chance in words.items():
            for end, more in each.items():
                if chance * more > 0.0:
                    longer[word + end] += chance * more
        words = dict(longer)
    law: defaultdict[float, float] = defaultdict(float)
    for word, chance in words.items():
        law[leakage(word, constant=run.step_size == "constant")] += chance
    return Truth(dict(law))


def planned(schedule: ScheduleName, nodes: int, rounds: int, every: int, **more: Any) -> PlannedRun:
    arguments: dict[str, Any] = {"skip": 0.3, "noise_multiplier": 2.0, "protects": "record", **more}
    return planned_run(schedule=schedule, nodes=nodes, steps=nodes * rounds, parts=every, **arguments)


def laws_of(run: PlannedRun, unit: int) -> Callable[[float, float], float]:
    """The bound of the range that a class is in."""
    classes = _classes(run, 1e-15, amplified=Forecast(run).amplified)
    ranges = class_ranges(run.rounds, run.unit.every, fine=run.keywords["against"] == "outsider" and run.convex)
    assert len(classes) == len(ranges)
    (laws,) = [some for some, units in zip(classes, ranges, strict=True) if units.first <= unit <= units.last]
    return lambda epsilon, noise: min(law.delta(epsilon, (2.0 / noise) ** 2) for law in laws)


RUNS = [
    planned("random-ring", 4, 2, 2, skip=0.0, step_size="constant"),
    planned("random-ring", 4, 2, 2, skip=0.2),
    planned("random-ring", 3, 4, 2),
    planned("random-ring", 3, 4, 3, step_size="constant"),
    planned("random-ring", 3, 4, 2, skip=0.6, target_skip=0.0),
    planned("random-ring", 3, 3, 7),
    planned("random-ring", 2, 5, 2, skip=0.5),
    planned("random-ring", 2, 6, 4, skip=0.1, step_size="constant"),
    planned("ring", 3, 4, 2, distance=2),
    planned("ring", 4, 3, 2, distance=3, position=1),
    planned("ring", 4, 3, 2, distance=2, position=4, step_size="constant"),
    planned("ring", 3, 4, 3),
    planned("random-ring", 3, 4, 2, convex=False),
    planned("random-ring", 3, 3, 2, against="skipped-node", observer_skip=0.4),
]
OUTSIDE = [
    *(planned("random-ring", 3, rounds, 1, against="outsider", protects="node") for rounds in (1, 2, 3, 4)),
    planned("random-ring", 4, 3, 1, against="outsider", protects="node", skip=0.0, step_size="constant"),
    planned("random-ring", 4, 3, 1, against="outsider", protects="node", skip=0.0),
    planned(
        "random-ring", 3, 4, 1, against="outsider", protects="node", skip=0.5, target_skip=0.0, step_size="constant"
    ),
    planned("random-ring", 2, 5, 1, against="outsider", protects="node", skip=0.2),
    planned("random-ring", 3, 5, 2, against="outsider", skip=0.2),
    planned("random-ring", 3, 5, 3, against="outsider", step_size="constant", target_skip=0.0),
    planned("random-ring", 4, 4, 2, against="outsider", skip=0.0),
    planned("random-ring", 3, 4, 9, against="outsider"),
    planned("ring", 3, 4, 1, against="outsider", protects="node"),
    planned("ring", 4, 3, 1, against="outsider", protects="node", step_size="constant", target_skip=0.0),
    planned("ring", 3, 5, 2, against="outsider", skip=0.1),
    planned("ring", 3, 5, 3, against="outsider", step_size="constant"),
]


def described(run: PlannedRun) -> str:
    given = run.keywords
    more = f"skip={run.skip:g},{given.get('target_skip')} {run.step_size} {given['against']} {given.get('distance')}"
    return f"{run.schedule} n={run.nodes} R={run.rounds} q={run.unit.every} {more}"


@pytest.mark.sample(8)
@pytest.mark.parametrize("run", [*RUNS, *OUTSIDE], ids=described)
def test_no_class_of_units_leaks_more_than_the_forecast(run: PlannedRun) -> None:
    """Nor more than the law of its own range; and what is stated is the largest of them."""
    account = forecast(run)
    given = run.keywords
    observers = (1.0 - given["observer_skip"],) if "observer_skip" in given else (0.0, 0.5, 1.0)
    places = (
        range(1, run.nodes + 1)
        if run.schedule == "ring" and run.keywords.get("position") is None
        else (run.keywords.get("position") or 1,)
    )
    for unit in range(1, min(run.unit.every, run.rounds) + 1):
        bound = laws_of(run, unit)
        for place, ready in itertools.product(places, (1.0,) if run.keywords["against"] == "outsider" else observers):
            truth = truth_of(run, unit, ready, place)
            for noise, epsilon in QUESTIONS:
                exact = truth.delta(epsilon, noise)
                if exact > 1e-12:
                    assert exact <= bound(epsilon, noise) * (1.0 + 1e-9)
                    assert exact <= account.with_noise(noise).delta(epsilon) * (1.0 + 1e-9)


@pytest.mark.parametrize("step_size", ["sqrt", "constant"])
@pytest.mark.parametrize(("nodes", "steps", "skip"), [(2, 6, 0.0), (3, 7, 0.4), (4, 6, 0.1)])
def test_the_final_model_of_a_walk_is_covered(nodes: int, steps: int, skip: float, step_size: str) -> None:
    run = planned("random-walk", nodes, 1, 1, skip=skip, against="outsider", step_size=step_size).replace(steps=steps)
    mine, others = (1.0 - skip) / nodes, (nodes - 1) * (1.0 - skip) / nodes
    law: defaultdict[float, float] = defaultdict(float)
    for hops in itertools.product((("U", mine), ("N", others), ("", skip)), repeat=steps):
        word = "".join(letter for letter, _ in hops)
        law[leakage(word, constant=step_size == "constant")] += math.prod(chance for _, chance in hops)
    truth, account = Truth(dict(law)), forecast(run)
    for noise, epsilon in QUESTIONS:
        assert truth.delta(epsilon, noise) <= account.with_noise(noise).delta(epsilon) * (1.0 + 1e-9)


@pytest.mark.parametrize("unit", [1, 2, 3])
def test_a_record_on_the_ring_costs_its_neighbour_what_it_contributes(unit: int) -> None:
    """Nobody lies between neighbours: the law of the class is exact."""
    run = planned("ring", 3, 7, 3)
    for noise, epsilon in QUESTIONS:
        exact = truth_of(run, unit, 1.0).delta(epsilon, noise)
        assert laws_of(run, unit)(epsilon, noise) == pytest.approx(exact, rel=3e-9)
    # Class 1 has the rounds 1, 4 and 7, the others two rounds each.
    most = truth_of(run, 1, 1.0)
    assert forecast(run).delta(0.5) == pytest.approx(most.delta(0.5, 2.0), rel=3e-9)
    assert most.delta(0.5, 2.0) > 1.2 * truth_of(run, 2, 1.0).delta(0.5, 2.0)


def test_the_class_of_the_last_round_may_be_the_worst() -> None:
    """Whoever computes the first class only states too little: the final model shows the last round's update bare."""
    run = planned("random-ring", 4, 2, 2, skip=0.0, step_size="constant", noise_multiplier=1.0)
    first, second = laws_of(run, 1), truth_of(run, 2, 1.0)
    worst = max(second.delta(epsilon, noise) / first(epsilon, noise) for noise, epsilon in QUESTIONS if epsilon < 6.0)
    assert worst > 1.33
    for noise, epsilon in QUESTIONS:
        stated = forecast(run).with_noise(noise).delta(epsilon)
        assert stated >= max(laws_of(run, unit)(epsilon, noise) for unit in (1, 2)) * (1.0 - 2e-3)


def test_no_class_is_always_the_worst() -> None:
    """Neither the first class, nor that of the last round, nor one in between may stand for all of them."""
    worst = set()
    for rounds, skip in itertools.product((6, 7, 8), (0.0, 0.6)):
        run = planned("random-ring", 5, rounds, 3, skip=skip, target_skip=0.0, noise_multiplier=4.0)
        account = forecast(run)
        # A thousandth of delta may be spent on unlikely paths.
        deltas = [min(law.delta(0.5, run.release) for law in laws) for laws in account.classes(1e-4)]
        assert account.delta(0.5) >= max(deltas) - 2e-4
        worst.add(int(np.argmax(deltas)))
    assert len(worst) == 3


@pytest.mark.sample(3)
@pytest.mark.parametrize("step_size", ["sqrt", "constant"])
@pytest.mark.parametrize(("against", "schedule"), [("node", "random-ring"), ("node", "ring"), ("outsider", "ring")])
def test_a_range_of_classes_is_above_each_of_them(schedule: ScheduleName, against: str, step_size: str) -> None:
    distance = 3 if schedule == "ring" and against == "node" else None
    run = planned(schedule, 5, 41, 12, step_size=step_size, against=against, distance=distance)
    law_of = ring_final if against == "outsider" else ring_leakage if schedule == "ring" else random_ring_leakage
    for units in class_ranges(41, 12, fine=against == "outsider"):
        shared = law_of(run, 1e-12, units)
        for unit in range(units.first, units.last + 1):
            alone = ClassRange(unit, unit, units.times, units.every, 41 - unit - (units.times - 1) * units.every)
            law = law_of(run, 1e-12, alone)
            for noise, epsilon in ((2.0, 0.5), (6.0, 0.1), (2.0, 8.0)):
                release = (2.0 / noise) ** 2
                assert law.delta(epsilon, release) <= shared.delta(epsilon, release) * (1.0 + 1e-6)


def test_ranges_hold_each_class_once() -> None:
    for rounds, every, fine in itertools.product(range(1, 20, 2), range(1, 24), (False, True)):
        classes: list[int] = []
        for units in class_ranges(rounds, every, fine=fine):
            classes += range(units.first, units.last + 1)
            step = min(every, rounds)
            assert {len(range(unit, rounds + 1, step)) for unit in classes[-1:]} == {units.times}
            own = range(units.first, rounds + 1, step)
            assert (own[-1], units.times) == (units.last_round, len(own))
            assert units.rest == rounds - range(units.last, rounds + 1, step)[-1]
            assert units.first == units.last or units.rest > 0  # the last round is nobody else's
            for start, end in itertools.combinations(range(1, rounds + 2), 2):
                assert units.contributions(start, end) == sum(start <= number < end for number in own[:-1])
        assert classes == list(range(1, min(every, rounds) + 1))
    assert len(class_ranges(3000, 300, fine=True)) < 30


# --------------------------------------------------------------------------------------- larger runs, simulated


def simulated(run: PlannedRun, unit: int, paths: int, rng: np.random.Generator) -> Floats:
    """The exact leakage of a unit on so many paths of a random ring; the observer is always ready."""
    found = np.zeros(paths)
    for path in range(paths):
        word = ""
        for number in range(1, run.rounds + 1):
            order, ready = rng.permutation(run.nodes), rng.random(run.nodes) >= run.skip
            for node in order.tolist():
                if node == 0:
                    word += ("U" if (number - unit) % run.unit.every == 0 else "N") if ready[0] else ""
                elif node == 1 and run.keywords["against"] != "outsider":
                    word += "W"
                elif ready[node]:
                    word += "N"
        found[path] = leakage(word, constant=run.step_size == "constant")
    piece.cache_clear()
    return found


@pytest.mark.parametrize(
    ("run", "slack"),
    [
        (planned("random-ring", 12, 12, 3, noise_multiplier=3.0), 1.35),
        (planned("random-ring", 12, 12, 4, noise_multiplier=3.0, step_size="constant", skip=0.0), 1.25),
        (planned("random-ring", 15, 8, 1, protects="node", against="outsider", noise_multiplier=2.0, skip=0.1), 2.2),
        (planned("random-ring", 12, 10, 2, against="outsider", noise_multiplier=2.0, step_size="constant"), 1.8),
    ],
    ids=lambda value: described(value) if isinstance(value, PlannedRun) else "",
)
def test_simulated_paths_are_covered_but_not_by_much(run: PlannedRun, slack: float) -> None:
    """Four standard errors: 3e-5 of false alarms for each class."""
    rng, epsilon, worst = np.random.default_rng(8), 0.4, 0.0
    for unit in range(1, run.unit.every + 1):
        deltas = gaussian_delta(np.sqrt(simulated(run, unit, 1500, rng)) * 2.0 / run.noise_multiplier, epsilon)
        error = float(deltas.std()) / math.sqrt(len(deltas))
        assert float(deltas.mean()) - 4.0 * error <= laws_of(run, unit)(epsilon, run.noise_multiplier)
        worst = max(worst, float(deltas.mean()) + 4.0 * error)
    assert forecast(run).delta(epsilon) <= slack * worst


def test_the_final_model_tells_less_than_half_of_what_members_see() -> None:
    run = planned("random-ring", 60, 30, 1, protects="node", skip=0.0, noise_multiplier=4.0, step_size="constant")
    members, outsider = (forecast(run.replace(against=against)).epsilon(1e-5) for against in ("node", "outsider"))
    assert members == pytest.approx(4.06, abs=0.01)
    # By the plain rule (one update for each round's others, the last one for those after it) it is 1.85.
    t = np.arange(60.0)
    plain = 29.0 / 60.0 + 1.0 / (1.0 + t) + 2.0 * t / ((1.0 + t) * 60.0)
    assert 8e-6 < float(gaussian_delta(np.sqrt(plain) * 0.5, 1.85).mean()) <= 1e-5
    assert 1.80 < outsider < 1.85
    # And the truth is not far below: this many paths, each with its exact leakage.
    exact = simulated(run.replace(against="outsider"), 1, 150, np.random.default_rng(5))
    assert float(gaussian_delta(np.sqrt(exact) * 0.5, outsider).mean()) <= 1e-5


@pytest.mark.parametrize("step_size", ["sqrt", "constant"])
def test_the_final_model_is_charged_at_least_what_its_rule_says(step_size: str) -> None:
    """Nobody is skipped, so that only the target's places in the rounds are left to chance: all of them, one by one."""
    n = 12
    run = planned("random-ring", n, 4, 1, skip=0.0, step_size=step_size, against="outsider")
    first, middle, last_two = _each_round(run, class_ranges(4, 1)[0], _Sides(n, 1.0), counter_floors(run, 0.0, 0))
    eta2 = np.ones(4 * n) if step_size == "constant" else 1.0 / (1.0 + np.arange(4 * n))
    rule: dict[str, list[float]] = {"first": [], "middle": [], "last two": []}
    for one, two in itertools.product(range(n), repeat=2):
        for name, number in (("first", 0), ("middle", 1), ("last two", 2)):
            c, next_one = number * n + one, (number + 1) * n + two
            others = [i for i in range((number + 1) * n, (number + 2) * n) if i != next_one]
            noise = eta2[[c, *others, *(range(c + 1, n) if number == 0 else ())]].sum()
            cost = eta2[c] / noise
            if name == "last two":  # what is absorbed in each update, by both; or the earlier one before the later
                a, b = np.zeros(4 * n), np.zeros(4 * n)
                a[[c, *others]] = math.sqrt(eta2[c]) * eta2[[c, *others]] / noise
                b[next_one:] = math.sqrt(eta2[next_one]) * eta2[next_one:] / eta2[next_one:].sum()
                apart = eta2[c] / (eta2[c] + eta2[3 * n : next_one].sum()) + eta2[next_one] / eta2[next_one:].sum()
                cost = min(float((((a + b) ** 2) / eta2).sum()), float(apart))
            rule[name].append(float(cost))
    assert max(rule["middle"]) <= middle.mixture[0].values.min() * (1.0 + 1e-9)
    assert max(rule["middle"]) >= (0.999 if step_size == "constant" else 0.85) * middle.mixture[0].values.max()
    (terms,) = first.mixture
    assert np.mean(rule["first"]) <= float(terms.values @ terms.probabilities) * (1.0 + 1e-9)
    both = sum(2.0 * float(part.values[0] * part.counts[0]) for part in last_two.mixture)
    assert np.mean(rule["last two"]) <= both * (1.0 + 1e-9)
    assert both <= (1.0 + 1e-9 if step_size == "constant" else 1.3) * np.mean(rule["last two"])


# ------------------------------------------------------------------------------------------ what must be so


@pytest.mark.sample(6)
@pytest.mark.parametrize("step_size", ["sqrt", "constant"])
@pytest.mark.parametrize("against", ["node", "skipped-node", "outsider"])
@pytest.mark.parametrize("schedule", ["ring", "random-ring", "random-walk"])
def test_less_is_told_of_a_unit_that_contributes_less_often(
    schedule: ScheduleName, against: str, step_size: str
) -> None:
    run = planned(schedule, 10, 40, 1, against=against, step_size=step_size, noise_multiplier=4.0)
    often = (1, 4) if schedule == "random-walk" else (1, 2, 4, 8, 40, 400)
    found = [forecast(run.replace(parts=every)).epsilon(1e-6) for every in often]
    if schedule == "random-walk":  # where turns come at random, and rotation is not counted
        assert set(found) == {found[0]}
        assert "otation is not counted on the random walk" in forecast(run.replace(parts=2)).guarantee(1e-5).sentence()
    else:
        assert all(later <= earlier * (1.0 + 1e-9) for earlier, later in itertools.pairwise(found))
        assert found[3] < 0.75 * found[0]
        assert found[-1] == found[-2]
    if against == "outsider":
        for every, epsilon in zip(often, found, strict=True):
            assert epsilon <= forecast(run.replace(parts=every, against="node")).epsilon(1e-6) * (1.0 + 1e-12)


@pytest.mark.parametrize("schedule", ["ring", "random-ring", pytest.param("random-walk", marks=pytest.mark.slow)])
def test_an_outsider_is_told_no_more_than_a_member(schedule: ScheduleName) -> None:
    for skip, nodes, rounds in ((0.0, 2, 1), (0.9, 2, 6), (0.5, 3, 20), (0.0, 100, 3)):
        run = planned(schedule, nodes, rounds, 1, skip=skip, noise_multiplier=5.0)
        for epsilon in (0.0, 0.3, 2.0):
            final, member = (forecast(run.replace(against=against)).delta(epsilon) for against in ("outsider", "node"))
            assert final <= member * (1.0 + 1e-9)


def test_calibration_keeps_the_worst_class() -> None:
    run = planned("random-ring", 8, 9, 4, skip=0.2)
    noise = calibrate(forecast(run).with_noise, 1.0, 1e-5)
    assert forecast(run.replace(noise_multiplier=noise)).epsilon(1e-5) == pytest.approx(1.0, rel=1e-6)
    assert forecast(run.replace(noise_multiplier=noise)).keeps(1.0, 1e-5)
    assert not forecast(run.replace(noise_multiplier=0.999 * noise)).keeps(1.0, 1e-5)


def test_a_composition_holds_for_every_class_in_each_run() -> None:
    runs = [planned("random-ring", 3, 3, 2, skip=0.2), planned("random-ring", 3, 3, 3, skip=0.2)]
    account = Composition(*map(forecast, runs))
    for units in itertools.product((1, 2), (1, 2, 3)):
        one, two = (truth_of(run, unit, 1.0) for run, unit in zip(runs, units, strict=True))
        for epsilon in (0.0, 0.5, 3.0):
            mu = np.sqrt(one.leakages[:, None] + two.leakages) * 2.0 / 2.0
            exact = float(one.chances @ gaussian_delta(mu, epsilon) @ two.chances)
            assert exact <= account.delta(epsilon) * (1.0 + 1e-9)
    assert account.epsilon(1e-4) <= sum(forecast(run).epsilon(1e-4 / 2) for run in runs)
    assert account.guarantee(1e-5).protects == "record"
    alone = forecast(runs[0])
    assert Composition(alone).delta(0.7) == pytest.approx(alone.delta(0.7), rel=3e-3)
    for other in (runs[0].replace(protects="person"), runs[0].replace(against="outsider")):
        with pytest.raises(InvalidInput, match="forecasts"):
            Composition(alone, forecast(other))
    with pytest.raises(InvalidInput, match="too many"):
        Composition(*[forecast(planned("random-ring", 3, 40, 8, skip=0.01 * i)) for i in range(9)]).epsilon(1e-5)


def test_a_whole_node_is_promised_what_its_rows_leave() -> None:
    run = planned("random-ring", 20, 10, 5, noise_multiplier=40.0)
    node = whole_node(run, 8)
    assert node is not None
    assert node == run.replace(protects="node", parts=1, noise_multiplier=5.0)
    assert forecast(node).epsilon(1e-5) > 8.0 * forecast(run).epsilon(1e-5)
    assert whole_node(run, 4000) is not None
    assert whole_node(run, 4001) is None
    assert whole_node(node, 8) == node
    for rows in (0, -1):
        with pytest.raises(InvalidInput, match="rows"):
            whole_node(run, rows)


@pytest.mark.parametrize(
    ("parameter", "changes"),
    [
        ("parts", {"parts": 0}),
        ("parts", {"parts": 2, "protects": "node"}),
        ("parts", {"parts": 1.5}),
        ("protects", {"protects": "row"}),
        ("observers", {"against": "outsider", "observers": 2}),
        ("observer_skip", {"against": "outsider", "observer_skip": 0.5}),
        ("distance", {"against": "outsider", "schedule": "ring", "distance": 2}),
    ],
)
def test_what_makes_no_sense_is_refused(parameter: str, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=parameter):
        planned("random-ring", 5, 4, 1).replace(**changes)


def test_the_paper_speaks_of_units_that_contribute_at_every_turn() -> None:
    run = planned("random-ring", 20, 10, 1, noise_multiplier=8.0)
    account = PaperBound(run, delta_prime=1e-7)
    assert account.epsilon(1e-6) == PaperBound(run.replace(protects="node"), delta_prime=1e-7).epsilon(1e-6)
    assert "one record of any node" in account.guarantee(1e-5).sentence()
    for changes in ({"parts": 2}, {"against": "outsider"}):
        with pytest.raises(InvalidInput, match=next(iter(changes))):
            PaperBound(run.replace(**changes), delta_prime=1e-7)


def test_claims_say_what_they_rest_on() -> None:
    run = planned("random-ring", 20, 10, 4)
    said = forecast(run).guarantee(1e-5).sentence()
    assert "one record of any node" in said
    assert "every 4th turn" in said
    assert "is public" in said
    outside = forecast(run.replace(against="outsider")).guarantee(1e-5)
    assert (outside.against, outside.protects) == ("an outsider", "record")
    assert "final model and nothing else" in outside.sees
    assert "put together" in outside.sentence()
