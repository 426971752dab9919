"""The paper's values are trusted where they are shown to hold: counter-examples, and the paper's own grid."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from skipring.errors import InvalidInput
from skipring.privacy import (
    GossipRun,
    OwnTranscript,
    PaperBound,
    PlannedRun,
    calibrate,
    federated_mu,
    federated_node_mu,
    forecast,
    gdp_delta,
    gdp_epsilon,
    gdp_mu,
    gossip_mu,
    muffliato_epsilon,
    planned_run,
)
from skipring.privacy.paper import paper_noise_multiplier, stated_epsilon, visits
from skipring.privacy.record import ScheduleName

SIGMA = 10.597605053700947  # the noise that the paper calls (1, 1e-6)

# nodes, skip, steps, what Theorem 3 claims, true epsilon or a lower bound of it
COUNTER_EXAMPLES = [
    (2, 0.9, 2_000, 6.34, 10.3),
    (2, 0.9, 20_000, 19.7, 44.9),
    (2, 0.7, 6_000, 37.2, 41.7),
    (3, 0.9, 15_000, 16.8, 24.8),
    (5, 0.95, 50_000, 14.8, 24.7),
    (10, 0.95, 200_000, 30.9, 32.3),
    (10, 0.99, 200_000, 5.79, 15.0),
]


def planned(schedule: ScheduleName, nodes: int, steps: int, skip: float, noise: float = SIGMA) -> PlannedRun:
    return planned_run(schedule=schedule, nodes=nodes, steps=steps, skip=skip, noise_multiplier=noise)


@pytest.mark.parametrize(("nodes", "skip", "steps", "claimed", "true"), COUNTER_EXAMPLES)
def test_counter_examples_of_theorem_3_are_not_trusted_and_the_forecast_is_above_the_truth(
    nodes: int, skip: float, steps: int, claimed: float, true: float
) -> None:
    run = planned("random-ring", nodes, steps, skip)
    bound = PaperBound(run, delta_prime=1e-6)
    assert bound.epsilon(1e-6) == pytest.approx(claimed, rel=3e-3)
    assert bound.doubt(1e-6)
    assert "Theorem 3" in bound.doubt(1e-6)
    # The truth is printed to three digits.
    assert forecast(run).epsilon(2e-6) >= true * (1.0 - 5e-3)


def releases_delta(releases: Any, noise: float, epsilon: float) -> float:
    """Return the delta of a random number of bare releases: what an observer sees of one of two nodes."""
    counts = np.arange(1, int(releases.isf(1e-30)) + 2)
    return float(releases.pmf(counts) @ gdp_delta(np.sqrt(counts) * (2.0 / noise), epsilon))


def test_theorem_4_is_false_for_two_nodes_that_are_mostly_skipped() -> None:
    """With two nodes no noise but the target's own lies between two looks (steps that shrink cost it below 1 %)."""
    bound = PaperBound(planned("random-walk", 2, 2000, 0.9, noise=2.0), delta_prime=1e-12)
    claimed = bound.epsilon(1e-12)
    assert claimed == pytest.approx(66.6, abs=0.05)
    true = releases_delta(binom(2000, 0.05), 2.0, claimed)
    assert true == pytest.approx(0.06, abs=0.005)
    assert bound.doubt(1e-12)
    assert "Theorem 4" in bound.doubt(1e-12)


def test_theorem_4_is_distrusted_for_three_nodes_that_are_mostly_skipped() -> None:
    """A lower bound of the truth: only the target's updates that the observer sees before anybody else updates."""
    bound = PaperBound(planned("random-walk", 3, 2000, 0.95, noise=2.0), delta_prime=1e-6)
    claimed = bound.epsilon(1e-6)
    # After an update of the target, the observer's turn (1/3) comes before an update of the other two (0.05 x 2/3).
    seen_bare = binom(2000, 0.05 / 3.0 * (1.0 / 3.0) / (1.0 / 3.0 + 0.05 * 2.0 / 3.0))
    assert releases_delta(seen_bare, 2.0, claimed) > 1000.0 * 2e-6
    assert bound.doubt(1e-6)


