"""What an update is given, whatever the model: rows, noise, pieces, a step.

Whatever the rows are, and whatever parameters come in, what one protected unit adds to an update before the noise is at
most `step_size` x what `Protection` says it can contribute.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from .._arrays import Floats
from .._digest import digest
from ..errors import InvalidInput, require_integer, require_non_negative, require_positive
from .guessing import Guess, guess_of

_PIECE = 1 << 16


#: Cuts a number of rows (for networks: protected units) into pieces, one after the other. An update takes those pieces
#: that it is given, and divides their sum as if it had taken all: so a cut takes weight from an update, and nothing
#: else. (For whole nodes it is the mean of what it took.) What decides where it ends is the clock, never what the rows
#: say.
Pieces = Callable[[int], Iterable[slice]]
#: Gets the rows of an update ready (loads, decodes, augments them, each by itself): features and labels -> the features
#: to be used, as many as there were; None for those that were given.
PrepareRows = Callable[[NDArray[Any], NDArray[Any]], "NDArray[Any] | None"]


class NothingFits(Exception):
    """There was no time for even one piece of an update: nothing was made of the parameters."""


def all_at_once(count: int) -> Iterable[slice]:
    """Take all at once.

    >>> list(all_at_once(7))
    [slice(0, 7, None)]
    """
    return (slice(0, count),)


class Noise(Protocol):
    """Where Gaussian noise comes from."""

    def add(self, vector: NDArray[Any], std: float) -> None:
        """Add independent noise of this standard deviation to every number of a vector, in place."""


@dataclass(frozen=True, eq=False)
class Rows:
    """A node's rows for training, and those that it is tested on. Without classes (0) the labels are numbers.

    Where a bound was agreed on, `labels_clipped` labels of training rows were clipped to it. `persons` says whose each
    training row is, where persons are protected; `left_out` rows of theirs were too many.
    """

    train_x: Floats
    train_y: NDArray[Any]
    test_x: Floats
    test_y: NDArray[Any]
    classes: int
    labels_clipped: int = 0
    persons: NDArray[np.integer[Any]] | None = None
    left_out: int = 0

    @property
    def guess(self) -> Guess | None:
        """What always guessing the same reaches on the test rows."""
        return guess_of(self.train_y, self.test_y, classes=self.classes)

    def digest(self, parts: Sequence[NDArray[np.integer[Any]]]) -> str:
        """Return a digest of the training rows in their order, and of the parts that they were dealt into."""
        return digest([self.train_x, self.train_y, self.persons, *parts]).hex()


@dataclass(frozen=True)
class StepSizes:
    """A learning rate that falls with the root of the update number (`sqrt`), stays `constant`, or your `own` list.

    >>> StepSizes(0.6).first(4).round(4).tolist()
    [0.6, 0.4243, 0.3464, 0.3]
    """

    rate: float
    law: Literal["sqrt", "constant", "own"] = "sqrt"
    own: Sequence[float] = ()

    def __post_init__(self) -> None:
        if self.law not in ("sqrt", "constant", "own"):
            raise InvalidInput("step_size", self.law, "one of sqrt, constant, own")
        if self.law == "own":
            if not len(self.own) or not np.all(np.asarray(self.own, dtype=np.float64) > 0.0):
                raise InvalidInput("step_size", "own", "a list of numbers above 0")
        else:
            require_positive("rate", self.rate)

    @property
    def largest(self) -> float:
        """The largest step size, which decides whether updates are contractions."""
        return float(max(self.own)) if self.law == "own" else self.rate

    def first(self, updates: int) -> NDArray[np.floating[Any]]:
        """Return the step sizes of the first updates."""
        if self.law == "own":
            if len(self.own) < updates:
                raise InvalidInput("step_size", f"{len(self.own)} numbers", f"at least {updates}, one for each step")
            return np.asarray(self.own[:updates], dtype=np.float64)
        if self.law == "constant":
            return np.full(updates, self.rate)
        return self.rate / np.sqrt(np.arange(1, updates + 1))


def without_tiny(values: NDArray[Any]) -> NDArray[Any]:
    """Return numbers of rows with 0 in place of those whose products may be denormal.

    Processors take up to thirty times as long for those, so that how long an update takes would tell of rows. No result
    changes by more than rounding, on any machine.
    """
    if values.dtype.kind != "f":
        return values
    tiny = np.abs(values) < math.sqrt(np.finfo(values.dtype).tiny)
    tiny &= values != 0.0
    if not tiny.any():
        return values  # the usual case, without a second copy of the rows
    return np.where(tiny, values.dtype.type(0.0), values)


def norm(vector: NDArray[Any]) -> float:
    """Return a vector's norm, computed in double precision, and in pieces: a second copy may not fit into memory."""
    total = 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(vector), _PIECE):
            piece = vector[start : start + _PIECE].astype(np.float64, copy=False)
            total += float(piece @ piece)
    return math.sqrt(total)


def require_step(turn: int, step_size: float, noise_multiplier: float) -> None:
    """Refuse a turn, a step or a noise that is none."""
    require_integer("turn", turn, 0)
    require_positive("step_size", step_size)
    require_non_negative("noise_multiplier", noise_multiplier)
