"""Errors in the words of the run file: what is refused where a value is used is said with the key that set it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import InvalidInput

#: Where the run file says what planned runs and simulations alike call by these names.
RUN_KEYS = {
    "steps": "schedule.steps",
    "schedule": "schedule.name",
    "nodes": "data.nodes",
    "stragglers": "stragglers.*",
    "patient_every": "delay.patient_every",
    "ready": "delay.ready",
    "late": "compute.late",
    "noise_multiplier": "privacy.noise_multiplier",
    "closing": "schedule.closing",
    "search": "schedule.search",
}


@contextmanager
def keys(section: str, *names: str, **elsewhere: str) -> Iterator[None]:
    """Name a parameter that is refused in here by its key: ``section.name``, or where `elsewhere` says it stands.

    >>> from skipring.errors import require_positive
    >>> with keys("learning", "rate", delay="delay.law"):
    ...     require_positive("rate", -1.0)
    Traceback (most recent call last):
        ...
    skipring.errors.InvalidInput: learning.rate = -1.0: must be a finite number above 0
    """
    known = {name: f"{section}.{name}" for name in names} | elsewhere
    try:
        yield
    except InvalidInput as problem:
        if problem.parameter not in known:
            raise
        raise InvalidInput.because(known[problem.parameter], problem.given, problem.reason) from None