def test_theorem_2_is_distrusted_where_its_count_is_exceeded_too_often() -> None:
    """The Chernoff bound is used outside its range: 1 update is counted, where 2 have a chance of 5e-5."""
    bound = PaperBound(planned("ring", 10, 1000, 0.9999, noise=0.5), delta_prime=1e-12)
    claimed = bound.epsilon(1e-12)
    true = releases_delta(binom(100, 1e-4), 0.5, claimed)
    assert true == pytest.approx(4.6e-9, rel=0.05)
    assert bound.doubt(1e-12)
    assert "counts 1 update" in bound.doubt(1e-12)


@pytest.mark.parametrize("skip", [0.0, 0.3, 0.9, 0.99, 0.999])
@pytest.mark.parametrize("rounds", [1, 10, 100, 10_000])
def test_theorem_2_is_trusted_exactly_where_the_binomial_tail_allows_it(rounds: int, skip: float) -> None:
    bound = PaperBound(planned("ring", 10, 10 * rounds, skip), delta_prime=1e-6)
    beyond = float(binom.sf(visits(10, 10 * rounds, skip, 1e-6), rounds, 1.0 - skip))
    assert abs(beyond - 1e-6) > 1e-12  # none of the cases is on the edge
    assert (not bound.doubt(1e-6)) == (beyond <= 1e-6)


@pytest.mark.parametrize(
    "schedule", ["ring", *(pytest.param(name, marks=pytest.mark.slow) for name in ("random-ring", "random-walk"))]
)
def test_what_is_trusted_is_proven(schedule: ScheduleName) -> None:
    trusted = 0
    walk = schedule == "random-walk"  # each of its forecasts takes seconds
    for nodes in (2, 5, 30):
        for skip in (0.0, 0.9, 0.9995) if walk else (0.0, 0.5, 0.9, 0.99, 0.9995):
            for noise in (0.5, 10.0) if walk else (0.5, 2.0, 10.0):
                run = planned(schedule, nodes, 1000 * nodes, skip, noise)
                bound = PaperBound(run, delta_prime=1e-8)
                if not bound.doubt(1e-6):
                    trusted += 1
                    total = 1e-6 + 1e-8
                    assert forecast(run).epsilon(total) <= bound.epsilon(1e-6) * (1.0 + 1e-9)
    assert 0 < trusted < 75


@pytest.mark.parametrize("schedule", ["random-ring", pytest.param("random-walk", marks=pytest.mark.slow)])
def test_what_is_trusted_of_two_nodes_is_true(schedule: ScheduleName) -> None:
    """Exact for two nodes, but for steps that shrink: the observer sees as many bare releases as the target updates."""
    verdicts = []
    for skip in (0.0, 0.3, 0.6, 0.9, 0.97):
        for noise in (2.0, 10.0):
            bound = PaperBound(planned(schedule, 2, 2000, skip, noise), delta_prime=1e-8)
            updates = binom(1000, 1.0 - skip) if schedule == "random-ring" else binom(2000, 0.5 * (1.0 - skip))
            true = releases_delta(updates, noise, bound.epsilon(1e-6)) <= 1e-6 + 1e-8
            assert true or bound.doubt(1e-6)
            verdicts.append((true, not bound.doubt(1e-6)))
    assert {(True, True), (False, False)} <= set(verdicts)


def test_the_paper_is_trusted_on_its_own_grid() -> None:
    for nodes, steps in ((10, 1000), (500, 5000), (1000, 24_000)):
        for skip in (1e-4, 0.5, 0.7):
            for schedule in ("ring", "random-ring", "random-walk"):
                run = planned(schedule, nodes, steps, skip)
                assert PaperBound(run, delta_prime=1e-6).doubt(1e-6) == ""


# Small types of numpy: a number is taken for what it is, and never computed with in its own precision.

SMALL = [np.float16, np.float32]


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("schedule", ["ring", "random-ring", pytest.param("random-walk", marks=pytest.mark.slow)])
def test_a_small_type_does_not_change_a_forecast(kind: Any, schedule: ScheduleName) -> None:
    noise, skip = kind(0.1234), kind(0.3)
    small = planned(schedule, 10, 100, skip, noise)
    wide = planned(schedule, 10, 100, float(skip), float(noise))
    assert small == wide
    assert small.release == (2.0 / float(noise)) ** 2
    assert forecast(small).epsilon(1e-6) == forecast(wide).epsilon(1e-6)
    budget = kind(1.7), kind(1e-3)
    assert calibrate(forecast(wide).with_noise, *budget) == calibrate(forecast(wide).with_noise, *map(float, budget))
    for delta in (1e-3, 1e-6):
        bounds = [PaperBound(run, delta_prime=1e-6) for run in (small, wide)]
        assert bounds[0].epsilon(delta) == bounds[1].epsilon(delta)
    ours = forecast(wide)
    assert ours.keeps(*budget) == ours.keeps(*map(float, budget))
    loose = kind(60000.0)
    theirs = PaperBound(wide, delta_prime=kind(1e-3))
    assert theirs.doubt(kind(1e-3)) == PaperBound(wide, delta_prime=float(kind(1e-3))).doubt(float(kind(1e-3)))
    assert theirs.delta(loose) == theirs.delta(float(loose))


