"""Sums of whole numbers, against fractions: exact in any order, and no row moves them by more than it may."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from skipring.errors import InvalidInput
from skipring.learning.exact_sums import (
    MOMENT_GRID,
    MOST_ROWS,
    ROW_BITS,
    gradient_grid,
    gradient_sum,
    moment_sum,
    on_grid,
    require_range,
    rounded_share,
)


def some_rows(rows: int, columns: int, seed: int = 1) -> np.ndarray:
    drawn = np.random.default_rng(seed).normal(size=(rows, columns))
    return drawn / np.maximum(1.0, np.linalg.norm(drawn, axis=1))[:, None]


def test_sums_are_those_of_fractions() -> None:
    rows = some_rows(200, 5)
    cut = on_grid(rows)
    slopes = np.random.default_rng(2).normal(size=200) * 0.3
    found = gradient_sum(cut, slopes, 0.5)
    for column in range(5):
        exact = Fraction(0)
        for row in range(200):
            length = float(np.linalg.norm(cut[row])) / 2**ROW_BITS * abs(slopes[row])
            slope = slopes[row] * min(1.0, 0.5 * (1.0 - 1e-12) / length)
            exact += int(cut[row, column]) * Fraction(int(slope * 2**15))
        assert int(found[column]) == exact
    moments = moment_sum(cut)
    for at, (one, other) in enumerate(zip(*np.triu_indices(5), strict=True)):
        assert int(moments[at]) == sum(int(a) * int(b) for a, b in zip(cut[:, one], cut[:, other], strict=True))


def test_order_does_not_matter_where_single_precision_would_break_the_bound() -> None:
    """Rows in an adversary's order: large ones first, so that small ones are lost, or not."""
    rows = np.full((60_000, 2), 0.6)
    rows[1::2] *= -1.0
    rows[:, 1] = 2.0**-21 * 3.0
    cut, order = on_grid(rows), np.random.default_rng(3).permutation(len(rows))
    slopes = np.where(np.arange(len(rows)) % 2, 0.3, -0.3)
    assert np.array_equal(gradient_sum(cut, slopes, 0.5), gradient_sum(cut[order], slopes[order], 0.5))
    assert np.array_equal(moment_sum(cut), moment_sum(cut[order]))


@pytest.mark.parametrize("bound", [0.1, 0.5, 0.75, 1.0, 3.0])
def test_one_row_moves_a_sum_by_at_most_twice_its_bound(bound: float) -> None:
    rng = np.random.default_rng(5)
    for _ in range(200):
        columns = int(rng.integers(1, 9))
        rows = some_rows(50, columns, int(rng.integers(1 << 30)))
        slopes = rng.normal(size=50) * 10.0 ** rng.uniform(-3, 12)
        other, worse = rows.copy(), slopes.copy()
        other[7] = some_rows(1, columns, int(rng.integers(1 << 30)))[0] * 10.0 ** rng.uniform(-6, 0)
        worse[7] = rng.choice([np.inf, np.nan, -1e300, 1.0, -1.0])
        moved = gradient_sum(on_grid(rows), slopes, bound) - gradient_sum(on_grid(other), worse, bound)
        assert sum(int(step) ** 2 for step in moved) <= (2.0 * bound / gradient_grid(bound)) ** 2


@pytest.mark.parametrize("bound", [1e-300, 1e-165, 1e-100, 1e100])
def test_no_bound_is_too_small_or_too_large_for_squares(bound: float) -> None:
    cut, step = on_grid(np.array([[0.6, 0.8], [0.0, 0.0], [2.0**-20, 0.0]])), gradient_grid(bound)
    for slope in (bound * 100.0, 1e100, -1e300):
        for row in range(3):
            found = gradient_sum(cut[row : row + 1], np.array([slope]), bound)
            length = math.sqrt(sum(int(each) ** 2 for each in found)) * step
            assert length <= bound
            assert length >= (0.99 * bound if row == 0 else 0.0)
            assert row != 1 or not found.any()


