"""What every law of a delay answers, and what a law has to provide for it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from .._arrays import Doubles
from ..errors import InvalidInput

Size = int | tuple[int, ...]
Numbers = TypeVar("Numbers", float, Doubles)  # one number in, one out; an array in, an array out

TAIL = 1e-12  # how deep into both tails a search for a timeout looks at first


class Delay(ABC):
    """The law of the time a node takes, possibly forever.

    Subclasses describe it for flat arrays; the public methods take floats or arrays of any shape alike.
    """

    def survival(self, t: Numbers) -> Numbers:
        """Return the probability that the node is not ready by time t; at infinity: that it never is."""
        moments = _moments(t)
        return _like(t, np.where(moments < 0.0, 1.0, self._survival(np.maximum(moments, 0.0))))

    def cdf(self, t: Numbers) -> Numbers:
        """Return the probability that the node is ready by time t, to full precision when it is tiny."""
        moments = _moments(t)
        return _like(t, np.where(moments < 0.0, 0.0, self._cdf(np.maximum(moments, 0.0))))

    def quantile(self, probability: Numbers) -> Numbers:
        """Return the first moment by which the node is ready with this probability (infinite if none).

        For probability 0 it is the earliest moment at which a node can be ready.
        """
        given = _probabilities(probability)
        with np.errstate(divide="ignore", over="ignore"):
            found = self._quantile(given)
        return _like(probability, np.where(given == 0.0, self.support[0], found))

    def upper_quantile(self, probability: Numbers) -> Numbers:
        """Return the first moment that the node misses with at most this probability, however tiny.

        >>> from skipring.delays import Exponential
        >>> round(Exponential(1.0).upper_quantile(1e-12), 6)
        27.631021
        """
        given = _probabilities(probability)
        with np.errstate(divide="ignore", over="ignore"):
            found = self._upper_quantile(given)
        if self.mass_at_infinity == 0.0:
            found = np.where(given == 0.0, self.support[1], found)
        return _like(probability, np.where(given == 1.0, self.support[0], found))

    def truncated_mean(self, t: Numbers) -> Numbers:
        """Return how long one waits on average if one never waits longer than t: E[min(T, t)].

        >>> from skipring.delays import Gamma
        >>> round(Gamma(0.25, 1.0).truncated_mean(1.0), 6), Gamma(0.25, 1.0).truncated_mean(float("inf"))
        (0.199474, 0.25)
        """
        moments = _moments(t)
        finite = np.where(np.isinf(moments), 1.0, np.maximum(moments, 0.0))
        waits = np.where(moments < 0.0, moments, self._truncated_mean(finite))
        return _like(t, np.where(np.isposinf(moments), self.mean, waits))

    @cached_property
    def mean(self) -> float:
        """The average delay; infinite for heavy tails, and if a node may never be ready."""
        return self._mean()

    @property
    def mass_at_infinity(self) -> float:
        """The probability that a node is never ready."""
        return 0.0

    @property
    def support(self) -> tuple[float, float]:
        """The earliest and the latest finite moment at which a node can become ready."""
        return 0.0, math.inf

    def search_points(self) -> Doubles:
        """Return the moments that a search for a timeout starts from: dense in both tails, all atoms."""
        tail = np.geomspace(TAIL, 0.5, 1000)
        return usable_points(self.quantile(tail), self.upper_quantile(tail))

    @abstractmethod
    def sample(self, rng: np.random.Generator, size: Size) -> Doubles:
        """Draw independent delays; some may be infinite."""

    def at_turns(self, path: NDArray[np.integer[Any]], rng: np.random.Generator) -> Doubles:
        """Draw the delay of each hop, given whose turn it is: here all are independent and alike; a trace's are not."""
        return self.sample(rng, len(path))

    # What a law provides, for flat arrays of t >= 0 (finite for the truncated mean) and of probabilities in
    # [0, 1]. What `_quantile` says of 0 and `_upper_quantile` of 1 is not used: the support answers there.

    @abstractmethod
    def _survival(self, t: Doubles) -> Doubles: ...

    @abstractmethod
    def _cdf(self, t: Doubles) -> Doubles: ...

    @abstractmethod
    def _truncated_mean(self, t: Doubles) -> Doubles: ...

    @abstractmethod
    def _mean(self) -> float: ...

    def _quantile(self, probability: Doubles) -> Doubles:
        return _first_moment(lambda t: self._cdf(t) >= probability, len(probability))

    def _upper_quantile(self, probability: Doubles) -> Doubles:
        return _first_moment(lambda t: self._survival(t) <= probability, len(probability))


