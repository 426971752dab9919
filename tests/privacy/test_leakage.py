"""Laws of the leakage: bounds of E[F(X)] against exact sums, down to delta = 1e-200, and what they are made of."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from skipring._binomial import (
    _chernoff_floor,
    binomial_floor,
    binomial_floors,
    binomial_pmf,
    binomial_tails,
)
from skipring.privacy import gdp_delta
from skipring.privacy._rings import _Groups
from skipring.privacy._step_sizes import group_starts, share
from skipring.privacy.leakage import BinomialLeakage, Block, IndependentLeakage, Terms, convex_majorant

Floats = NDArray[np.float64]
Law = dict[float, float]


def exact_gdp_delta(mu: Any, epsilon: Any) -> Any:
    if mu == 0:
        return mpmath.mpf(0)
    return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def exact_sum(rounds: list[Law]) -> dict[Any, Any]:
    """The law of a sum of independent rounds, atom by atom in exact-enough arithmetic."""
    total: dict[Any, Any] = {mpmath.mpf(0): mpmath.mpf(1)}
    for law in rounds:
        atoms = [(mpmath.mpf(value), mpmath.mpf(chance)) for value, chance in law.items()]
        atoms.append((mpmath.mpf(0), 1 - sum(chance for _, chance in atoms)))
        longer: defaultdict[Any, Any] = defaultdict(mpmath.mpf)
        for (at, mass), (value, chance) in itertools.product(total.items(), atoms):
            longer[at + value] += mass * chance
        total = dict(longer)
    return total


def exact_delta(law: dict[Any, Any], epsilon: float, release: float) -> Any:
    return mpmath.fsum(
        mass * exact_gdp_delta(mpmath.sqrt(x * mpmath.mpf(release)), mpmath.mpf(epsilon)) for x, mass in law.items()
    )


def one_round(law: Law, repeats: int = 1) -> Block:
    return Block.single(np.array(list(law)), np.array(list(law.values())), repeats)


RARE_AND_LARGE: Law = {1.0: 1e-3, 0.37: 0.02, 0.11: 0.3, 0.004: 0.4}
IRREGULAR: Law = {0.9137: 0.05, 0.5771: 0.1, 0.3141: 0.15, 0.2718: 0.2, 0.0161: 0.3, 3e-7: 0.1}


@pytest.mark.parametrize(
    ("rounds", "release"),
    [
        ([RARE_AND_LARGE] * 6, 0.04),
        ([RARE_AND_LARGE] * 6, 1.0),
        ([IRREGULAR] * 3, 0.3),
        ([IRREGULAR, RARE_AND_LARGE, IRREGULAR, RARE_AND_LARGE], 0.02),
        ([{0.5: 0.5}] * 12, 0.1),
    ],
)
def test_bound_is_above_the_exact_sum_and_near_it(rounds: list[Law], release: float) -> None:
    with mpmath.workdps(60):
        truth = exact_sum(rounds)
        law = IndependentLeakage([one_round(part) for part in rounds])
        # No smaller delta than 1e-75 is ever stated; the laws are as good beyond it.
        for target, further in ((1e-2, 1), (1e-4, 1), (1e-9, 1), (1e-20, 1), (1e-60, 1), (1e-75, 1), (1e-75, 1.6)):
            epsilon = further * law.rough_epsilon(target, release)
            bound, exact = law.delta(epsilon, release), exact_delta(truth, epsilon, release)
            assert bound >= exact
            if target >= 1e-20:
                assert bound <= exact * 1.01
            # Deeper in the tail the grid of values costs more, as a factor of delta, but next to nothing of epsilon.
            assert bound <= exact_delta(truth, 0.99 * epsilon, release)


def test_bound_holds_for_mixtures_of_sums() -> None:
    """With probability 0.3 no term, 0.5 one of the first law, 0.2 two of the second; two such rounds."""
    first: Law = {0.6: 0.2, 0.05: 0.7}
    second: Law = {0.9: 0.1, 0.2: 0.5}

    def terms(law: Law, fewest: int, counts: list[float]) -> Terms:
        return Terms(np.array(list(law)), np.array(list(law.values())), fewest, np.array(counts))

    block = Block((terms(first, 0, [0.3, 0.5]), terms(second, 2, [0.2])), repeats=2)
    law = IndependentLeakage([block])
    with mpmath.workdps(60):
        once: defaultdict[Any, Any] = defaultdict(mpmath.mpf)
        for weight, rounds in ((0.3, []), (0.5, [first]), (0.2, [second, second])):
            for value, mass in exact_sum(rounds).items():
                once[value] += mpmath.mpf(weight) * mass
        twice: defaultdict[Any, Any] = defaultdict(mpmath.mpf)
        for (a, p), (b, r) in itertools.product(once.items(), once.items()):
            twice[a + b] += p * r
        for target, further in ((1e-2, 1), (1e-6, 1), (1e-30, 1), (1e-75, 1.5)):
            epsilon = further * law.rough_epsilon(target, 0.2)
            bound, exact = law.delta(epsilon, 0.2), exact_delta(twice, epsilon, 0.2)
            assert exact <= bound <= exact_delta(twice, 0.99 * epsilon, 0.2)
        mean = sum(value * mass for value, mass in twice.items())
        assert law.mean == pytest.approx(float(mean), rel=1e-12)
        theta = np.array([0.0, 0.3, 2.0, 40.0, 900.0])
        exact_mgf = [float(mpmath.log(sum(m * mpmath.exp(t * x) for x, m in twice.items()))) for t in theta.tolist()]
        assert np.all(law.log_mgf(theta) >= np.array(exact_mgf) * (1.0 - 1e-12))


def test_failure_is_part_of_delta() -> None:
    law = IndependentLeakage([one_round(IRREGULAR, 5)], failure=1e-5)
    without = IndependentLeakage([one_round(IRREGULAR, 5)])
    assert law.delta(1.0, 0.1) == pytest.approx(without.delta(1.0, 0.1) + 1e-5, rel=1e-12)
    assert law.delta(100.0, 0.1) >= 1e-5


@pytest.mark.parametrize(
    ("trials", "probability", "release", "within"),
    [
        (100, 0.3, 0.0356, 1e-3),
        (10**4, 0.5, 0.0356, 1e-3),
        (10**5, 0.5, 2e-5, 1e-3),
        (10**5, 1e-3, 0.0356, 1e-3),
        (10**6, 1e-5, 0.0356, 1e-3),
        (10**6, 0.1, 1e-5, 1e-3),
        (10**6, 0.5, 2e-6, 1e-3),
        # Half a million releases: the lattice is coarse against the distance of two counts.
        (10**6, 0.5, 0.0356, 2e-2),
    ],
)
def test_long_sums_lose_nothing_against_the_binomial_law(
    trials: int, probability: float, release: float, within: float
) -> None:
    closed_form = BinomialLeakage(trials, probability)
    by_lattice = IndependentLeakage(closed_form.blocks(1.0))
    for target in (1e-2, 1e-6, 1e-15, 1e-30):
        epsilon = closed_form.rough_epsilon(target, release)
        exact = closed_form.delta(epsilon, release)
        assert exact * (1.0 - 1e-9) <= by_lattice.delta(epsilon, release) <= exact * (1.0 + within)


def test_binomial_leakage_is_the_finite_sum() -> None:
    with mpmath.workdps(60):
        for trials, probability in ((3, 0.1), (40, 0.7), (200, 1e-3)):
            q = mpmath.mpf(probability)
            law = {
                mpmath.mpf(k): mpmath.binomial(trials, k) * q**k * (1 - q) ** (trials - k) for k in range(trials + 1)
            }
            account = BinomialLeakage(trials, probability)
            for epsilon in (0.0, 0.3, 3.0, 12.0):
                exact = exact_delta(law, epsilon, 0.5)
                assert exact <= account.delta(epsilon, 0.5) <= exact * (1 + 2e-9)
            for theta in (0.0, 0.5, 5.0, 700.0, 2000.0):
                log_mgf = float(mpmath.log(1 - q + q * mpmath.exp(theta)) * trials)
                assert account.log_mgf(np.array([theta]))[0] == pytest.approx(log_mgf, rel=1e-12, abs=1e-300)


@settings(max_examples=60, deadline=None)
@given(
    epsilon=st.one_of(st.just(0.0), st.just(1e-9), st.floats(1e-12, 60.0)),
    release=st.floats(1e-4, 16.0),
    near=st.one_of(st.just(0.0), st.floats(1e-6, 1e4)),
)
def test_majorant_is_convex_nondecreasing_and_above(epsilon: float, release: float, near: float) -> None:
    majorant = convex_majorant(epsilon, release, near)
    inflection = 2.0 * epsilon**2 / (1.0 + math.sqrt(1.0 + epsilon**2)) / release
    for reach in (inflection, 3.0 * inflection, near, 20.0 * (near + inflection), 1e-9, 1.0, 500.0):
        if reach == 0.0:
            continue
        x = np.linspace(0.0, reach, 1501)
        values = majorant(x)
        assert np.all(values >= gdp_delta(np.sqrt(x * release), epsilon))
        assert np.all(np.isfinite(values))
        assert np.all(values >= 0.0)
        slack = 1e-10 * float(values.max()) + 1e-300  # deltas have their digits down to there
        assert np.all(np.diff(values) >= -slack)
        assert np.all(np.diff(values, 2) >= -slack)


# ---------------------------------------------------------------------------------- the share of an update


def test_share_is_the_ratio_of_step_sizes() -> None:
    with mpmath.workdps(60):
        for update in (1, 2, 7, 59, 60, 61, 62, 1000, 10**6, 10**9, 10**12):
            for noises in (1, 2, 3, 50, 10**3, 10**6, 10**12):
                c, h = mpmath.mpf(update), mpmath.mpf(noises)
                exact = 1 / (c * (mpmath.digamma(c + h) - mpmath.digamma(c)))
                value = float(share(np.array(float(update)), np.array(float(noises)), "sqrt"))
                # Never below, but for the rounding of the largest value, 1.
                assert exact * (1 - mpmath.mpf(2) ** -52) <= value <= exact * (1 + mpmath.mpf("2e-11"))


def test_share_by_adding_up_the_noise() -> None:
    for update, noises in ((1, 1), (1, 9), (5, 4), (58, 7), (200, 30)):
        sizes = [1.0 / (update + i) for i in range(noises)]
        value = float(share(np.array(float(update)), np.array(float(noises)), "sqrt"))
        assert value == pytest.approx(sizes[0] / math.fsum(sizes), rel=2e-11)
        assert float(share(np.array(float(update)), np.array(float(noises)), "constant")) == 1.0 / noises


def test_share_falls_with_the_update_number_and_with_the_noises() -> None:
    grid = share(np.arange(1.0, 200.0)[:, None], np.arange(1.0, 100.0), "sqrt")
    assert np.all(np.diff(grid, axis=0) <= 3e-11)
    assert np.all(np.diff(grid, axis=1) < 0.0)
    assert np.all(grid <= 1.0)


@given(length=st.integers(1, 5000), exact=st.integers(1, 100), ratio=st.floats(1.0, 1.5))
def test_groups_cover_everything_once(length: int, exact: int, ratio: float) -> None:
    starts = group_starts(length, exact, ratio)
    assert starts[0] == 0
    assert starts[-1] < length
    assert np.all(np.diff(starts) >= 1)
    assert np.array_equal(starts[: min(length, exact)], np.arange(min(length, exact)))


@pytest.mark.parametrize(("nodes", "ready"), [(2, 0.3), (3, 1.0), (5, 0.5), (8, 0.05)])
def test_groups_of_a_round_have_the_law_of_random_slots(nodes: int, ready: float) -> None:
    """Draw the two slots and who takes part in all ways: numbers before, between and after."""
    joint: defaultdict[tuple[int, ...], float] = defaultdict(float)
    slots = list(itertools.combinations(range(nodes), 2))
    for first, second in slots:
        sizes = (first, second - first - 1, nodes - 1 - second)
        for counts in itertools.product(*(range(size + 1) for size in sizes)):
            chance = math.prod(stats.binom.pmf(k, size, ready) for k, size in zip(counts, sizes, strict=True))
            joint[counts] += float(chance) / len(slots)
    groups = _Groups(nodes, ready)
    for (before, between, after), chance in joint.items():
        assert chance == pytest.approx(groups.composition[before + between + after], rel=1e-9, abs=1e-15)
    for k in range(nodes - 1):
        assert groups.one[k] == pytest.approx(sum(c for i, c in joint.items() if i[0] == k), rel=1e-9, abs=1e-15)
        pair = sum(chance for counts, chance in joint.items() if counts[0] + counts[1] == k)
        assert groups.sum_of_two[k] == pytest.approx(pair, rel=1e-9, abs=1e-15)
        assert groups.two[k] == pytest.approx(sum(c for i, c in joint.items() if i[:2] == (k, 0)), rel=1e-9, abs=1e-15)


# --------------------------------------------------------------------------------------- binomial laws


@pytest.mark.parametrize(("trials", "probability"), [(1, 0.5), (30, 0.999), (400, 1e-4), (2000, 0.5), (3000, 1e-9)])
def test_binomial_law_to_many_digits(trials: int, probability: float) -> None:
    first, pmf = binomial_pmf(trials, probability)
    with mpmath.workdps(50):
        q = mpmath.mpf(probability)
        for i in range(0, len(pmf), max(1, len(pmf) // 40)):
            k = first + i
            exact = mpmath.binomial(trials, k) * q**k * (1 - q) ** (trials - k)
            assert float(pmf[i]) == pytest.approx(float(exact), rel=1e-11, abs=1e-307)
    assert pmf.sum() == pytest.approx(1.0, abs=1e-13)
    assert first + len(pmf) <= trials + 1


def test_binomial_law_of_many_trials_against_its_ratios() -> None:
    """A million trials: log-gamma differences would lose nine digits; neighbouring terms keep their exact ratio."""
    first, pmf = binomial_pmf(10**6, 0.3)
    with mpmath.workdps(50):
        for k in (290_000, 299_000, 300_000, 301_234, 310_000):
            exact = mpmath.binomial(10**6, k) * mpmath.mpf(0.3) ** k * (1 - mpmath.mpf(0.3)) ** (10**6 - k)
            assert float(pmf[k - first]) == pytest.approx(float(exact), rel=1e-10)


def test_certain_outcomes() -> None:
    assert binomial_pmf(5, 0.0)[0] == 0
    assert binomial_pmf(5, 1.0)[0] == 5
    assert binomial_pmf(0, 0.4)[1].tolist() == [1.0]
    assert binomial_floor(7, 1.0, 1e-9) == 7
    assert binomial_floor(7, 0.0, 1e-9) == 0


@pytest.mark.parametrize(("trials", "probability"), [(1, 0.2), (25, 0.9), (500, 0.01), (20_000, 0.5)])
def test_binomial_tails(trials: int, probability: float) -> None:
    tails = binomial_tails(trials, probability)
    k = np.arange(trials + 2)
    assert len(tails) == trials + 2
    assert np.all(np.diff(tails) <= 0.0)
    assert np.allclose(tails, stats.binom.sf(k - 1, trials, probability), rtol=1e-8, atol=1e-290)


@given(
    trials=st.integers(1, 3000),
    probability=st.floats(1e-6, 1.0 - 1e-6),
    log_failure=st.floats(-40.0, -0.5),
)
def test_floor_is_the_largest_that_keeps_its_promise(trials: int, probability: float, log_failure: float) -> None:
    failure = 10.0**log_failure
    floor = binomial_floor(trials, probability, failure)
    assert stats.binom.cdf(floor - 1, trials, probability) <= failure * (1.0 + 1e-7)
    if floor < trials:
        assert stats.binom.cdf(floor, trials, probability) >= failure * (1.0 - 1e-7)
    assert binomial_floors(trials, probability, np.array([failure]))[0] == floor


@pytest.mark.parametrize("failure", [1e-3, 1e-9, 1e-40, 1e-250])
@pytest.mark.parametrize("probability", [1e-6, 0.01, 0.5, 0.9999])
@pytest.mark.parametrize("trials", [10**6 + 1, 10**8, 10**11])
def test_floor_of_many_trials_keeps_its_promise_by_chernoff(trials: int, probability: float, failure: float) -> None:
    floor = binomial_floor(trials, probability, failure)
    assert floor == _chernoff_floor(trials, probability, failure)
    if floor == 0:
        assert trials * -math.log1p(-probability) <= -math.log(failure) * 1.01
        return
    with mpmath.workdps(50):
        x, q = mpmath.mpf(floor - 1) / trials, mpmath.mpf(probability)
        divergence = (x * mpmath.log(x / q) if x else 0) + (1 - x) * mpmath.log((1 - x) / (1 - q))
        assert x < q
        assert mpmath.exp(-trials * divergence) <= failure
    # ... and it is not far below the quantile: Chernoff loses about half a standard deviation there.
    deviation = math.sqrt(trials * probability * (1.0 - probability))
    assert floor >= stats.binom.ppf(max(failure, 1e-300), trials, probability) - deviation - 2.0
