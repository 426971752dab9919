"""What skipring says when a value cannot be used."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

#: No smaller delta is stated: the noise of a real node has no values beyond 18.84 standard deviations, where a Gaussian
#: has a mass of 4e-79. (`network.node.unreached` says what that adds to delta for all numbers of a run.)
LEAST_DELTA = 1e-75


class InvalidInput(ValueError):
    """A value that cannot be used: which one, what was given, and what is allowed.

    The command line shows the same sentence with the option in place of the parameter's name.

    >>> raise InvalidInput("skip", 1.0, "a probability of at least 0 and below 1")
    Traceback (most recent call last):
        ...
    skipring.errors.InvalidInput: skip = 1.0: must be a probability of at least 0 and below 1
    """

    def __init__(self, parameter: str, given: object, allowed: str, *, must_be: bool = True) -> None:
        self.parameter = parameter
        self.given = given
        self.reason = f"must be {allowed}" if must_be else allowed
        valueless = not must_be and isinstance(given, str) and not given
        super().__init__(f"{parameter}: {self.reason}" if valueless else f"{parameter} = {given}: {self.reason}")

    @classmethod
    def because(cls, parameter: str, given: object, reason: str) -> InvalidInput:
        """Refuse a value that is well formed, but that the mathematics does not cover.

        An empty text as what was given stands for something without a value to show, such as a flag.
        """
        return cls(parameter, given, reason, must_be=False)


@contextmanager
def given_as(parameter: str, *, instead_of: str) -> Iterator[None]:
    """Name the parameter by which a value came here, where what refuses it knows it by another name.

    >>> with given_as("run", instead_of="FILE"):
    ...     raise InvalidInput.because("FILE", "r.toml", "does not exist")
    Traceback (most recent call last):
        ...
    skipring.errors.InvalidInput: run = r.toml: does not exist
    """
    try:
        yield
    except InvalidInput as problem:
        if problem.parameter != instead_of:
            raise
        raise InvalidInput.because(parameter, problem.given, problem.reason) from None


def quoted_list(texts: Iterable[str], most: int = 20) -> str:
    """Return texts of a table's own, each in quotes: one of them may have a comma in it.

    >>> quoted_list(["Internal, East", "Surgery"]), quoted_list("abc", most=2)
    ("'Internal, East', 'Surgery'", "'a', 'b', ...")
    """
    listed = list(texts)
    return ", ".join(map(repr, listed[:most])) + (", ..." if len(listed) > most else "")


def _is_number(value: object) -> bool:
    # Most are plain ones, and an abstract class takes ten times as long to say so.
    return type(value) in (float, int) or (isinstance(value, numbers.Real) and not isinstance(value, bool))


def _refused(parameter: str, value: object, allowed: str) -> InvalidInput:
    """Return the refusal of what is not such a number; a text that looks like one is shown with its quotes."""
    if isinstance(value, str):
        return InvalidInput(parameter, repr(value), f"a number without quotes: {allowed}")
    return InvalidInput(parameter, value, allowed)


def require_probability_below_one(parameter: str, value: float) -> None:
    """Refuse anything but a skip probability: at 1 nobody would ever take part."""
    if not (_is_number(value) and 0.0 <= value < 1.0):
        raise _refused(parameter, value, "a probability of at least 0 and below 1")


def require_open_unit(parameter: str, value: float) -> None:
    """Refuse anything outside (0, 1)."""
    if not (_is_number(value) and 0.0 < value < 1.0):
        raise _refused(parameter, value, "above 0 and below 1")


def require_delta(delta: float) -> None:
    """Refuse anything that is not the delta of a privacy guarantee."""
    if not (_is_number(delta) and LEAST_DELTA <= delta < 1.0):
        allowed = f"at least {LEAST_DELTA:g} (the noise has no tail beyond that) and below 1"
        raise _refused("delta", delta, allowed)


def require_positive(parameter: str, value: float) -> None:
    """Refuse anything that is not a finite number above 0."""
    if not (_is_number(value) and value > 0.0 and math.isfinite(value)):
        raise _refused(parameter, value, "a finite number above 0")


def require_non_negative(parameter: str, value: float) -> None:
    """Refuse anything that is not a finite number of at least 0."""
    if not (_is_number(value) and value >= 0.0 and math.isfinite(value)):
        raise _refused(parameter, value, "a finite number of at least 0")


def require_integer(parameter: str, value: Any, at_least: int, at_most: int | None = None) -> None:
    """Refuse anything that is not a whole number of at least `at_least` (and at most `at_most`)."""
    whole = type(value) is int or (isinstance(value, numbers.Integral) and not isinstance(value, bool))
    if not whole or value < at_least:
        raise _refused(parameter, value, f"a whole number of at least {at_least}")
    if at_most is not None and value > at_most:
        raise InvalidInput(parameter, value, f"at most {at_most}: more is not accounted for")
