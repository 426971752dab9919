"""Numbers as people read and write them."""

from __future__ import annotations

import math

__all__ = ["is_number", "number", "ordinal"]


def number(value: float) -> str:
    """Return a number with four digits, and no more zeros than needed.

    >>> number(0.0048017), number(12.5), number(float("inf")), number(24000), number(1e-6)
    ('0.004802', '12.5', 'infinity', '24000', '1e-06')
    """
    if math.isinf(value):
        return "infinity"
    if isinstance(value, int) or (value == round(value) and abs(value) < 1e7):
        return str(round(value))
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}"


def is_number(text: str) -> bool:
    """Say whether a text, a cell of a table for instance, is a number.

    >>> is_number(" 1e-3"), is_number("inf"), is_number("1,5"), is_number("")
    (True, True, False, False)
    """
    try:
        float(text)
    except ValueError:
        return False
    return True


def ordinal(count: int) -> str:
    """Return a number as an ordinal.

    >>> [ordinal(n) for n in (2, 3, 4, 11, 21, 112)]
    ['2nd', '3rd', '4th', '11th', '21st', '112th']
    """
    ending = "th" if count % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
    return f"{count}{ending}"
