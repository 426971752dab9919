"""The forecast for an order that is known, against all ways to take part in small runs, one by one.

The oracle is that of `test_forecast_exact`: a path as a word, cut where the observer looks.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from plain_run import order_of
from scipy.special import logsumexp
from test_forecast_exact import EPSILONS, QUESTIONS, Truth, path_leakage, word_law

from skipring.errors import InvalidInput
from skipring.privacy import (
    Composition,
    PaperBound,
    PlannedRun,
    Transcript,
    TranscriptAccountant,
    calibrate,
    forecast,
    planned_run,
)
from skipring.privacy._known import Chances, PairLeakage, _Tables, log_constant
from skipring.privacy._step_sizes import StepSizeLaw
from skipring.privacy.gaussian import gdp_delta, gdp_epsilon
from skipring.schedules import KnownOrder, RandomRing, designed_order


def random_order(nodes: int, rounds: int, seed: int, closing: int = 0) -> KnownOrder:
    rng = np.random.default_rng(seed)
    path = RandomRing(nodes).path(nodes * rounds, rng)
    return KnownOrder(nodes, tuple(path.tolist()), tuple(rng.integers(nodes, size=closing).tolist()))


def truth_of(run: PlannedRun, target: int, observer: int, observer_ready: float, unit: int = 0) -> Truth:
    """All ways to take part: hop by hop a letter, or none. The observer looks whether or not it takes part."""
    order = order_of(run)
    parts = []
    for hop, node in enumerate(order.whole_path.tolist()):
        with_data = hop < len(order.hops) and (hop // run.nodes) % run.unit.every == unit
        if node == observer and run.keywords["against"] != "outsider":
            parts.append({"W": observer_ready, "L": 1.0 - observer_ready})
        elif node == target:
            ready = 1.0 - run.keywords.get("target_skip", run.skip)
            parts.append({"U" if with_data else "N": ready, "": 1.0 - ready})
        else:
            parts.append({"N": 1.0 - run.skip, "": run.skip})
    words = word_law({letter: chance for letter, chance in part.items() if chance > 0.0} for part in parts)
    leakages = [path_leakage(word, run.step_size) for word in words]
    return Truth(np.array(leakages), np.array(list(words.values())))


def worst_truth(run: PlannedRun, epsilon: float, noise: float) -> float:
    """The largest true delta over all pairs, units, and choices of the observer to take part."""
    pairs = [(u, v) for u in range(run.nodes) for v in range(run.nodes) if u != v]
    if run.keywords["against"] == "outsider":
        pairs = [(u, -1) for u in range(run.nodes)]
    choices = (0.0, 1.0) if run.step_size == "sqrt" and run.keywords["against"] != "outsider" else (1.0,)
    return max(
        truth_of(run, u, v, ready, unit).delta(epsilon, noise)
        for u, v in pairs
        for ready in choices
        for unit in range(min(run.unit.every, run.rounds))
    )


CASES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "a quick target": {"target_skip": 0.0},
    "a slow target": {"target_skip": 0.8},
    "only the target is slow": {"skip": 0.0, "target_skip": 0.5},
    "hardly anybody": {"skip": 0.9},
    "records in turn": {"protects": "record", "parts": 2},
    "records once": {"protects": "record", "parts": 5},
    "final": {"against": "outsider"},
    "final, in turn": {"against": "outsider", "protects": "record", "parts": 2},
}


@pytest.mark.sample(18)
@pytest.mark.parametrize("closing", [0, 2])
@pytest.mark.parametrize("law", ["constant", "sqrt"])
@pytest.mark.parametrize("case", CASES)
def test_it_is_above_the_truth_for_every_pair_and_close_to_it(case: str, law: StepSizeLaw, closing: int) -> None:
    order = random_order(3, 4, 17 + closing, closing)
    given: dict[str, Any] = {"skip": 0.4} | CASES[case]
    run = planned_run(
        schedule="random-ring", nodes=3, steps=12, noise_multiplier=2.0, step_size=law, order=order, **given
    )
    for noise, epsilon in QUESTIONS[::2]:
        truth = worst_truth(run, epsilon, noise)
        stated = forecast(run.replace(noise_multiplier=noise)).delta(epsilon)
        assert stated >= truth * (1.0 - 1e-9)
        if run.keywords["against"] == "node":
            # Without floors of the update number little is given away: own noise at closing hops, and tangents of F.
            assert stated <= truth * (1.08 if law == "constant" else 3.0) + 1e-9
        else:
            inside = forecast(run.replace(noise_multiplier=noise, against="node")).delta(epsilon)
            assert stated <= inside * (1.0 + 1e-9)


@pytest.mark.parametrize("law", ["constant", "sqrt"])
def test_four_nodes_that_close_in_the_middle_of_things(law: StepSizeLaw) -> None:
    # The target closes, the observer closes, and both do; somebody closes twice.
    for seed, closing in enumerate([(0, 1), (1, 1), (2, 3, 2)]):
        drawn = random_order(4, 2, seed)
        run = planned_run(
            schedule="random-ring",
            nodes=4,
            steps=8,
            skip=0.3,
            noise_multiplier=3.0,
            step_size=law,
            order=KnownOrder(4, drawn.hops, closing),
        )
        for epsilon in EPSILONS[3:]:
            truth = worst_truth(run, epsilon, 3.0)
            assert truth * (1.0 - 1e-9) <= forecast(run).delta(epsilon)
            assert forecast(run).delta(epsilon) <= truth * (1.08 if law == "constant" else 3.0) + 1e-12


def test_two_nodes_may_have_drawn_their_order() -> None:
    order = KnownOrder(2, (0, 1, 1, 0, 1, 0, 0, 1), (1,))
    for law in ("constant", "sqrt"):
        run = planned_run(
            schedule="random-ring", nodes=2, steps=8, skip=0.3, noise_multiplier=3.0, step_size=law, order=order
        )
        for epsilon in EPSILONS[2:]:
            truth = worst_truth(run, epsilon, 3.0)
            assert truth * (1.0 - 1e-9) <= forecast(run).delta(epsilon) <= 1.5 * truth + 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_many_small_orders_are_never_below_the_truth(seed: int) -> None:
    rng = np.random.default_rng([90, seed])
    nodes, rounds, closing = int(rng.integers(3, 5)), int(rng.integers(1, 4)), int(rng.integers(0, 3))
    against: Literal["outsider", "node"] = "outsider" if rng.random() < 0.2 else "node"
    run = planned_run(
        schedule="random-ring",
        nodes=nodes,
        steps=nodes * rounds,
        skip=float(rng.choice([0.05, 0.3, 0.7])),
        target_skip=None if rng.random() < 0.5 else float(rng.choice([0.0, 0.2, 0.9])),
        noise_multiplier=1.0,
        step_size="sqrt" if rng.random() < 0.5 else "constant",
        protects="record",
        parts=int(rng.integers(1, 4)),
        against=against,
        order=random_order(nodes, rounds, seed, closing),
    )
    for noise, epsilon in QUESTIONS:
        stated = forecast(run.replace(noise_multiplier=noise)).delta(epsilon)
        assert stated >= worst_truth(run, epsilon, noise) * (1.0 - 1e-9)


@pytest.mark.parametrize("law", ["constant", "sqrt"])
@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("against", ["node", "outsider"])
def test_with_nobody_skipped_it_is_what_the_transcript_says(law: StepSizeLaw, every: int, against: Any) -> None:
    run = planned_run(
        schedule="designed-ring",
        nodes=7,
        steps=42,
        skip=0.0,
        noise_multiplier=5.0,
        step_size=law,
        protects="record",
        parts=every,
        search=200,
        against=against,
    )
    path = order_of(run).whole_path

    def account(updated: NDArray[np.bool_]) -> TranscriptAccountant:
        numbers = np.arange(1, int(updated.sum()) + 1)
        return TranscriptAccountant(
            Transcript(
                nodes=7,
                offered=path,
                updated=updated,
                step_sizes=1.0 if law == "constant" else 1.0 / np.sqrt(numbers),
                noise_multiplier=5.0,
                parts=every,
                protects="record",
                closing=2,
                against=against,
            )
        )

    if against == "outsider":
        mu = account(np.ones(len(path), dtype=bool)).worst().mu
    else:  # an observer looks at its turns, and passes the token on
        mu = max(float(account(path != observer).matrix()[:, observer].max()) for observer in range(7))
    assert forecast(run).epsilon(1e-5) == pytest.approx(gdp_epsilon(mu, 1e-5), rel=1e-9)
    assert forecast(run).delta(1.0) == pytest.approx(gdp_delta(mu, 1.0), rel=1e-9)


@pytest.mark.parametrize("law", ["constant", "sqrt"])
def test_next_to_no_skipping_is_next_to_the_transcript(law: StepSizeLaw) -> None:
    run = planned_run(
        schedule="designed-ring", nodes=12, steps=120, skip=0.0, noise_multiplier=5.0, step_size=law, search=500
    )
    nobody = forecast(run).epsilon(1e-5)
    hardly = forecast(run.replace(skip=1e-9)).epsilon(1e-5)
    assert nobody * (1.0 - 1e-9) <= hardly <= nobody * (1.01 if law == "constant" else 1.05)


def test_simulated_paths_of_a_larger_run_agree_with_it() -> None:
    """Many skip patterns with the exact accountant: the mean delta of each pair is below what is stated."""
    order = designed_order(8, 10, search=500)
    run = planned_run(
        schedule="designed-ring", nodes=8, steps=80, skip=0.3, noise_multiplier=4.0, step_size="constant", search=500
    )
    assert order_of(run) == order
    epsilon = forecast(run).epsilon(1e-2)
    rng, path = np.random.default_rng(5), order.whole_path
    deltas = []
    for _ in range(400):
        updated = rng.random(len(path)) >= 0.3
        account = TranscriptAccountant(
            Transcript(
                nodes=8, offered=path, updated=updated, step_sizes=1.0, noise_multiplier=4.0, closing=len(order.closing)
            )
        )
        deltas.append(gdp_delta(account.matrix(threads=1).ravel(), epsilon))
    means = np.mean(deltas, axis=0)
    spread = np.std(deltas, axis=0) / math.sqrt(400)
    # Of 56 pairs none is above by more than 5 standard errors (1e-5 each); the worst is at what is stated.
    assert (means <= 1e-2 + 5.0 * spread).all()
    assert means.max() >= 0.7e-2


def test_the_law_of_each_pair_is_a_close_bound() -> None:
    order = random_order(4, 3, 2, 1)
    run = planned_run(
        schedule="random-ring", nodes=4, steps=12, skip=0.3, noise_multiplier=3.0, step_size="constant", order=order
    )
    leakage = PairLeakage(Chances(run, order, 1e-9), 1, 0)
    for target in range(4):
        for observer in set(range(4)) - {target}:
            truth = truth_of(run, target, observer, 1.0)
            law = leakage._law(4 * target + observer)
            for epsilon in (0.5, 2.0):
                stated = law.delta(epsilon, run.release)
                assert truth.delta(epsilon, 3.0) * (1.0 - 1e-9) <= stated <= truth.delta(0.85 * epsilon, 3.0)


@pytest.mark.parametrize("nodes", [3, 5, 8])
def test_no_observer_is_told_more_than_all_updates_in_full(nodes: int) -> None:
    """In a run of one round the mean leakage says little of the worst: quick bounds alone find no epsilon there."""
    run = planned_run(
        schedule="random-ring",
        nodes=nodes,
        steps=nodes,
        skip=0.6,
        noise_multiplier=1.0,
        step_size="constant",
        order=random_order(nodes, 1, 2, 1),
    )
    assert forecast(run).epsilon(1e-5) <= gdp_epsilon(2.0, 1e-5)


def test_the_quick_bound_is_above_the_law_of_each_pair() -> None:
    for law in ("constant", "sqrt"):
        run = planned_run(
            schedule="designed-ring",
            nodes=9,
            steps=54,
            skip=0.35,
            noise_multiplier=3.0,
            step_size=law,
            search=0,
        )
        leakage = PairLeakage(Chances(run, order_of(run), 1e-9), 1, 0)
        for theta in (1e-3, 0.3, 3.0, 40.0):
            quick = leakage._log_mgfs(theta).reshape(9, 9)
            for target, observer in [(0, 1), (3, 7), (8, 2), (5, 4)]:
                exact = float(leakage._law(9 * target + observer).log_mgf(np.array([theta]))[0])
                assert exact <= quick[target, observer] * (1.0 + 1e-3)  # the law is kept on a grid
                assert quick[target, observer] <= 1.6 * exact


def test_all_cores_find_what_one_does() -> None:
    run = planned_run(schedule="designed-ring", nodes=210, steps=420, skip=0.3, noise_multiplier=3.0, search=0)
    leakage = PairLeakage(Chances(run, order_of(run), 1e-9), 1, 0)
    quick = leakage._log_mgfs(2.0).reshape(210, 210)
    assert np.isneginf(np.diag(quick)).all()
    assert np.isfinite(quick[~np.eye(210, dtype=bool)]).all()
    for target, observer in [(0, 1), (104, 7), (209, 208)]:
        exact = float(leakage._law(210 * target + observer).log_mgf(np.array([2.0]))[0])
        assert exact * (1.0 - 1e-3) <= quick[target, observer] <= 1.6 * exact


@pytest.mark.parametrize("theta", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("epsilon", [0.0, 1.0, 8.0])
def test_the_constant_of_the_quick_bound_holds_everywhere(theta: float, epsilon: float) -> None:
    for release in (0.01, 0.3, 4.0):
        x = np.linspace(0.0, 30.0, 100_001)
        with np.errstate(divide="ignore"):
            needed = float((np.log(gdp_delta(np.sqrt(x * release), epsilon)) - theta * x).max())
        found = log_constant(theta, epsilon, release, 30.0)
        assert needed <= found
        assert found <= max(needed, -690.0) + 0.1


def test_an_agreed_order_of_a_random_ring_has_a_number_of_its_own() -> None:
    run = planned_run(schedule="random-ring", nodes=30, steps=600, skip=0.2, noise_multiplier=4.0)
    drawn = forecast(run.replace(order=random_order(30, 20, 1))).epsilon(1e-5)
    chosen = forecast(run.replace(schedule="designed-ring", search=3000)).epsilon(1e-5)
    average = forecast(run).epsilon(1e-5)
    assert chosen < drawn
    assert average < drawn  # the worst pair of an order that was drawn
    assert "average over random orders" in forecast(run).guarantee(1e-5).sentence()
    assert "holds for every pair" in forecast(run.replace(order=random_order(30, 20, 1))).guarantee(1e-5).sentence()


def test_noise_for_every_pair_keeps_the_budget() -> None:
    run = planned_run(schedule="designed-ring", nodes=10, steps=100, skip=0.3, noise_multiplier=1.0, search=500)
    noise = calibrate(forecast(run).with_noise, 8.0, 1e-5)
    assert forecast(run.replace(noise_multiplier=noise)).epsilon(1e-5) <= 8.0 * (1.0 + 1e-9)
    assert forecast(run.replace(noise_multiplier=0.99 * noise)).epsilon(1e-5) > 8.0


def test_without_convexity_each_update_counts_in_full() -> None:
    run = planned_run(
        schedule="designed-ring", nodes=10, steps=100, skip=0.3, noise_multiplier=9.0, convex=False, search=0
    )
    ring = run.replace(schedule="ring", closing=None, order_seed=None, search=None)
    assert forecast(run).epsilon(1e-5) == forecast(ring).epsilon(1e-5)


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ("nodes = 2: two nodes have one order only", {"nodes": 2, "steps": 20}),
        ("steps = 21: must be a multiple of nodes", {"steps": 21}),
        ("closing = 2: random-ring has no closing hops", {"schedule": "random-ring", "closing": 2}),
        ("closing = 1: ring has no closing hops", {"schedule": "ring", "closing": 1}),
        ("closing", {"closing": -1}),
        ("search", {"search": -1}),
        ("search = 5: is for an order that is still to be designed", {"schedule": "random-ring", "search": 5}),
        ("order_seed", {"schedule": "ring", "order_seed": 5}),
        (
            "against = skipped-node: in a known order observers are taken to be always ready",
            {"against": "skipped-node"},
        ),
        ("distance", {"distance": 2}),
        ("nodes", {"nodes": 4000, "steps": 8000}),
        ("steps = 2000000: must be at most 1000000", {"steps": 2_000_000}),
        ("steps = 20: the order that is given has 12", {"schedule": "random-ring", "order": random_order(4, 3, 1)}),
        ("order", {"schedule": "ring", "order": random_order(4, 5, 1)}),
    ],
)
def test_what_no_forecast_covers_is_refused(words: str, changes: dict[str, Any]) -> None:
    values: dict[str, Any] = {
        "schedule": "designed-ring",
        "nodes": 4,
        "steps": 20,
        "skip": 0.1,
        "noise_multiplier": 2.0,
    } | changes
    with pytest.raises(InvalidInput, match=words):
        planned_run(**values)


def test_the_paper_says_nothing_of_it() -> None:
    run = planned_run(schedule="designed-ring", nodes=5, steps=20, skip=0.2, noise_multiplier=8.0, search=0)
    with pytest.raises(InvalidInput, match="do not cover an order that is known"):
        PaperBound(run, delta_prime=1e-6)


def test_runs_in_known_orders_are_not_composed_where_chance_is_left() -> None:
    run = planned_run(schedule="designed-ring", nodes=5, steps=20, skip=0.0, noise_multiplier=8.0, search=0)
    once, twice = forecast(run), Composition(forecast(run), forecast(run))
    assert once.epsilon(1e-5) < twice.epsilon(1e-5) < 2.0 * once.epsilon(1e-5)
    skipping = forecast(run.replace(skip=0.2))
    with pytest.raises(InvalidInput, match="known order"):
        Composition(skipping, skipping).epsilon(1e-5)


@pytest.mark.parametrize("theta", [1e-6, 1.0, 340.0, 400.0, 500.0, 690.0])
@pytest.mark.parametrize("law", ["constant", "sqrt"])
@pytest.mark.parametrize("given", [{"skip": 0.3}, {"skip": 0.0, "target_skip": 0.5}, {"skip": 0.9, "target_skip": 0.0}])
def test_the_quick_bound_is_a_number_also_where_powers_overflow(
    theta: float, law: StepSizeLaw, given: dict[str, Any]
) -> None:
    order = random_order(3, 4, 3, 2)
    run = planned_run(
        schedule="random-ring",
        nodes=3,
        steps=12,
        noise_multiplier=2.0,
        step_size=law,
        order=order,
        protects="node",
        **given,
    )
    chances = Chances(run, order, 1e-12)
    tables = _Tables(chances, 12)
    alone, after = tables.at(theta)
    assert np.isfinite(alone).all()
    assert np.isfinite(after).all()
    assert (alone <= theta * (1.0 + 1e-8)).all()
    assert (after <= 2.0 * theta * (1.0 + 1e-8)).all()
    # With the target surely there and nobody else, one contribution is seen bare, and two are.
    if run.target_ready == 1.0:
        assert (alone[0, :, 0] >= theta).all()
        assert (after[0, :, 0] >= theta).all()
    found = PairLeakage(chances, 1, 0).log_mgf(np.array([theta]))
    assert np.isfinite(found).all()
    if law == "constant":  # floors of update numbers may fail, with a probability that a large theta makes much of
        truths = [truth_of(run, u, v, 1.0) for u in range(3) for v in range(3) if u != v]
        worst = max(logsumexp(theta * truth.leakages, b=truth.probabilities) for truth in truths)
        assert found[0] >= worst * (1.0 - 1e-9)
