"""What an update is, whatever the model: a learner, its rows and batches, the noise, and what comes in from elsewhere.

Whatever the rows are, and whatever parameters come in, the part of an update that depends on the rows is at most
`step_size` x `gradient_bound` long before the noise is added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInput, require_non_negative, require_positive

__all__ = ["Batches", "Learner", "Noise", "Rows", "Unit", "noise_std", "norm", "usable"]

#: Whose share in an update is bounded: all rows of a node together, or the rows of each person, or each row.
Unit = Literal["node", "person", "record"]
Floats = NDArray[np.floating[Any]]
_PIECE = 1 << 16


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
        """The most that one protected unit (all of this node's rows, or each) adds to a gradient: the noise's unit."""

    @property
    def labels_clipped(self) -> int:
        """How many labels of this node's training rows were clipped to the agreed bound: for its owner alone."""

    def contracts(self, step_size: float) -> bool:
        """Say whether updates with steps of at most this size are contractions, which amplification needs."""

    def initial(self) -> NDArray[Any]:
        """Return the parameters that a run starts with: the same at every node."""

    def prepare(self) -> None:
        """Choose the rows of the next update."""

    def update(
        self, parameters: NDArray[Any], *, step_size: float, noise_multiplier: float, noise: Noise
    ) -> NDArray[Any]:
        """Return project(w - step size x (clipped mean gradient + ridge x w + noise)); w may be overwritten."""

    def test_error(self, parameters: NDArray[Any]) -> float:
        """Return the share of wrong test rows, or for numbers the mean squared error; nan if there are no test rows."""


@dataclass(frozen=True, eq=False)
class Rows:
    """A node's rows for training, and those that it is tested on. Without classes (0) the labels are numbers.

    Where a bound was agreed on, `labels_clipped` labels of training rows were clipped to it.
    """

    train_x: Floats
    train_y: NDArray[Any]
    test_x: Floats
    test_y: NDArray[Any]
    classes: int
    labels_clipped: int = 0


class Batches:
    """The rows of one update after the other: all of a node's rows, or some of them without replacement."""

    def __init__(self, rows: int, batch: int | None, rng: np.random.Generator) -> None:
        self._rows, self._batch, self._rng = rows, rows if batch is None else batch, rng
        self._next: NDArray[np.int64] | None = None

    def prepare(self) -> None:
        """Draw the rows of the next update."""
        if self._batch < self._rows:
            self._next = self._rng.choice(self._rows, self._batch, replace=False, shuffle=False)
        else:
            self._next = np.arange(self._rows)

    def take(self) -> NDArray[np.int64]:
        """Return rows that no update has taken yet: those that were prepared, or else new ones."""
        if self._next is None:
            self.prepare()
        taken, self._next = self._next, None
        assert taken is not None
        return taken


def usable(parameters: NDArray[Any], learner: Learner) -> NDArray[Any]:
    """Return parameters that came from elsewhere, if they can be this learner's."""
    if parameters.shape != learner.shape or parameters.dtype != learner.dtype:
        given, wanted = f"{parameters.shape} of {parameters.dtype}", f"{learner.shape} of {learner.dtype}"
        raise InvalidInput("parameters", given, f"{wanted}, as this node's model is")
    # With a finite norm, every product with a row is finite as well.
    if not math.isfinite(norm(parameters)):
        raise InvalidInput("parameters", "infinite or not a number", "finite")
    return parameters


def norm(vector: NDArray[Any]) -> float:
    """Return a vector's norm, computed in double precision, and in pieces: a second copy may not fit into memory."""
    total = 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(vector), _PIECE):
            piece = vector[start : start + _PIECE].astype(np.float64, copy=False)
            total += float(piece @ piece)
    return math.sqrt(total)


def noise_std(learner: Learner, step_size: float, noise_multiplier: float) -> float:
    """Return the standard deviation of an update's noise."""
    require_positive("step_size", step_size)
    require_non_negative("noise_multiplier", noise_multiplier)
    return noise_multiplier * learner.gradient_bound
