"""Errors in the words of the run file: what is refused where a value is used is said with the key that set it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from ..errors import InvalidInput
from .wording import sections

#: What is called otherwise where it is used. (Laws, schedules and models are refused by the name of their section.)
_ELSEWHERE = {
    "delay": "delay.law",
    "compute": "compute.law",
    "schedule": "schedule.name",
    "model": "model.name",
    "stragglers": "stragglers.*",
    "encoder": "model.features",
    "groups": "data.node",
}
#: Refused by this name are the rows that were given, and not the key `model.features`.
_ROWS = "features"


@contextmanager
def by_key(**elsewhere: str) -> Iterator[None]:
    """Name a parameter that is refused in here by its key, if it has one; `elsewhere` names others.

    A parameter has the name of its key, which only one section has. It is also a decorator.

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
    from .runfile import RunFile  # which names its own refusals with this module

    named = [(key, f"{section}.{key}") for section, table in sections(RunFile).items() for key in table.model_fields]
    sections_with = Counter(key for key, _ in named)
    return {key: name for key, name in named if sections_with[key] == 1 and key != _ROWS} | _ELSEWHERE