def test_the_two_deltas_of_the_paper_stay_below_one_together() -> None:
    with pytest.raises(InvalidInput, match=r"delta_prime = 0.5: .*below 1"):
        PaperBound(planned("ring", 4, 40, 0.5), delta_prime=0.5).epsilon(0.5)


def test_a_skip_probability_next_to_one_has_an_answer() -> None:
    bound = PaperBound(planned("random-walk", 3, 1, 1.0 - 2.0**-53, 1.0), delta_prime=1e-6)
    assert bound.epsilon(1e-6) > 0.0


@pytest.mark.parametrize("kind", SMALL)
def test_a_small_type_does_not_change_any_other_account(kind: Any) -> None:
    noise, step = kind(0.1234), kind(0.3)
    pair = (np.array([0, 1, 2]), np.array([1, 0]))

    def pairs(rounds: int, noise: float) -> GossipRun:
        return GossipRun(graphs=[pair], nodes=2, rounds=rounds, noise_multiplier=noise)

    doors: list[Any] = [
        lambda z, _: federated_mu(100, z),
        lambda z, _: federated_node_mu([3, 2], [True, True], noise_multiplier=z),
        lambda z, _: muffliato_epsilon(pairs(2, z), delta=1e-6, points=[1])[0],
        lambda z, _: gossip_mu(pairs(1, z), observer=0, targets=[1])[0],
        lambda z, _: stated_epsilon(2, nodes=5, steps=50, skip=0.5, noise_multiplier=z, delta=1e-6, delta_prime=1e-6),
        lambda z, _: stated_epsilon(3, nodes=5, steps=50, skip=0.5, noise_multiplier=z, delta=1e-6, delta_prime=1e-6),
        lambda z, _: stated_epsilon(4, nodes=5, steps=50, skip=0.5, noise_multiplier=z, delta=1e-6, delta_prime=1e-6),
        lambda z, s: stated_epsilon(3, nodes=5, steps=50, skip=s, noise_multiplier=z, delta=1e-6, delta_prime=1e-6),
        lambda z, s: stated_epsilon(4, nodes=5, steps=50, skip=s, noise_multiplier=z, delta=1e-6, delta_prime=1e-6),
        lambda z, _: paper_noise_multiplier(z, 1e-6),
        lambda z, _: gdp_epsilon(z, 1e-6),
        lambda z, _: gdp_mu(z, 1e-6),
        lambda z, s: _own(OwnTranscript(3, 0), z, s),
    ]
    for door in doors:
        assert float(door(noise, step)) == float(door(float(noise), float(step)))


def _own(account: OwnTranscript, noise: float, step: float) -> float:
    for node in (0, 1, 2, 0):
        account.update(node, step_size=step, noise_multiplier=noise)
    return float(account.worst().mu)


# Noise has no values beyond 18.84 standard deviations: no delta below 1e-75 is stated.


@pytest.mark.parametrize("delta", [9e-76, 1e-100, 1e-300, 0.0])
def test_a_delta_that_no_noise_supports_is_refused(delta: float) -> None:
    run = planned("ring", 4, 40, 0.5)
    for ask in (
        forecast(run).epsilon,
        PaperBound(run, delta_prime=1e-6).epsilon,
        lambda small: gdp_epsilon(1.0, small),
        lambda small: calibrate(forecast(run).with_noise, 1.0, small),
    ):
        with pytest.raises(InvalidInput, match=r"delta = .*at least 1e-75"):
            ask(delta)


def test_a_delta_that_no_noise_supports_is_never_the_answer() -> None:
    run = planned("random-ring", 4, 40, 0.5)
    assert forecast(run).delta(500.0) == 1e-75
    assert PaperBound(run, delta_prime=1e-6).delta(500.0) == 1e-75
