"""Extreme and broken inputs of the accountants: the bound is never too small, and nonsense is refused."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest

from skipring.errors import InvalidInput
from skipring.privacy.gaussian import gdp_delta, gdp_epsilon, gdp_mu, rdp_epsilon
from skipring.privacy.transcript import RunningTranscript, Transcript, TranscriptAccountant


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
def test_long_sum() -> None:
    # a power of two would be summed exactly; 0.7 is rounded the wrong way for long
    updates, noise = 10_000_000, math.sqrt(0.7)
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


@pytest.mark.parametrize(("alpha", "rdp"), [([2.0], [math.nan]), ([2.0, math.inf], [5.0, 5.0]), ([2.0], [-50.0])])
def test_rubbish_is_not_turned_into_epsilon_0(alpha: list[float], rdp: list[float]) -> None:
    with pytest.raises(InvalidInput):
        rdp_epsilon(alpha, rdp, 1e-6)


@pytest.mark.parametrize("target", [3, 7, -1])
def test_targets_are_checked(target: int) -> None:
    with pytest.raises(InvalidInput):
        RunningTranscript(3, target=target)


def test_lookers_are_checked() -> None:
    with pytest.raises(InvalidInput):
        RunningTranscript(3).look(-1)


def test_lookers_beyond_the_last_are_checked() -> None:
    with pytest.raises(InvalidInput):
        RunningTranscript(3).look(3)


@pytest.mark.parametrize("node", [True, 1.5])
def test_updaters_are_checked(node: Any) -> None:
    with pytest.raises(InvalidInput):
        RunningTranscript(3).update(node, step_size=1.0, noise_multiplier=1.0)


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
    assert account(np.zeros(0, int)).worst() == RunningTranscript(4).worst()
