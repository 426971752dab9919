"""Gaussian conversions: against 60 digits of mpmath, dp-accounting, and each other."""

from __future__ import annotations

import math
from typing import Any

import dp_accounting
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipring.errors import InvalidInput
from skipring.privacy.gaussian import gdp_delta, gdp_epsilon, gdp_mu

DIGITS = 60
DELTAS = (0.3, 1e-2, 1e-6, 1e-12, 1e-30, 1e-50, 1e-75)
ORDERS = np.concatenate([1.0 + np.geomspace(0.02, 1.0, 30), np.geomspace(2.05, 1e4, 120)])


def delta_by_mpmath(mu: float, epsilon: float) -> Any:
    """Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), in which 60 digits survive any cancellation met here."""
    with mpmath.workdps(DIGITS):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        root = mpmath.sqrt(2)
        return (mpmath.erfc((e / m - m / 2) / root) - mpmath.exp(e) * mpmath.erfc((e / m + m / 2) / root)) / 2


def mu_at(epsilon: float, deviations: float) -> float:
    """The mu for which epsilon lies this many standard deviations above the mean privacy loss."""
    square = math.sqrt(deviations**2 + 2.0 * epsilon)
    return square - deviations if deviations < 0.0 else 2.0 * epsilon / (square + deviations)


def test_delta_has_ten_digits_from_epsilon_1e_6_to_1e3_and_down_to_1e_300() -> None:
    reached = 1.0
    for epsilon in np.geomspace(1e-6, 1e3, 28).tolist():
        for deviations in np.linspace(-9.0, 37.0, 60).tolist():
            mu = mu_at(epsilon, deviations)
            exact = delta_by_mpmath(mu, epsilon)
            if exact < 1e-300:
                continue
            reached = min(reached, float(exact))
            assert abs(gdp_delta(mu, epsilon) / exact - 1) < 1e-10, (mu, epsilon)
    assert reached < 1e-290


def test_delta_has_ten_digits_where_the_series_for_small_mu_takes_over() -> None:
    for mu in (1e-9, 1e-6, 5e-4, 9.99999e-4, 1e-3, 1.00001e-3, 2e-3):
        for deviations in np.linspace(0.0, 36.5, 40).tolist():
            epsilon = mu * (deviations + 0.5 * mu)
            assert abs(gdp_delta(mu, epsilon) / delta_by_mpmath(mu, epsilon) - 1) < 1e-10, (mu, epsilon)


def test_delta_at_epsilon_zero_is_the_total_variation_distance() -> None:
    for mu in np.geomspace(1e-3, 30.0, 40).tolist():
        assert gdp_delta(mu, 0.0) == pytest.approx(math.erf(mu / math.sqrt(8.0)), rel=1e-11, abs=0.0)


def test_delta_of_many_mu_is_delta_of_each() -> None:
    mus = np.concatenate([[0.0], np.geomspace(1e-6, 100.0, 59)]).reshape(6, 10)
    for epsilon in (0.0, 0.1, 7.0):
        together = gdp_delta(mus, epsilon)
        assert together.shape == mus.shape
        assert [gdp_delta(mu, epsilon) for mu in mus.ravel().tolist()] == together.ravel().tolist()


def test_delta_at_the_ends() -> None:
    assert gdp_delta(0.0, 0.0) == gdp_delta(0.0, 1.0) == 0.0
    assert gdp_delta(1e-290, 1.0) == 0.0
    assert gdp_delta(1e4, 1.0) == gdp_delta(math.inf, 1.0) == 1.0


@given(st.floats(1e-3, 1e2), st.floats(1.0, 2.0), st.floats(0.0, 1e3), st.floats(1.0, 2.0))
def test_delta_grows_with_mu_and_falls_with_epsilon(mu: float, factor: float, epsilon: float, raise_by: float) -> None:
    delta = gdp_delta(mu, epsilon)
    assert 0.0 <= delta <= 1.0
    assert gdp_delta(mu * factor, epsilon) >= delta * (1.0 - 1e-10)
    assert gdp_delta(mu, epsilon * raise_by) <= delta * (1.0 + 1e-10)