class Steps(NamedTuple):
    """The law from each of these times until the next: at 0, then at every finished duration."""

    times: Doubles
    survival: Doubles
    cdf: Doubles
    waits: Doubles  # the truncated mean at that time


class StepLaw(Delay):
    """A law that is constant between some moments."""

    @property
    @abstractmethod
    def steps(self) -> Steps:
        """Its moments, and what it says from each of them on."""

    @property
    def mass_at_infinity(self) -> float:
        """The probability that a node is never ready: what the last finished duration leaves."""
        return float(self.steps.survival[-1])

    @property
    def support(self) -> tuple[float, float]:
        """The shortest and the longest duration that finished."""
        return float(self.steps.times[1]), float(self.steps.times[-1])

    def search_points(self) -> Doubles:
        """Return the durations that finished: between two of them, waiting longer gains nothing."""
        return usable_points(self.steps.times)

    def _start(self, step: NDArray[np.intp]) -> Doubles:
        return np.append(self.steps.times, math.inf)[step]

    def _step(self, t: Doubles) -> NDArray[np.intp]:
        return np.searchsorted(self.steps.times, t, side="right") - 1

    def _survival(self, t: Doubles) -> Doubles:
        return self.steps.survival[self._step(t)]

    def _cdf(self, t: Doubles) -> Doubles:
        return self.steps.cdf[self._step(t)]

    def _truncated_mean(self, t: Doubles) -> Doubles:
        steps, last = self.steps, self._step(t)
        return steps.waits[last] + steps.survival[last] * (t - steps.times[last])

    def _mean(self) -> float:
        return float(self.steps.waits[-1]) if self.mass_at_infinity == 0.0 else math.inf

    def _quantile(self, probability: Doubles) -> Doubles:
        return self._start(np.searchsorted(self.steps.cdf, probability, side="left"))

    def _upper_quantile(self, probability: Doubles) -> Doubles:
        return self._start(np.searchsorted(-self.steps.survival, -probability, side="left"))


def usable_points(*points: Doubles) -> Doubles:
    """Merge points, without those that no timeout can be and denormal numbers, which have lost digits."""
    merged = np.unique(np.concatenate(points))
    return merged[(merged > 1e-300) & (merged < math.inf)]


def _moments(t: float | Doubles) -> Doubles:
    moments = np.ravel(floats(t))
    if np.isnan(moments).any():
        raise InvalidInput("timeout", "nan", "a number")
    return moments


def _probabilities(probability: float | Doubles) -> Doubles:
    given = np.ravel(floats(probability))
    if not ((given >= 0.0) & (given <= 1.0)).all():
        raise InvalidInput("probability", probability, "between 0 and 1")
    return given


def _like(given: Numbers, values: Doubles) -> Numbers:
    return cast(Numbers, float(values[0]) if np.ndim(given) == 0 else values.reshape(np.shape(given)))


def _first_moment(reached: Callable[[Doubles], NDArray[np.bool_]], count: int) -> Doubles:
    """Return, for each entry, the first double at which a condition that stays true holds; infinity if none.

    The bits of non-negative doubles are ordered as the doubles are, so 64 halvings find it exactly.
    """
    low = np.full(count, -1, dtype=np.int64)
    high = np.full(count, np.array(math.inf).view(np.int64), dtype=np.int64)
    for _ in range(64):
        middle = np.maximum(low + (high - low) // 2, 0)
        done = reached(middle.view(np.float64))
        low, high = np.where(done, low, middle), np.where(done, middle, high)
    return high.view(np.float64)


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
