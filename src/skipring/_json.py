"""Between frozen dataclasses and JSON: one codec for all that skipring leaves on disk or tells another program."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import types
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from .errors import InvalidInput

T = TypeVar("T")

_INFINITY = "\N{INFINITY} as a number"


def to_json(value: Any) -> Any:
    """Return a value as JSON knows it: dataclasses as objects, tuples and arrays as lists, infinity as a float.

    A field whose default is None is left out where it is None: the key is an optional one.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = ((field, getattr(value, field.name)) for field in dataclasses.fields(value))
        return {field.name: to_json(one) for field, one in fields if one is not None or field.default is not None}
    if isinstance(value, Mapping):
        return {key: to_json(one) for key, one in value.items()}
    if hasattr(value, "tolist"):  # numpy's arrays and numbers
        return value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [to_json(one) for one in value]
    return value


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Return a value as JSON text. Infinity is written 1e999: valid JSON, which parsers read as infinity.

    >>> json_text({"name": "a", "epsilon": math.inf})
    '{"name": "a", "epsilon": 1e999}'
    """
    text = json.dumps(_finite(to_json(value)), indent=indent, allow_nan=False)
    return text.replace(json.dumps("-" + _INFINITY), "-1e999").replace(json.dumps(_INFINITY), "1e999")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    if isinstance(value, float) and math.isinf(value):
        return _INFINITY if value > 0.0 else "-" + _INFINITY
    return value


def from_json(kind: type[T], value: Any, name: str = "value") -> T:
    """Return what JSON says as a dataclass, each field checked by its type.

    A key that the dataclass does not know is ignored, so that what a later version wrote can be read. A key that is
    missing gets the field's default; one without a default, or a value of another type, is refused under `name`.
    """
    return _read(kind, value, name)


def _read(kind: Any, value: Any, name: str) -> Any:
    if dataclasses.is_dataclass(kind):
        return _read_fields(kind, value, name)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _read_optional(arguments, value, name)
    if origin is Literal:
        if value not in arguments:
            raise _refused(name, value, "one of " + ", ".join(map(str, arguments)))
        return value
    if origin is tuple:
        return _read_tuple(arguments, value, name)
    return _read_plain(kind, value, name)


def _read_fields(kind: Any, value: Any, name: str) -> Any:
    if not isinstance(value, Mapping):
        raise _refused(name, value, "an object")
    hints, found = _hints(kind), {}
    for field in dataclasses.fields(kind):
        place = f"{name}.{field.name}"
        if field.name in value:
            found[field.name] = _read(hints[field.name], value[field.name], place)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise InvalidInput.because(place, "missing", "has no default")
    try:
        return kind(**found)
    except InvalidInput as problem:  # a dataclass may check more than types
        raise InvalidInput.because(f"{name}.{problem.parameter}", problem.given, problem.reason) from None


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _read_optional(kinds: tuple[Any, ...], value: Any, name: str) -> Any:
    if value is None and types.NoneType in kinds:
        return None
    given = [kind for kind in kinds if kind is not types.NoneType]
    if len(given) > 1:  # dataclasses are told apart by a field called `kind`
        told = value.get("kind", "missing") if isinstance(value, Mapping) else value
        given = [kind for kind in given if told == getattr(kind, "kind", None)]
    if len(given) != 1:
        raise _refused(name, value, "left out")
    return _read(given[0], value, name)


def _read_tuple(kinds: tuple[Any, ...], value: Any, name: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise _refused(name, value, "a list")
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    if len(kinds) != len(value):
        raise _refused(name, value, f"a list of {len(kinds)}")
    return tuple(
        _read(kind, one, f"{name}[{place}]") for place, (kind, one) in enumerate(zip(kinds, value, strict=True))
    )


def _read_plain(kind: Any, value: Any, name: str) -> Any:
    if kind is float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _refused(name, value, "a number")
        try:
            return float(value)
        except OverflowError:
            raise _refused(name, value, "a number that fits into a double") from None
    words = {int: "a whole number", bool: "true or false", str: "a text"}
    if kind not in words:
        raise TypeError(f"{name}: no JSON is read as {kind}")
    if type(value) is not kind:
        raise _refused(name, value, words[kind])
    return value


def _refused(name: str, value: Any, allowed: str) -> InvalidInput:
    """Return a refusal of one line, however long the value."""
    given = json.dumps(value, default=str)
    return InvalidInput(name, given if len(given) <= 40 else given[:37] + "...", allowed)
