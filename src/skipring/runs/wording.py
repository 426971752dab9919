"""What is wrong in a TOML file, in words: which key, what was given, and what was probably meant.

What is refused where a value is used is said with the key that set it (`by_key`).
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ..delays import Delay
from ..errors import InvalidInput

#: What is called otherwise where it is used. (Laws, schedules and models are refused by the name of their section.)
_ELSEWHERE = {
    "delay": "delay.law",
    "compute": "compute.law",
    "schedule": "schedule.name",
    "model": "model.name",
    "stragglers": "stragglers.*",
    "encoder": "model.features",
    "groups": "data.node",
    "rate": "learning.rate",  # laps have one, too, which is refused where it is read
}
#: Refused by this name are the rows that were given, and not the key `model.features`.
_ROWS = "features"
#: What pydantic adds to the place of a value that may be of several types.
_TYPES = ("literal", "float", "function")
_OTHER_TYPES = ("int", "list[str]")


def refusal(problem: Mapping[str, Any], model: type[BaseModel]) -> InvalidInput:
    """Return the first problem that pydantic has found in a run file as one line; its sections are in brackets."""
    where = [str(part) for part in problem["loc"] if not str(part).startswith(_TYPES) and part not in _OTHER_TYPES]
    given = _shown(problem["input"])
    if problem["type"] == "extra_forbidden":
        if len(where) == 1:
            return _unknown_section(where[0], problem["input"], model)
        return InvalidInput.because(
            ".".join(where), given, f"is not a key of a run file{unknown_key(problem['loc'], model)}"
        )
    if len(where) == 1 and where[0] in sections(model):
        reason = f"must be a table: a line with [{where[0]}], and its keys below it"
        return InvalidInput.because(f"[{where[0]}]", given, reason)
    return InvalidInput.because(".".join(where), given, expected(problem, model))


def require_no_quotes(values: Mapping[str, Any], model: type[BaseModel]) -> None:
    """Refuse a text where a number belongs, also one that could be read as one."""
    for section, table in sections(model).items():
        given = values.get(section)
        for key, value in given.items() if isinstance(given, Mapping) else ():
            kinds = _kinds(table.model_fields[key].annotation) if key in table.model_fields else set()
            if isinstance(value, str) and kinds and kinds <= {int, float}:
                number = "a whole number" if kinds == {int} else "a number"
                raise InvalidInput(f"{section}.{key}", repr(value), f"{number} without quotes")


def _kinds(annotation: Any) -> set[Any]:
    return set(get_args(annotation) or (annotation,)) - {NoneType}


def unknown_key(location: Sequence[int | str], model: type[BaseModel]) -> str:
    """Say which key was probably meant: one that is spelled alike, or the same one of another section."""
    *path, key = map(str, location)
    known = _fields(path, model)
    if near := difflib.get_close_matches(key, known, n=1):
        return f"; did you mean {'.'.join([*path, near[0]])}?"
    places = [section for section, table in sections(model).items() if key in table.model_fields]
    if not places:  # spelled alike in another section
        everywhere = {name: section for section, table in sections(model).items() for name in table.model_fields}
        near = difflib.get_close_matches(key, everywhere, n=1)
        if near:
            return f"; did you mean {everywhere[near[0]]}.{near[0]}?"
    if places:
        return f"; it is one of [{places[0]}]"
    return f"; known here: {', '.join(known)}"


def expected(problem: Mapping[str, Any], model: type[BaseModel]) -> str:
    """Say what a value must be, in the words of a TOML file."""
    kind, given = str(problem["type"]), problem["input"]
    if kind in ("float_parsing", "int_parsing", "float_type", "int_type", "int_from_float"):
        number = "a whole number" if kind.startswith("int") else "a number"
        if isinstance(given, str) and (words := _words(_field(problem["loc"], model))):
            return f"must be {number} without quotes, or {words}"
        return f"must be {number} without quotes" if isinstance(given, str) else f"must be {number}"
    if kind in ("bool_parsing", "bool_type"):
        return "must be true or false, without quotes"
    if kind == "string_type":
        field = _field(problem["loc"], model)  # an example where leaving it out has a meaning of its own
        usual = None if field is None else field.examples[0] if field.examples else field.default
        example = f', such as "{usual}"' if isinstance(usual, str) else ""
        objects = "; simulate(run, delay=...) takes objects" if isinstance(given, Delay) else ""
        return f"must be a text in quotes{example}{objects}"
    if kind in ("list_type", "tuple_type"):
        return "must be a list in brackets, such as [1, 2]"
    if kind == "finite_number" or kind.startswith(("greater_than", "less_than")):
        return _within(_field(problem["loc"], model))
    if kind == "literal_error":
        return f"must be {problem['ctx']['expected']}"
    return str(problem["msg"]).replace("Input should be", "must be")


def _field(location: Sequence[int | str], model: type[BaseModel]) -> FieldInfo | None:
    """Return what is known of a key; the location may end with the kind that was tried, or a place in a list."""
    table = sections(model).get(str(location[0]))
    if table is None:
        return model.model_fields.get(str(location[0]))
    return table.model_fields.get(str(location[1])) if len(location) > 1 else None


def _words(field: FieldInfo | None) -> str:
    """Return the words that a key takes as well as a number."""
    kinds = () if field is None else get_args(field.annotation)
    return " or ".join(f'"{word}"' for kind in kinds if get_origin(kind) is Literal for word in get_args(kind))


def _within(field: FieldInfo | None) -> str:
    """Say which numbers a key takes."""
    signs = {"gt": "above", "ge": "of at least", "lt": "below", "le": "at most"}
    limits = () if field is None else field.metadata
    said = [f"{word} {getattr(each, sign):g}" for each in limits for sign, word in signs.items() if hasattr(each, sign)]
    whole = field is not None and _kinds(field.annotation) == {int}
    return f"must be a {'whole' if whole else 'finite'} number {' and '.join(said) or 'above 0'}"


def _shown(given: Any) -> Any:
    if isinstance(given, Mapping):
        return "a table"
    plain = given is None or isinstance(given, bool | int | float | str | list | tuple)
    return given if plain else f"an object ({type(given).__name__})"


def _unknown_section(name: str, given: Any, model: type[BaseModel]) -> InvalidInput:
    tables = sections(model)
    homes = [section for section, table in tables.items() if name in table.model_fields]
    if not isinstance(given, Mapping) and homes:
        reason = f"stands outside of any section; it is a key of [{homes[0]}]"
        return InvalidInput.because(f"{homes[0]}.{name}", _shown(given), reason)
    near = difflib.get_close_matches(name, tables, n=1)
    hint = f"did you mean [{near[0]}]?" if near else f"known are {', '.join(tables)}"
    shown = "" if isinstance(given, Mapping) else _shown(given)
    return InvalidInput.because(f"[{name}]", shown, f"is not a section of a run file; {hint}")


def sections(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """Return the tables of a file by name."""
    fields = {name: field.annotation for name, field in model.model_fields.items()}
    return {name: kind for name, kind in fields.items() if isinstance(kind, type) and issubclass(kind, BaseModel)}


def _fields(path: Sequence[str], model: type[BaseModel]) -> list[str]:
    table = sections(model)[path[0]] if path and path[0] in sections(model) else model
    return list(table.model_fields)


@contextmanager
def by_key(**elsewhere: str) -> Iterator[None]:
    """Name a parameter that is refused in here by its key, if it has one; `elsewhere` names others.

    A parameter has the name of its key, which only one section has, or that `_ELSEWHERE` names. It is also a decorator.

    >>> from skipring.errors import require_positive
    >>> with by_key():
    ...     require_positive("rate", -1.0)
    Traceback (most recent call last):
        ...
    skipring.errors.InvalidInput: learning.rate = -1.0: must be a finite number above 0
    """
    try:
        yield
    except InvalidInput as problem:
        key = (_keys() | elsewhere).get(problem.parameter)
        if key is None:
            raise
        raise InvalidInput.because(key, problem.given, problem.reason) from None


@cache
def _keys() -> dict[str, str]:
    """Return the key of each parameter, from the sections of the run file."""
    from .runfile import RunFile  # whose sections name their own refusals with this module

    named = [(key, f"{section}.{key}") for section, table in sections(RunFile).items() for key in table.model_fields]
    sections_with = Counter(key for key, _ in named)
    return {key: name for key, name in named if sections_with[key] == 1 and key != _ROWS} | _ELSEWHERE