@pytest.mark.parametrize("delta", DELTAS)
def test_epsilon_is_never_too_small_and_is_the_smallest(delta: float) -> None:
    for mu in np.geomspace(1e-5, 1e3, 33).tolist():
        epsilon = gdp_epsilon(mu, delta)
        assert gdp_delta(mu, epsilon) <= delta  # rounded up
        if epsilon == 0.0:
            assert delta_by_mpmath(mu, 0.0) <= delta * (1 + 1e-9)
            continue
        assert delta_by_mpmath(mu, epsilon) <= delta * (1 + 1e-9), mu
        assert delta_by_mpmath(mu, epsilon * (1.0 - 1e-8)) >= delta, mu


@pytest.mark.parametrize("delta", DELTAS)
def test_mu_is_never_too_large_and_is_the_largest(delta: float) -> None:
    for epsilon in np.geomspace(1e-6, 1e3, 28).tolist():
        mu = gdp_mu(epsilon, delta)
        assert gdp_delta(mu, epsilon) <= delta  # rounded down
        assert delta_by_mpmath(mu, epsilon) <= delta * (1 + 1e-9), epsilon
        assert delta_by_mpmath(mu * (1.0 + 1e-8), epsilon) >= delta, epsilon


@given(st.floats(-5.0, 3.0), st.floats(-74.9, -0.7))
def test_epsilon_undoes_mu(log_epsilon: float, log_delta: float) -> None:
    epsilon, delta = 10.0**log_epsilon, 10.0**log_delta
    mu = gdp_mu(epsilon, delta)
    assert gdp_delta(mu, epsilon) == pytest.approx(delta, rel=1e-9, abs=0.0)
    assert gdp_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-8, abs=0.0)


def test_epsilon_is_zero_where_the_distance_is_below_delta() -> None:
    assert gdp_epsilon(0.0, 1e-6) == 0.0
    assert gdp_epsilon(0.1, 0.05) == 0.0
    assert gdp_epsilon(0.1, 0.039) > 0.0


def test_dp_accounting_finds_the_same_epsilon_and_noise() -> None:
    for delta in (0.1, 1e-3, 1e-6, 1e-10, 1e-15):
        for mu in np.geomspace(0.01, 50.0, 15).tolist():
            judge = dp_accounting.get_epsilon_gaussian(1.0 / mu, delta)
            assert gdp_epsilon(mu, delta) == pytest.approx(judge, rel=1e-8, abs=1e-9)
        for epsilon in np.geomspace(0.01, 100.0, 15).tolist():
            noise = dp_accounting.get_sigma_gaussian(epsilon, delta)
            assert 1.0 / gdp_mu(epsilon, delta) == pytest.approx(noise, rel=1e-8, abs=0.0)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-6, 1.5, math.nan, math.inf])
def test_a_delta_outside_the_unit_interval_is_refused(delta: float) -> None:
    with pytest.raises(InvalidInput, match="delta"):
        gdp_epsilon(1.0, delta)
    with pytest.raises(InvalidInput, match="delta"):
        gdp_mu(1.0, delta)


@pytest.mark.parametrize("epsilon", [-1e-9, math.nan, math.inf, -math.inf])
def test_a_negative_or_infinite_epsilon_is_refused(epsilon: float) -> None:
    with pytest.raises(InvalidInput, match="epsilon"):
        gdp_delta(1.0, epsilon)
    with pytest.raises(InvalidInput, match="epsilon"):
        gdp_mu(epsilon, 1e-6)


@pytest.mark.parametrize("mu", [-1e-9, math.nan, -math.inf])
def test_a_negative_mu_is_refused(mu: float) -> None:
    with pytest.raises(InvalidInput, match="mu"):
        gdp_delta(mu, 1.0)
    with pytest.raises(InvalidInput, match="mu"):
        gdp_delta(np.array([1.0, mu]), 1.0)
    with pytest.raises(InvalidInput, match="mu"):
        gdp_epsilon(mu, 1e-6)


def test_an_epsilon_beyond_all_use_ends_the_search_for_its_mu() -> None:
    assert gdp_mu(1e200, 1e-5) < gdp_mu(1e300, 1e-5) < 1e151
