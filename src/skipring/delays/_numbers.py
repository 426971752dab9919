"""Numbers as the laws take them in and spell them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._arrays import Doubles
from ..errors import InvalidInput


def floats(values: Any) -> Doubles:
    """Return the values as an array of doubles."""
    return np.asarray(values, dtype=np.float64)


def real_number(given: str, what: str, value: Any) -> float:
    """Return a part of the given delay as a float, or refuse that delay."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InvalidInput.because("delay", given, f"{what} must be a number, not {value!r}") from None


def spell(value: float) -> str:
    """Return the shortest text that reads back as this number."""
    return repr(float(value)).removesuffix(".0")
