"""Names of nodes and persons: texts, compared exactly, each written in one way."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal, InvalidOperation

from ..errors import InvalidInput

__all__ = ["require_one_spelling"]


def require_one_spelling(parameter: str, column: str, names: Iterable[str]) -> None:
    """Refuse texts that differ but are the same number: whoever is called 7 and 007 would count as two.

    >>> require_one_spelling("person", "patient", ["7", "8", "007"])
    Traceback (most recent call last):
        ...
    skipring.errors.InvalidInput: person = patient: '7' and '007' are the same number, but ids are compared as text, \
so they would count as two; write each id in one way
    """
    seen: dict[Decimal, str] = {}
    for name in names:
        try:
            number = Decimal(name)  # exact: ids of twenty digits differ in their last one
        except InvalidOperation:
            continue
        if number.is_finite() and seen.setdefault(number, name) != name:
            reason = (
                f"{seen[number]!r} and {name!r} are the same number, but ids are compared as text, so they would count "
                "as two; write each id in one way"
            )
            raise InvalidInput.because(parameter, column, reason)