@pytest.mark.parametrize("bound", [0.3, 0.5, 0.500001, 0.75, 1.0, 7.0])
def test_a_grid_leaves_room_for_as_many_rows_as_a_sum_may_have(bound: float) -> None:
    assert bound <= gradient_grid(bound) * 2.0**34 < 2.0 * bound
    assert MOST_ROWS * (bound / gradient_grid(bound)) <= 2.0**53


def test_a_row_that_is_not_finite_adds_nothing() -> None:
    for bad in (np.nan, np.inf, -np.inf):
        cut = on_grid(np.array([[0.6, bad], [0.6, 0.5]]))
        assert not cut[0].any()
        assert gradient_sum(cut, np.array([1.0, 0.0]), 1.0).tolist() == [0, 0]


def test_several_slopes_of_a_row_are_clipped_together() -> None:
    cut = on_grid(np.array([[0.6, 0.8]]))
    found = gradient_sum(cut, np.array([[3.0, -4.0]]), 0.5) * gradient_grid(0.5)
    assert np.linalg.norm(found) == pytest.approx(0.5, rel=1e-3)
    assert np.linalg.norm(found) <= 0.5
    assert found[0] / found[1] == pytest.approx(np.array([-0.75, -0.75]), rel=1e-3)


def test_moments_are_as_large_as_64_bits_hold() -> None:
    cut = on_grid(np.tile([[1.0, 0.0]], (MOST_ROWS, 1)))
    assert moment_sum(cut)[0] * MOMENT_GRID == MOST_ROWS


def test_a_share_of_noise_can_be_moved_by_whole_steps_before_or_after_rounding() -> None:
    noise = np.random.default_rng(1).normal(size=1000)
    for grid in (2.0**-34, 1.0, 8.0):
        share = rounded_share(noise, 5.0, grid)
        moved = np.floor(noise * (5.0 / grid) + 3.0 + 0.5).astype(np.int64)
        assert np.abs(moved - share - 3).max() <= (0 if grid >= 1.0 else 1)
    halves = rounded_share(np.array([-1.5, -0.5, 0.5, 1.5]), 1.0, 1.0)
    assert halves.tolist() == [-1, 0, 1, 2]


def test_what_is_not_exact_is_refused() -> None:
    with pytest.raises(InvalidInput, match="float64"):
        on_grid(some_rows(3, 2).astype(np.float32))
    with pytest.raises(InvalidInput, match="float64"):
        gradient_sum(on_grid(some_rows(3, 2)), np.ones(3, np.float32), 1.0)
    with pytest.raises(InvalidInput, match="row 2: must be of norm at most 1"):
        on_grid(np.array([[0.0, 0.0], [1.0, 0.1]]))
    with pytest.raises(InvalidInput, match="of norm at most 1"):
        on_grid(np.array([[1.0 + 2.0**-20, 0.0]]))
    on_grid(np.array([[1.0 + 2.0**-21, 0.0]]))  # which is cut to 1
    for add in (moment_sum, lambda cut: gradient_sum(cut, np.zeros(len(cut)), 1.0)):
        with pytest.raises(InvalidInput, match="add up several"):
            add(on_grid(np.zeros((MOST_ROWS + 1, 1))))
    with pytest.raises(InvalidInput, match="coarser grid"):
        rounded_share(np.ones(3), 2.0**20, 2.0**-34)
    with pytest.raises(InvalidInput, match="64 bits"):
        require_range(10**6, 1.0, 10.0, 2.0**-40, 100)
    with pytest.raises(InvalidInput, match="so much noise"):
        require_range(10, 1.0, 1e3, 2.0**-40, 2)
    with pytest.raises(InvalidInput, match="64 bits"):
        require_range(1, 1.0, 2.0**48, 1.0, 2000)
    require_range(1, 1.0, 2.0**48, 1.0, 1000)
    require_range(10**5, 1.0, 1e3, 2.0**-34, 100)
