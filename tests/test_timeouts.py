"""How long to wait for a node."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from skipring.delays import Delay, Empirical, Exponential, Gamma, Lomax, Mixture, Never, ScipyDelay, Shifted
from skipring.errors import InvalidInput
from skipring.timeouts import (
    TimeoutChoice,
    best_timeout,
    choose_timeout,
    expected_latency,
    skip_probability,
    time_between_updates,
    timeout_for_skip,
)

PAPER: dict[str, Delay] = {
    "exponential": Exponential(1.0),
    "gamma": Gamma(0.25, 1.0),
    "lomax": Lomax(3.0, 2.0),
}


# -- the paper's numbers ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("law", "timeout", "skip"),
    [("exponential", math.inf, 0.0), ("gamma", 0.00480, 0.70986), ("lomax", 0.21390, 0.73726)],
)
def test_the_best_timeouts_of_the_papers_laws(law: str, timeout: float, skip: float) -> None:
    choice = choose_timeout(PAPER[law], 0.01)
    assert choice.timeout == pytest.approx(timeout, abs=5e-6)
    assert choice.skip_probability == pytest.approx(skip, abs=5e-6)
    assert choice.time_between_updates == time_between_updates(PAPER[law], choice.timeout, 0.01)


@pytest.mark.parametrize(
    ("law", "timeouts"),
    [
        ("exponential", (9.21034, 0.69315, 0.35667)),
        ("gamma", (6.42831, 0.04367, 0.00549)),
        ("lomax", (41.0887, 0.51984, 0.25250)),
    ],
)
def test_the_timeouts_of_the_papers_skip_probabilities(law: str, timeouts: tuple[float, ...]) -> None:
    for skip, timeout in zip((1e-4, 0.5, 0.7), timeouts, strict=True):
        found = timeout_for_skip(PAPER[law], skip)
        assert found == pytest.approx(timeout, abs=6e-6 if timeout < 40 else 6e-5)
        assert skip_probability(PAPER[law], found) == pytest.approx(skip, rel=1e-10)


# -- latency ---------------------------------------------------------------------------------------


def test_latency_is_what_a_simulated_run_takes() -> None:
    # 200,000 simulated hops; five standard errors, so that a correct formula fails with probability 6e-7.
    law, timeout, hop_latency, steps = PAPER["gamma"], 0.3, 0.01, 200_000
    waits = np.minimum(law.sample(np.random.default_rng(5), steps), timeout) + hop_latency
    assert abs(waits.mean() - expected_latency(law, timeout, hop_latency, 1)) < 5 * waits.std() / math.sqrt(steps)
    assert expected_latency(law, timeout, hop_latency, 500) == 500 * expected_latency(law, timeout, hop_latency, 1)


def test_waiting_for_dead_nodes_takes_forever() -> None:
    law = Mixture([0.9, 0.1], [Exponential(1.0), Never()])
    assert expected_latency(law, math.inf, 0.01, 10) == math.inf
    assert time_between_updates(law, math.inf, 0.01) == math.inf
    assert best_timeout(law, 0.01) < 1.0


def test_no_update_ever_happens_before_the_first_node_is_ready() -> None:
    assert time_between_updates(Shifted(1.0, Exponential(1.0)), 0.5, 0.01) == math.inf


# -- the best timeout ------------------------------------------------------------------------------


def _bumps(*bumps: tuple[float, float, float]) -> Mixture:
    """Nodes of several narrow kinds: (weight, when, how narrow)."""
    return Mixture([w for w, _, _ in bumps], [Shifted(at, Gamma(4.0, width)) for _, at, width in bumps])


HARD: dict[str, tuple[Delay, float]] = {
    "the first of three minima": (_bumps((0.5, 0.1, 1e-3), (0.3, 5.0, 0.01), (0.2, 50.0, 0.1)), 0.01),
    "the second of three minima": (_bumps((0.05, 1.0, 1e-3), (0.65, 2.0, 1e-3), (0.3, 50.0, 1e-2)), 0.5),
    "the third of four minima": (
        _bumps((0.05, 0.1, 1e-4), (0.1, 0.3, 1e-3), (0.6, 1.0, 1e-4), (0.25, 30.0, 0.1)),
        1.0,
    ),
    "the last minimum, before dead nodes": (
        Mixture([0.9, 0.1], [_bumps((0.2, 0.5, 1e-3), (0.2, 1.0, 1e-3), (0.6, 2.0, 1e-4)), Never()]),
        2.0,
    ),
    "between atoms and a smooth law": (
        Mixture([0.3, 0.7], [Empirical([0.2, 0.4, 9.0]), Gamma(0.3, 2.0)]),
        0.2,
    ),
    "a rare quick kind in front": (_bumps((1e-3, 1e-3, 1e-6), (0.599, 1.0, 1e-3), (0.4, 40.0, 1.0)), 0.1),
    "a very heavy tail": (Lomax(0.2, 1.0), 3.0),
    "a law of scipy": (ScipyDelay(stats.lognorm(1.5)), 0.3),
}


def _minima(paces: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> list[int]:
    inner = (paces[1:-1] < paces[:-2]) & (paces[1:-1] <= paces[2:])
    return [int(i) + 1 for i in np.flatnonzero(inner)]


def _brute_force(law: Delay, hop_latency: float) -> tuple[list[int], float, float]:
    """Evaluate the objective on a very dense grid: its local minima, the best timeout and its pace."""
    low, high = max(law.quantile(1e-9), 1e-9), law.support[1]
    grid = np.geomspace(low, min(high, 1e4), 400_000)
    paces = (hop_latency + law.truncated_mean(grid)) / np.maximum(law.cdf(grid), 1e-300)
    best = int(np.argmin(paces))
    minima = _minima(paces)
    return [i for i in minima if i <= best], float(grid[best]), float(paces[best])


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", HARD)
def test_the_best_timeout_is_global(name: str) -> None:
    law, hop_latency = HARD[name]
    _, timeout, pace = _brute_force(law, hop_latency)
    choice = choose_timeout(law, hop_latency)
    assert choice.time_between_updates <= pace * (1.0 + 1e-12)
    assert choice.time_between_updates >= pace * (1.0 - 1e-4)
    assert choice.timeout == pytest.approx(timeout, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "place"),
    [("the first of three minima", 1), ("the second of three minima", 2), ("the third of four minima", 3)],
)
def test_the_hard_laws_are_as_hard_as_they_claim(name: str, place: int) -> None:
    minima, _, _ = _brute_force(*HARD[name])
    assert len(minima) == place


@settings(deadline=None, max_examples=40)
@given(
    durations=st.lists(st.floats(0.01, 100.0), min_size=1, max_size=30),
    flags=st.lists(st.booleans(), min_size=30, max_size=30),
    hop_latency=st.floats(1e-3, 10.0),
)
def test_for_measured_durations_the_best_timeout_is_one_of_them(
    durations: list[float], flags: list[bool], hop_latency: float
) -> None:
    censored = [False, *flags[: len(durations) - 1]]
    law = Empirical(durations, censored)
    finished = [d for d, late in zip(durations, censored, strict=True) if not late]
    paces = {d: time_between_updates(law, d, hop_latency) for d in [*finished, math.inf]}
    best = best_timeout(law, hop_latency)
    assert best in paces
    assert paces[best] <= min(paces.values()) * (1.0 + 1e-9)


@settings(deadline=None, max_examples=40)
@given(
    shape=st.floats(0.1, 0.9),
    scale=st.floats(0.01, 100.0),
    low=st.floats(1e-4, 1.0),
    factor=st.floats(1.1, 10.0),
)
def test_slower_hops_deserve_longer_timeouts(shape: float, scale: float, low: float, factor: float) -> None:
    law = Gamma(shape, scale)
    assert best_timeout(law, low) <= best_timeout(law, low * factor)


@settings(deadline=None, max_examples=25)
@given(unit=st.floats(1e-6, 1e6))
def test_the_best_timeout_does_not_depend_on_the_unit_of_time(unit: float) -> None:
    best = best_timeout(Lomax(3.0, 2.0), 0.01)
    assert best_timeout(Lomax(3.0, 2.0 * unit), 0.01 * unit) == pytest.approx(best * unit, rel=1e-6)


def test_a_delay_without_memory_or_bounded_above_needs_no_timeout() -> None:
    for law in (
        Exponential(3.0),
        Gamma(2.0, 1.0),
        ScipyDelay(stats.uniform(0.0, 1.0)),
        Empirical([2.0, 2.0]),
    ):
        for hop_latency in (0.0, 0.01, 100.0):
            assert best_timeout(law, hop_latency) == math.inf


def test_hop_latencies_far_from_the_delays() -> None:
    # To first order near 0: hop_latency shape / (1 - shape) for gamma, sqrt(2 hop_latency scale) for lomax.
    assert best_timeout(Gamma(0.25, 1.0), 1e-30) == pytest.approx(1e-30 / 3.0, rel=1e-5)
    assert best_timeout(Lomax(3.0, 2.0), 1e-20) == pytest.approx(math.sqrt(2.0 * 1e-20 * 2.0), rel=0.05)
    assert best_timeout(Exponential(1.0), 1e300) == math.inf
    # Here skipping one node in 1e12 costs less than rounding, although the mean is infinite.
    assert choose_timeout(Lomax(0.5, 1.0), 1e40).time_between_updates == pytest.approx(1e40, rel=1e-11)


@pytest.mark.parametrize("law", [Gamma(0.25, 1.0), Gamma(0.001, 1.0), Lomax(3.0, 2.0)])
def test_free_hops_make_the_best_timeout_vanish_which_is_refused(law: Delay) -> None:
    with pytest.raises(InvalidInput, match=r"hop_latency = 0.0: with .* the shorter the timeout the better"):
        best_timeout(law, 0.0)


def test_free_hops_are_fine_where_nobody_is_ready_at_once() -> None:
    law = Shifted(0.1, Gamma(0.25, 1.0))
    _, timeout, _ = _brute_force(law, 0.0)
    assert best_timeout(law, 0.0) == pytest.approx(timeout, rel=1e-3)


def test_nodes_that_are_ready_at_once_make_the_best_timeout_vanish_which_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"it is 0 with probability 0\.75"):
        best_timeout(Empirical([0.0, 0.0, 0.0, 100.0]), 0.01)
    assert best_timeout(Empirical([0.0, 0.0]), 0.01) == math.inf


# -- from a skip probability to a timeout ----------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(law=st.sampled_from(sorted(PAPER)), exponent=st.floats(-12.0, -0.01))
def test_timeout_and_skip_probability_are_inverse(law: str, exponent: float) -> None:
    skip = 10.0**exponent
    assert skip_probability(PAPER[law], timeout_for_skip(PAPER[law], skip)) == pytest.approx(skip, rel=1e-9)


def test_with_atoms_fewer_nodes_may_be_skipped_than_asked() -> None:
    law = Empirical([1.0, 2.0, 2.0, 2.0, 5.0])
    assert timeout_for_skip(law, 0.7) == 2.0
    assert skip_probability(law, 2.0) == pytest.approx(0.2)


def test_skipping_nobody_means_waiting_for_the_slowest() -> None:
    assert timeout_for_skip(Empirical([1.0, 4.0]), 0.0) == 4.0
    assert timeout_for_skip(Shifted(1.0, ScipyDelay(stats.uniform(0.0, 2.0))), 0.0) == 3.0
    assert timeout_for_skip(Exponential(1.0), 0.0) == math.inf


def test_dead_nodes_are_always_skipped() -> None:
    law = Mixture([0.9, 0.1], [Exponential(1.0), Never()])
    assert timeout_for_skip(law, 0.55) == pytest.approx(math.log(2.0))
    with pytest.raises(InvalidInput, match=r"skip = 0.05: .* never ready with probability 0.1; no timeout skips fewer"):
        timeout_for_skip(law, 0.05)


def test_skipping_only_the_dead_nodes_is_refused_where_it_means_waiting_forever() -> None:
    law = Mixture([0.9, 0.1], [Exponential(1.0), Never()])
    for unbounded in (law, Shifted(1.0, law)):
        with pytest.raises(
            InvalidInput, match=r"skip = 0.1: .* never ready with probability 0.1; only an endless wait"
        ):
            timeout_for_skip(unbounded, unbounded.mass_at_infinity)
    assert timeout_for_skip(law, 0.1 + 1e-9) == pytest.approx(math.log(0.9e9), rel=1e-6)
    assert timeout_for_skip(Empirical([1.0, 2.0, math.inf, math.inf]), 0.5) == 2.0
    assert timeout_for_skip(Mixture([0.75, 0.25], [Empirical([1.0, 3.0]), Never()]), 0.25) == 3.0


def test_a_skip_probability_that_only_a_timeout_of_zero_would_reach_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"ready at once with probability 0.75"):
        timeout_for_skip(Empirical([0.0, 0.0, 0.0, 1.0]), 0.5)


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize("skip", [1.0, -0.1, 1.5, math.nan])
def test_impossible_skip_probabilities_are_refused(skip: float) -> None:
    with pytest.raises(InvalidInput, match="skip"):
        timeout_for_skip(Exponential(1.0), skip)


@pytest.mark.parametrize("hop_latency", [-0.01, math.inf, math.nan])
def test_impossible_hop_latencies_are_refused(hop_latency: float) -> None:
    for ask in (best_timeout, choose_timeout):
        with pytest.raises(InvalidInput, match="hop_latency"):
            ask(Exponential(1.0), hop_latency)
    with pytest.raises(InvalidInput, match="hop_latency"):
        time_between_updates(Exponential(1.0), 1.0, hop_latency)
    with pytest.raises(InvalidInput, match="hop_latency"):
        expected_latency(Exponential(1.0), 1.0, hop_latency, 10)


@pytest.mark.parametrize("timeout", [0.0, -1.0, math.nan])
def test_impossible_timeouts_are_refused(timeout: float) -> None:
    with pytest.raises(InvalidInput, match="timeout"):
        skip_probability(Exponential(1.0), timeout)
    with pytest.raises(InvalidInput, match="timeout"):
        time_between_updates(Exponential(1.0), timeout, 0.01)
    with pytest.raises(InvalidInput, match="timeout"):
        expected_latency(Exponential(1.0), timeout, 0.01, 10)


@pytest.mark.parametrize("steps", [0, -5, 1.5])
def test_a_run_has_at_least_one_hop(steps: float) -> None:
    with pytest.raises(InvalidInput, match="steps"):
        expected_latency(Exponential(1.0), 1.0, 0.01, steps)  # type: ignore[arg-type]


def test_nobody_can_be_waited_for_if_all_are_dead() -> None:
    with pytest.raises(InvalidInput, match="delay = never: no node is ever ready"):
        best_timeout(Never(), 0.01)


def test_a_choice_is_a_plain_record() -> None:
    assert choose_timeout(Exponential(1.0), 0.01) == TimeoutChoice(math.inf, 0.0, 1.01)


# -- start-up --------------------------------------------------------------------------------------


def test_the_best_timeout_is_found_without_loading_slow_packages() -> None:
    script = (
        "import sys; from skipring.timeouts import best_timeout; from skipring.delays import parse_delay; "
        "best_timeout(parse_delay('gamma:0.25,1'), 0.01); "
        "print([m for m in ('scipy.stats', 'scipy.optimize', 'scipy.integrate', 'numba', 'matplotlib') "
        "if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
