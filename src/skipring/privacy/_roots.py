"""The root finder of the accountants: it ends on the side that is safe to print."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["narrow"]


def narrow(
    excess: Callable[[float], float], low: float, at_low: float, high: float, at_high: float, *, width: float
) -> float:
    """Return the upper end of a bracket of at most this width around where a falling `excess` reaches 0.

    `at_low` is above 0 and `at_high` is not; so is `excess` at every lower and every upper end, which is what makes the
    answer a bound. Regula falsi, for logarithms of delta are nearly parabolas, with a halving every third turn.
    (scipy.optimize would do, but loading it takes longer than the calculation.)

    >>> round(narrow(lambda x: 2.0 - x * x, 1.0, 1.0, 2.0, -2.0, width=1e-9), 6)
    1.414214
    """
    for turn in range(100):
        if high - low <= width:
            break
        share = at_low / (at_low - at_high) if turn % 3 < 2 else 0.5
        # At first a step also covers some ground, lest one end stay where it is.
        share = min(max(share, 0.01), 0.99) if turn < 10 else share
        middle = low + share * (high - low)
        if not low < middle < high:
            break
        value = excess(middle)
        if value <= 0.0:
            high, at_high = middle, value
        else:
            low, at_low = middle, value
    return high
