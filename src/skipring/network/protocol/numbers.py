"""The numbers under which messages and their fields travel, written beside each of them.

They do not follow from the order of anything: a field that is moved, or a message that is added in between, must not
change what older nodes read. A number that was used once is never used for something else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

_FIELD = "number on the wire"
_MESSAGE = "__number_on_the_wire__"
_Kind = TypeVar("_Kind", bound=type[Any])


def on_wire(number: int) -> Mapping[str, int]:
    """Return the metadata of a field that travels under a number."""
    return {_FIELD: number}


def numbered(number: int) -> Callable[[_Kind], _Kind]:
    """Give a message its number; each of its fields must have one of its own."""

    def given(kind: _Kind) -> _Kind:
        numbers = [(field.name, field.metadata.get(_FIELD)) for field in fields(kind)]
        missing = [name for name, found in numbers if found is None]
        if missing:
            raise TypeError(f"{kind.__name__}.{missing[0]} has no number: write field(metadata=on_wire(...))")
        if len({found for _, found in numbers}) < len(numbers):
            raise TypeError(f"{kind.__name__} has two fields of one number")
        setattr(kind, _MESSAGE, number)
        return kind

    return given


def message_number(kind: type[Any]) -> int:
    """Return the number of a message."""
    number: int | None = vars(kind).get(_MESSAGE)
    if number is None:
        raise TypeError(f"{kind.__name__} has no number: write @numbered(...) above it")
    return number


def field_numbers(kind: type[Any]) -> dict[str, int]:
    """Return the numbers of the fields of a message, by their names."""
    return {field.name: field.metadata[_FIELD] for field in fields(kind)}
