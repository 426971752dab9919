"""The root finder of the accountants: it ends on the side that is safe to print."""

from __future__ import annotations

from collections.abc import Callable


def narrow(
    excess: Callable[[float], float], low: float, at_low: float, high: float, at_high: float, *, width: float
) -> float:
    """Return the upper end of a bracket of at most this width around where a falling `excess` reaches 0.

    `at_low` is above 0 and `at_high` is not; so is `excess` at every lower and every upper end, which is what makes the
    answer a bound. Regula falsi, for logarithms of delta are nearly parabolas; an end that stays where it is counts
    less and less (Anderson and Björck), lest the other end do all the way. (scipy.optimize would do, but loading it
    takes longer than the calculation.)

    >>> round(narrow(lambda x: 2.0 - x * x, 1.0, 1.0, 2.0, -2.0, width=1e-9), 6)
    1.414214
    """
    moved = 0
    for turn in range(100):
        if high - low <= width:
            break
        share = at_low / (at_low - at_high) if turn % 6 < 5 else 0.5
        # Next to an end, a step that passes the root ends the search. It passes it by next to nothing: asked for the
        # noise of a budget, and then for the budget of that noise, the answers should agree.
        middle = min(max(low + share * (high - low), low + 1e-3 * width), high - 1e-3 * width)
        if not low < middle < high:
            break
        value = excess(middle)
        if value <= 0.0:
            at_low *= _weight(value, at_high) if moved > 0 else 1.0
            high, at_high, moved = middle, value, 1
        else:
            at_high *= _weight(value, at_low) if moved < 0 else 1.0
            low, at_low, moved = middle, value, -1
    return high


def _weight(value: float, before: float) -> float:
    """Return what the value at the other end counts after an end has moved twice in a row."""
    share = 1.0 - value / before if before != 0.0 else 0.5
    return share if share > 0.0 else 0.5
