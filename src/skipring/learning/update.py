"""What an update is, whatever the model: a learner, its rows, the noise, and what comes in from elsewhere.

Whatever the rows are, and whatever parameters come in, what one protected unit adds to an update before the noise is at
most `step_size` x what `Protection` says it can contribute.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .._arrays import Floats
from .._digest import digest
from ..errors import InvalidInput, require_integer, require_non_negative, require_positive
from .guessing import Guess, guess_of
from .units import Protection

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


class Learner(Protocol):
    """A node's model and rows. One call at a time."""

    @property
    def name(self) -> str:
        """The model: logistic, softmax, squared, cnn, small-cnn or module:function."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """What the parameters are, little endian: double precision for linear models, single for networks."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of parameters."""

    @property
    def radius(self) -> float:
        """How far from 0 the parameters may be; infinity if there is no bound."""

    @property
    def gradient_bound(self) -> float:
        """What gradients are clipped to: each row's, each person's or the node's mean, whatever is protected."""

    @property
    def protection(self) -> Protection:
        """Whom the noise protects, and how many rows an update takes."""

    @property
    def parts(self) -> int:
        """How many parts the node's rows rotate through: with k, a protected unit contributes at every k-th turn."""

    @property
    def units(self) -> int:
        """The most protected units that an update of this node takes."""

    @property
    def all_units(self) -> int:
        """How many protected units this node has."""

    @property
    def rows_digest(self) -> str:
        """A digest of the node's training rows, whose they are and in which part; for its owner alone."""

    @property
    def guess(self) -> Guess | None:
        """What always guessing the same reaches on the node's test rows; None without any: for its owner alone."""

    @property
    def rows_left_out(self) -> int:
        """How many training rows are not used because their person has too many: for its owner alone."""

    @property
    def labels_clipped(self) -> int:
        """How many labels of this node's training rows were clipped to the agreed bound: for its owner alone."""

    def noise_std(self, noise_multiplier: float) -> float:
        """Return the standard deviation of the noise on an update's gradient."""

    def contracts(self, step_size: float) -> bool:
        """Say whether updates with steps of at most this size are contractions, which amplification needs."""

    def initial(self) -> NDArray[Any]:
        """Return the parameters that a run starts with: the same at every node."""

    def prepare(self, turn: int = 0, with_rows: PrepareRows | None = None) -> None:
        """Choose the rows of the next update, at a turn, and get them ready."""

    def update(
        self,
        parameters: NDArray[Any],
        *,
        turn: int,
        step_size: float,
        noise_multiplier: float,
        noise: Noise,
        pieces: Pieces = all_at_once,
    ) -> NDArray[Any]:
        """Return project(w - step size x (clipped gradient + ridge x w + noise)); w may be overwritten.

        `turn` is how often the token was offered to this node before, skipped or not. `pieces` decides how many rows
        are taken; without any, `NothingFits` is raised.
        """

    def close(
        self, parameters: NDArray[Any], *, step_size: float, noise_multiplier: float, noise: Noise
    ) -> NDArray[Any]:
        """Return project(w - step size x noise), an update without any rows; w may be overwritten."""

    def test_error(self, parameters: NDArray[Any]) -> float:
        """Return the share of wrong test rows, or for numbers the mean squared error; nan if there are no test rows."""


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


def usable(parameters: NDArray[Any], learner: Learner) -> NDArray[Any]:
    """Return parameters that came from elsewhere, if they can be this learner's."""
    if parameters.shape != learner.shape or parameters.dtype != learner.dtype:
        given, wanted = f"{parameters.shape} of {parameters.dtype}", f"{learner.shape} of {learner.dtype}"
        raise InvalidInput("parameters", given, f"{wanted}, as this node's model is")
    # With a finite norm, every product with a row is finite as well.
    if not math.isfinite(norm(parameters)):
        raise InvalidInput("parameters", "infinite or not a number", "finite")
    return parameters


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
