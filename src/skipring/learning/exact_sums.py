"""Sums over rows as whole numbers: the same in any order, on any machine, and no unit moves them further by rounding.

Sums of floating-point numbers depend on their order, so that one row can move a sum by more than its own contribution.
In single precision that is twice as much, over 65,536 rows. Rows and slopes are cut to a grid first, towards 0, which
makes no row longer. Their products are then whole numbers of grid steps that a double holds, whatever their order.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .._arrays import Doubles, Floats
from ..errors import InvalidInput

#: Rows are cut to multiples of 2^-20, and slopes to multiples of 2^-14 of their bound's power of two.
ROW_BITS, SLOPE_BITS = 20, 14
#: Half of a row's bits: sums of products of halves are whole numbers that a double holds.
_HALF = ROW_BITS // 2
#: With more rows a sum of products might not fit into a double.
MOST_ROWS = 1 << (53 - ROW_BITS - SLOPE_BITS)
#: With a larger deviation, steps between neighbouring normal numbers in double precision come near the grid's own.
MOST_STEPS = 2.0**48

Whole = NDArray[np.int64]


def on_grid(rows: Floats) -> Doubles:
    """Return rows of norm at most 1 in steps of 2^-20, cut towards 0; a row that is not finite becomes 0.

    >>> on_grid(np.array([[0.5, -0.25], [np.nan, 0.1]])).tolist()
    [[524288.0, -262144.0], [0.0, 0.0]]
    """
    require_double("rows", rows)
    usable = np.asarray(np.isfinite(rows).all(axis=1))
    cut = np.trunc(np.ldexp(np.where(usable[:, None], rows, 0.0), ROW_BITS))
    too_long = np.einsum("ij,ij->i", cut, cut) > 4.0**ROW_BITS
    if too_long.any():
        raise InvalidInput("rows", f"row {int(np.flatnonzero(too_long)[0]) + 1}", "of norm at most 1")
    return cut


def gradient_grid(bound: float) -> float:
    """Return the step of a sum of gradients whose rows are clipped to a bound: a power of two.

    >>> gradient_grid(0.5) == 2.0**-35
    True
    """
    return math.ldexp(1.0, _exponent(bound) - ROW_BITS - SLOPE_BITS)


def gradient_sum(cut: Doubles, slopes: Floats, bound: float) -> Whole:
    """Return the sum over rows of slope times row, each of norm at most `bound`, in steps of `gradient_grid`.

    `cut` is what `on_grid` returned; `slopes` has a number for each row, or several. Slopes that would make a row's
    contribution too long are made smaller, and those that are not finite are 0.

    >>> cut = on_grid(np.array([[0.6, 0.8], [1.0, 0.0]]))
    >>> (gradient_sum(cut, np.array([-3.0, 0.5]), 1.0) * gradient_grid(1.0)).round(3).tolist()
    [-0.1, -0.8]
    """
    require_double("slopes", slopes)
    _require_few(cut)
    several = slopes if slopes.ndim == 2 else slopes[:, None]
    usable = np.asarray(np.isfinite(several).all(axis=1))
    # In units of a power of two above the bound: squares of numbers near 1 neither vanish nor overflow.
    with np.errstate(over="ignore"):
        several = np.ldexp(np.where(usable[:, None], several, 0.0), -_exponent(bound))
    several, bound = np.clip(several, -1e100, 1e100), math.ldexp(bound, -_exponent(bound))
    lengths = np.ldexp(np.sqrt(np.einsum("ij,ij->i", cut, cut)), -ROW_BITS) * np.linalg.norm(several, axis=1)
    # A hair less than the bound, so that rounding in these products cannot exceed it.
    shorter = np.minimum(1.0, bound * (1.0 - 1e-12) / np.maximum(lengths, 1e-300))
    steps = np.trunc(np.ldexp(several * shorter[:, None], SLOPE_BITS))
    whole: Whole = (cut.T @ steps).T.astype(np.int64)
    return whole if slopes.ndim == 2 else whole[0]


#: The step of a sum of products of rows.
MOMENT_GRID = 2.0 ** (-2 * ROW_BITS)


def moment_sum(cut: Doubles) -> Whole:
    """Return the sum over rows of x x', its upper triangle row by row, in steps of `MOMENT_GRID`."""
    _require_few(cut)
    high = np.trunc(np.ldexp(cut, -_HALF))
    low = cut - np.ldexp(high, _HALF)
    # Each of the three is a sum of whole numbers below 2^53.
    crossed = high.T @ low
    parts = (
        (high.T @ high).astype(np.int64) << np.int64(2 * _HALF),
        (crossed + crossed.T).astype(np.int64) << np.int64(_HALF),
        (low.T @ low).astype(np.int64),
    )
    total: Whole = (parts[0] + parts[1] + parts[2])[np.triu_indices(cut.shape[1])]
    return total


def rounded_share(noise: Doubles, std: Floats | float, grid: float) -> Whole:
    """Return a node's share of the noise in steps of the grid, from standard normal numbers: floor(x + 1/2).

    Adding a whole number of steps before or after the rounding is the same, which the accounting rests on.

    >>> rounded_share(np.array([0.0, 0.24, 0.25, -0.25]), 2.0, 1.0).tolist()
    [0, 0, 1, 0]
    """
    require_double("noise", noise)
    ratio = np.asarray(std, dtype=np.float64) / grid
    if not ratio.max(initial=0.0) <= MOST_STEPS:
        given = f"a deviation of {float(ratio.max()):.3g} grid steps"
        raise InvalidInput("noise", given, f"at most {MOST_STEPS:.3g}: use a coarser grid")
    whole: Whole = np.floor(noise * ratio + 0.5).astype(np.int64)
    return whole


def require_range(rows: int, bound: float, share: float, grid: float, nodes: int) -> None:
    """Refuse sums that do not fit into 64 bits, or noise that is too large for its grid.

    Each node has at most `rows` rows, none of which adds more than `bound`, and its share of noise.
    """
    if not share / grid <= MOST_STEPS:
        reason = f"so much noise ({share:.3g} for each node) needs steps above {grid:.3g}; a larger epsilon needs less"
        raise InvalidInput.because("noise_multiplier", f"{share / grid:.3g} grid steps", reason)
    if not nodes * (rows * bound + 19.0 * share) / grid < 2.0**63:
        given = f"{nodes} nodes of {rows} rows with noise {share:g} on a grid of {grid:g}"
        raise InvalidInput.because("nodes", given, "their sum does not fit into 64 bits")


def require_double(what: str, values: Floats) -> None:
    """Refuse numbers in single precision, whose sums depend on the order of rows."""
    if values.dtype != np.float64:
        raise InvalidInput(what, f"numbers of type {values.dtype}", "float64: other sums are not exact")


def _require_few(cut: Doubles) -> None:
    if len(cut) > MOST_ROWS:
        raise InvalidInput("rows", len(cut), f"at most {MOST_ROWS} in one sum: add up several")


def _exponent(bound: float) -> int:
    """Return the least e for which 2^e is at least the bound."""
    mantissa, exponent = math.frexp(bound)
    return exponent - (mantissa == 0.5)
