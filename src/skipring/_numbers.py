"""Numbers as people read and write them."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal


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


def upper(value: float, digits: int = 4) -> str:
    """Return an upper bound, such as an epsilon, with some digits, the last of them rounded up.

    Rounded to the nearest, the text would promise more than was proven.

    >>> upper(0.60841), upper(0.6084), upper(7.9999999998), upper(12345.1), upper(float("inf")), upper(1.121, digits=3)
    ('0.6085', '0.6084', '8', '12346', 'infinity', '1.13')
    """
    if not math.isfinite(value) or isinstance(value, int):
        return number(value)
    if 1e4 <= abs(value) < 1e7:
        return number(math.ceil(value))
    # As it is written and not as it is stored: the double next to 0.1 is a little larger than 0.1.
    return number(float(Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(float(value)))))


def upper_fixed(value: float, decimals: int) -> str:
    """Return an upper bound with `decimals`, for a column of a table; the last of them is rounded up.

    >>> upper_fixed(0.98701, 3), upper_fixed(0.987, 3), upper_fixed(2.0, 3), upper_fixed(float("inf"), 3)
    ('0.988', '0.987', '2.000', 'infinity')
    """
    if not math.isfinite(value):
        return number(value)
    exact = Decimal(repr(float(value)))
    wide = Context(prec=max(28, exact.adjusted() + decimals + 2))
    return f"{exact.quantize(Decimal(1).scaleb(-decimals), ROUND_CEILING, wide):f}"


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
