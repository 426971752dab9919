"""Extreme and broken inputs of the accountants: the bound is never too small, and nonsense is refused."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest

from skipring.errors import InvalidInput
from skipring.privacy import (
    Composition,
    Lap,
    LapsTranscript,
    OwnTranscript,
    PaperBound,
    WorstPair,
    calibrate,
    forecast,
    planned_run,
)
from skipring.privacy._walk import _gap_law, _HopKinds
from skipring.privacy.gaussian import gdp_delta, gdp_epsilon, gdp_mu
from skipring.privacy.leakage import BinomialLeakage, IndependentLeakage
from skipring.privacy.transcript import Transcript, TranscriptAccountant


def account(offered: Any, **more: Any) -> TranscriptAccountant:
    offered = np.asarray(offered)
    arguments: dict[str, Any] = {
        "nodes": 4,
        "step_sizes": 1.0,
        "noise_multiplier": 10.0,
        "updated": np.ones(len(offered), bool),
    }
    return TranscriptAccountant(Transcript(offered=offered, **(arguments | more)))


def exact(offered: list[int], step: float, noise: float, factor: float) -> float:
    """mu of target 0 for somebody who only sees the final token, in 60 digits."""
    with mpmath.workdps(60):
        L, S, V = mpmath.mpf(factor), 2 * mpmath.mpf(step), (mpmath.mpf(step) * mpmath.mpf(noise)) ** 2
        last = len(offered) - 1
        blocks: list[list[Any]] = []
        for c, node in enumerate(offered):
            w = L ** (last - c)
            if node == 0:
                blocks.append([S * w, mpmath.mpf(0)])
            if blocks:
                blocks[-1][1] += V * w * w
        stack: list[list[Any]] = []
        for block in blocks:
            stack.append(block)
            while len(stack) > 1 and stack[-2][0] * stack[-1][1] >= stack[-1][0] * stack[-2][1]:
                s, v = stack.pop()
                stack[-1][0] += s
                stack[-1][1] += v
        return float(mpmath.sqrt(sum(s * s / v for s, v in stack)))


LAP = Lap(participants=2, sensitivity=1.0, share=1.0)


@pytest.mark.parametrize(
    ("changes", "parameter"),
    [
        ({"took_part": [[1, 1, 0], [1, 1, 0]]}, "took_part"),
        ({"took_part": [1, 1, 0]}, "took_part"),
        ({"took_part": [[1, 1, 1]]}, "took_part"),
        ({"numbers": [-1]}, "numbers"),
        ({"numbers": [0, 1]}, "numbers"),
        ({"parts": [1, 0, 1]}, "parts"),
        ({"protects": "family"}, "protects"),
        ({"protects": "node", "parts": 2}, "parts"),
    ],
)
def test_laps_that_cannot_have_happened_are_refused(changes: dict[str, Any], parameter: str) -> None:
    fine: dict[str, Any] = {"nodes": 3, "opened": [LAP], "took_part": [[1, 1, 0]], "withstood": 1}
    LapsTranscript(**fine)
    with pytest.raises(InvalidInput) as refusal:
        LapsTranscript(**(fine | changes))
    assert refusal.value.parameter == parameter


def test_a_sum_on_a_grid_has_coordinates() -> None:
    with pytest.raises(InvalidInput, match="coordinates"):
        Lap(participants=2, sensitivity=1.0, share=1.0, grid=1e-6)


def test_a_budget_that_needs_no_noise_is_refused() -> None:
    run = planned_run(schedule="ring", nodes=10, steps=10, skip=0.3, noise_multiplier=1.0)
    with pytest.raises(InvalidInput, match="next to no noise"):
        calibrate(forecast(run).with_noise, epsilon=1e12, delta=1e-6)


# With expanding maps the weighted noise grows without end; that must not make an update look free.
@pytest.mark.parametrize(("factor", "updates"), [(1.1, 3705), (1.25, 1586), (2.0, 510)])
def test_overflowing_noise_is_not_free(factor: float, updates: int) -> None:
    offered = [0] + [1] * updates
    assert account(offered, contraction=factor).mu(0, 2) >= exact(offered, 1.0, 10.0, factor) * (1 - 1e-9)


# Nor may it pool what must be charged apart.
@pytest.mark.parametrize("gap", [2600, 3000])
def test_overflowing_slopes_are_not_pooled(gap: int) -> None:
    offered = [0] + [1] * 50 + [0] + [1] * gap
    assert account(offered, contraction=1.1).mu(0, 2) >= exact(offered, 1.0, 10.0, 1.1) * (1 - 1e-9)


# The unit of the step size does not matter.
@pytest.mark.parametrize("unit", [5e-163, 1e-170, 1e-110, 1e110, 5e153])
def test_scale_free(unit: float) -> None:
    steps, noise = np.array([1.0, 2.0, 3.0, 1.0, 1.0]), [40.0, 20.0, 10.0, 10.0, 10.0]
    offered = [0, 0, 0, 1, 2]
    with np.errstate(all="ignore"):
        scaled = account(offered, step_sizes=unit * steps, noise_multiplier=noise).mu(0, 2)
    assert scaled >= account(offered, step_sizes=steps, noise_multiplier=noise).mu(0, 2) * (1 - 1e-9)


def test_coalition_is_never_nan() -> None:
    together = account([0] + [1] * 8000, contraction=1.1).mu(0, [2, 3])
    assert exact([0] + [1] * 400, 1.0, 10.0, 1.1) <= together <= 0.2 * (1 + 1e-9)


# Rounding adds up over ten million updates; what it may take away is given back.
@pytest.mark.parametrize("updates", [300_000, pytest.param(10_000_000, marks=pytest.mark.slow)])
def test_long_sum(updates: int) -> None:
    # a power of two would be summed exactly; 0.7 is rounded the wrong way for long, and is at both of these lengths
    noise = math.sqrt(0.7)
    offered = np.ones(updates, dtype=np.int64)
    offered[0] = 0
    assert account(offered, noise_multiplier=noise).mu(0, 2) >= 2.0 / noise / math.sqrt(updates)


def test_huge_mu() -> None:
    assert gdp_delta(1e9, 1e16) > 0.999
    assert gdp_epsilon(1e9, 1e-6) >= 5e17


def test_small_mu_at_epsilon_zero() -> None:
    assert gdp_delta(1e-17, 0.0) == pytest.approx(1e-17 / math.sqrt(2 * math.pi), rel=1e-9, abs=0.0)
    assert gdp_mu(0.0, 1e-20) <= 1e-20 * math.sqrt(2 * math.pi) * (1 + 1e-9)
    assert gdp_epsilon(1e-17, 1e-18) > 0.0


@pytest.mark.parametrize("target", [3, 7, -1])
def test_targets_are_checked(target: int) -> None:
    with pytest.raises(InvalidInput):
        OwnTranscript(3, target)


def test_lookers_are_checked() -> None:
    with pytest.raises(InvalidInput):
        OwnTranscript(3, 0).look(-1)


def test_lookers_beyond_the_last_are_checked() -> None:
    with pytest.raises(InvalidInput):
        OwnTranscript(3, 0).look(3)


@pytest.mark.parametrize("node", [True, 1.5])
def test_updaters_are_checked(node: Any) -> None:
    with pytest.raises(InvalidInput):
        OwnTranscript(3, 0).update(node, step_size=1.0, noise_multiplier=1.0)


# A record of what happened does not change afterwards, and leaves the caller's arrays alone.
def test_caller_arrays_stay_writable() -> None:
    updated, steps = np.array([True, True]), np.array([1.0, 1.0])
    Transcript(nodes=2, offered=[0, 1], updated=updated, step_sizes=steps, noise_multiplier=1.0)
    assert updated.flags.writeable
    assert steps.flags.writeable


def test_record_does_not_change() -> None:
    base = np.array([10.0, 10.0, 0.0])
    run = Transcript(nodes=2, offered=[0, 1], updated=[True, True], step_sizes=1.0, noise_multiplier=base[:2])
    base[0] = 1e6
    assert TranscriptAccountant(run).mu(0, 1) == pytest.approx(0.2)


def test_worst_of_nothing() -> None:
    assert account(np.zeros(0, int)).worst() == WorstPair(0.0, 0, 1)


# In doubles 1 - 1e-17 is 1; the paths with a skip must not vanish.
def test_tiny_skip_is_not_no_skip() -> None:
    run = planned_run(
        schedule="ring",
        nodes=3,
        steps=3,
        skip=1e-17,
        noise_multiplier=4.0,
        distance=2,
        position=1,
        step_size="constant",
    )
    epsilon = forecast(run).epsilon(1e-60)
    assert 0.99 * 1e-17 * gdp_delta(0.5, epsilon) <= 1e-60  # the path on which the middle node is skipped


@pytest.mark.parametrize(("trials", "probability"), [(10, 0.5), (1000, 0.9999)])
def test_the_largest_sum_is_counted_once(trials: int, probability: float) -> None:
    closed = BinomialLeakage(trials, probability)
    lattice = IndependentLeakage(closed.blocks(1.0))
    for delta in (1e-2, 1e-6, 1e-15, 1e-30):
        epsilon = closed.rough_epsilon(delta, 0.0356)
        assert lattice.delta(epsilon, 0.0356) <= closed.delta(epsilon, 0.0356) * 1.001


@pytest.mark.parametrize("changes", [{"schedule": "ring", "steps": 100}, {"schedule": "random-walk", "steps": 3}])
def test_composition_is_never_above_the_assumption_free_bound(changes: dict[str, Any]) -> None:
    run = planned_run(**changes, nodes=10, skip=0.3, noise_multiplier=4.0)
    two = Composition(forecast(run), forecast(run))
    plain = forecast(run.replace(steps=2 * run.steps, convex=False))
    assert two.delta(0.0) <= plain.delta(0.0) * (1.0 + 1e-6)
    assert two.epsilon(1e-5) <= plain.epsilon(1e-5) * (1.0 + 1e-6)


@pytest.mark.parametrize("steps", [30, 32, 34])
def test_epsilon_and_delta_are_inverse_on_short_walks(steps: int) -> None:
    run = planned_run(
        schedule="random-walk", nodes=10, steps=steps, skip=0.3, noise_multiplier=5.0, against="skipped-node"
    )
    account = forecast(run)
    assert account.delta(account.epsilon(1e-5)) >= 0.99e-5


@pytest.mark.parametrize("nodes", [10**5, 10**6])
def test_gap_law_keeps_its_claimed_precision(nodes: int) -> None:
    kinds = _HopKinds(1 / nodes, 1 / nodes, (nodes - 2) / nodes)
    hops, events = math.ceil(40 / kinds.event), 40
    starts, probabilities = _gap_law(hops, events, kinds)
    total = hops - events
    with mpmath.workdps(40):

        def tail(j: int) -> Any:
            return mpmath.fprod(mpmath.mpf(max(0, total - j + i)) / (total + i) for i in range(1, events + 1))

        for i in range(0, len(starts) - 1, 7):
            exact = tail(int(starts[i])) - tail(int(starts[i + 1]))
            assert probabilities[i] >= exact * (1 - mpmath.mpf("1e-9"))


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.uint64])
def test_numpy_integers_are_numbers_like_others(kind: type) -> None:
    run = planned_run(schedule="random-ring", nodes=kind(10), steps=10_000, skip=0.5, noise_multiplier=10.0)
    assert forecast(run).epsilon(1e-6) == pytest.approx(19.379, rel=1e-3)


# A text from a configuration file must not switch amplification on.
def test_convex_must_be_a_truth_value() -> None:
    with pytest.raises(ValueError, match="convex"):
        planned_run(schedule="random-ring", nodes=10, steps=100, skip=0.5, noise_multiplier=10.0, convex="False")


# The other accountants keep the same order: more noise, a larger delta or fewer steps never cost more.


def paper(**changes: Any) -> PaperBound:
    values: dict[str, Any] = {"schedule": "ring", "nodes": 20, "steps": 2000, "skip": 0.3, "noise_multiplier": 8.0}
    return PaperBound(planned_run(**(values | changes)), delta_prime=1e-6)


@pytest.mark.parametrize("schedule", ["ring", "random-ring", "random-walk"])
def test_the_papers_bounds_are_ordered(schedule: str) -> None:
    bound = paper(schedule=schedule)
    epsilon = bound.epsilon(1e-6)
    assert paper(schedule=schedule, noise_multiplier=9.0).epsilon(1e-6) < epsilon
    assert paper(schedule=schedule, steps=4000).epsilon(1e-6) > epsilon
    assert bound.epsilon(1e-5) < epsilon
    assert bound.delta(epsilon) == pytest.approx(1e-6, rel=1e-6)


def test_transcripts_are_ordered() -> None:
    rng = np.random.default_rng(5)
    offered, updated = rng.integers(0, 6, 300), rng.random(300) < 0.7

    def account_of(hops: int, noise: float, convex: bool = True) -> TranscriptAccountant:
        run = Transcript(
            nodes=6,
            offered=offered[:hops],
            updated=updated[:hops],
            step_sizes=1.0,
            noise_multiplier=noise,
            convex=convex,
        )
        return TranscriptAccountant(run)

    whole = account_of(300, 10.0)
    epsilon = whole.epsilon(1e-6)
    assert account_of(300, 11.0).epsilon(1e-6) < epsilon
    assert account_of(150, 10.0).epsilon(1e-6) < epsilon
    assert whole.epsilon(1e-5) < epsilon
    assert account_of(300, 10.0, convex=False).epsilon(1e-6) >= epsilon
    assert whole.delta(epsilon) == pytest.approx(1e-6, rel=1e-6)


# Extreme but legal numbers have an answer, and what cannot be computed is refused.


@pytest.mark.parametrize("schedule", ["ring", "random-ring", "random-walk"])
@pytest.mark.parametrize("noise", [0.01, 1e4, 1e9])
def test_noise_of_any_size(schedule: Any, noise: float) -> None:
    run = planned_run(schedule=schedule, nodes=5, steps=50, skip=0.3, noise_multiplier=noise)
    account = forecast(run)
    epsilon = account.epsilon(1e-6)
    assert account.delta(epsilon) <= 1e-6 * (1 + 1e-6)
    assert epsilon > 0.0 if noise < 1.0 else epsilon < 1e-2


@pytest.mark.parametrize("delta", [1e-15, 1e-30, 1e-74])
def test_delta_and_epsilon_agree_far_out(delta: float) -> None:
    account = forecast(planned_run(schedule="random-walk", nodes=1000, steps=24_000, skip=0.3, noise_multiplier=10.0))
    assert 0.9 * delta <= account.delta(account.epsilon(delta)) <= delta * (1 + 1e-6)


@pytest.mark.parametrize(
    ("changes", "parameter"),
    [
        ({"steps": 10**12}, "steps"),
        ({"nodes": 10**9, "steps": 10**9}, "nodes"),
        ({"schedule": "random-walk", "steps": 10**9}, "steps"),
        ({"noise_multiplier": 1e-3}, "noise_multiplier"),
        ({"noise_multiplier": 1e10}, "noise_multiplier"),
        ({"schedule": "ring", "distance": 2, "observers": 2}, "distance"),
        ({"skip": "0.5"}, "skip"),
    ],
)
def test_what_cannot_be_computed_is_refused(changes: dict[str, Any], parameter: str) -> None:
    values: dict[str, Any] = {
        "schedule": "random-ring",
        "nodes": 10,
        "steps": 100,
        "skip": 0.3,
        "noise_multiplier": 8.0,
    }
    with pytest.raises(InvalidInput) as refused:
        planned_run(**(values | changes))
    assert refused.value.parameter == parameter


def test_a_billion_steps_are_accounted_for() -> None:
    run = planned_run(schedule="random-ring", nodes=10, steps=10**9, skip=0.3, noise_multiplier=1000.0)
    plain = forecast(run.replace(convex=False)).epsilon(1e-6)
    assert 0.3 * plain < forecast(run).epsilon(1e-6) < plain
