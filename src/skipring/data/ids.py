"""Names of nodes and persons: texts, compared exactly, each written in one way."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation

from ..errors import InvalidInput


def require_one_spelling(parameter: str, column: str, names: Iterable[str]) -> None:
    """Refuse texts that differ but are the same number, or look alike: who is called 7 and 007 would count as two.

    Alike are texts that differ in blanks, in characters that nobody sees, or in how Unicode writes a letter. Small and
    large letters are not: ids drawn at random have both.

    >>> require_one_spelling("person", "patient", ["7", "8", "007"])
    Traceback (most recent call last):
        ...
    skipring.errors.InvalidInput: person = patient: '7' and '007' are the same number, but ids are compared as text, \
so they would count as two; write each id in one way
    """
    given = list(names)
    seen: dict[Decimal | str, str] = {}
    for name in given:
        known = _known_as(name)
        # Most ids are written as they are known, and millions of them are not kept a second time.
        if known != name and (other := seen.setdefault(known, name)) != name:
            raise _two_spellings(parameter, column, other, name)
    altered = {known: name for known, name in seen.items() if isinstance(known, str)}
    for name in given if altered else ():
        if (other := altered.get(name, name)) != name:
            raise _two_spellings(parameter, column, name, other)


def _two_spellings(parameter: str, column: str, one: str, other: str) -> InvalidInput:
    alike = "look alike" if isinstance(_known_as(one), str) else "are the same number"
    reason = (
        f"{one!a} and {other!a} {alike}, but ids are compared as text, so they would count "
        "as two; write each id in one way"
    )
    return InvalidInput.because(parameter, column, reason)


def _known_as(name: str) -> Decimal | str:
    """Return what two ids have in common that are probably one: their number, or what one sees of them."""
    if not name.isascii():
        shown = unicodedata.normalize("NFKC", name)
        name = "".join(letter for letter in shown if unicodedata.category(letter) != "Cf")
    name = " ".join(name.split())
    try:
        number = Decimal(name.replace(",", "."))  # exact: ids of twenty digits differ in their last one
    except InvalidOperation:
        return name
    return number if number.is_finite() else name
