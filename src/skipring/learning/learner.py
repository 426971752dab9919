"""A node's model and rows, whatever the model: what it knows of them, and the rows of its next update.

Whatever the rows are, and whatever parameters come in, what one protected unit adds to an update before the noise is at
most `step_size` x what `Protection` says it can contribute.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._arrays import AnyInts
from ..errors import InvalidInput
from .linear import LinearModel
from .networks import NeuralModel
from .units import Batches, Protection, deal_parts, most_units, unit_count
from .update import Noise, Pieces, PrepareRows, Rows, all_at_once, norm, require_step, without_tiny


class Learner(ABC):
    """A node's model and rows. One call at a time.

    `features` and `labels` are the training rows as the model takes them; a user's function gets copies of some. `rng`
    draws batches where nodes are protected, and `dealt` deals rows into parts where persons or records are. The noise
    hides what `protection` says.
    """

    #: What the parameters are, little endian: double precision for linear models, single for networks.
    dtype: ClassVar[np.dtype[Any]]
    #: The number of parameters.
    shape: tuple[int, ...]

    def __init__(
        self,
        model: LinearModel | NeuralModel,
        rows: Rows,
        *,
        features: NDArray[Any],
        labels: NDArray[Any],
        protection: Protection,
        rng: np.random.Generator,
        dealt: np.random.Generator | None,
    ) -> None:
        parts = deal_parts(len(rows.train_x), protection, dealt or rng, rows.persons)
        self._model, self.protection, self.name = model, protection, model.name
        #: How far from 0 the parameters may be; infinity if there is no bound.
        self.radius = model.radius
        #: What gradients are clipped to: each row's, each person's or the node's mean, whatever is protected.
        self.gradient_bound = model.gradient_bound
        #: How many parts the rows rotate through, and the most protected units that an update takes.
        self.parts, self.units = len(parts), most_units(parts, protection, rows.persons)
        #: How many protected units this node has.
        self.all_units = unit_count(len(rows.train_x), protection, rows.persons)
        # For its owner alone: a digest of the training rows, whose they are and in which part; what always guessing the
        # same reaches on test rows; how many rows are left out, and how many labels were clipped to the agreed bound.
        self.rows_digest, self.guess = rows.digest(parts), rows.guess
        self.rows_left_out, self.labels_clipped = rows.left_out, rows.labels_clipped
        self._batches = Batches(len(rows.train_x), protection, rng, parts=parts)
        self._features, self._labels = features, labels
        self._with_rows: PrepareRows | None = None
        self._ready: tuple[AnyInts, NDArray[Any]] | None = None

    def noise_std(self, noise_multiplier: float) -> float:
        """Return the standard deviation of the noise on an update's gradient."""
        return self.protection.noise_std(self._model, noise_multiplier)

    def contracts(self, step_size: float) -> bool:
        """Say whether updates with steps of at most this size are contractions, which amplification needs."""
        return self._model.contracts(step_size)

    @abstractmethod
    def initial(self) -> NDArray[Any]:
        """Return the parameters that a run starts with: the same at every node."""

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
        require_step(turn, step_size, noise_multiplier)
        w = self._usable(parameters)
        # From here on nothing depends on the node's rows but what is in the gradient.
        gradient = self._noisy(self._gradient(w, turn, pieces), noise_multiplier, noise)
        return self._stepped(w, gradient, step_size, self._model.ridge)

    def close(
        self, parameters: NDArray[Any], *, step_size: float, noise_multiplier: float, noise: Noise
    ) -> NDArray[Any]:
        """Return project(w - step size x noise), an update without any rows; w may be overwritten."""
        require_step(0, step_size, noise_multiplier)
        w = self._usable(parameters)
        return self._stepped(w, self._noisy(self._nothing(), noise_multiplier, noise), step_size, 0.0)

    def _noisy(self, gradient: list[NDArray[Any]], noise_multiplier: float, noise: Noise) -> list[NDArray[Any]]:
        if (std := self.noise_std(noise_multiplier)) > 0.0:
            for piece in gradient:
                noise.add(piece, std)
        return gradient

    def _nothing(self) -> list[NDArray[Any]]:
        """Return a gradient of zeros."""
        return [np.zeros(self.shape, self.dtype)]

    @abstractmethod
    def _gradient(self, w: NDArray[Any], turn: int, pieces: Pieces) -> list[NDArray[Any]]:
        """Return the clipped gradient on the rows of a turn, a vector or several that make it up."""

    @abstractmethod
    def _stepped(self, w: NDArray[Any], gradient: list[NDArray[Any]], step_size: float, ridge: float) -> NDArray[Any]:
        """Return the parameters after a step, within their ball."""

    @abstractmethod
    def test_error(self, parameters: NDArray[Any]) -> float:
        """Return the share of wrong test rows, or for numbers the mean squared error; nan if there are no test rows."""

    def prepare(self, turn: int = 0, with_rows: PrepareRows | None = None) -> None:
        """Choose the rows of the next update, at a turn, and get them ready, as the model takes them."""
        self._with_rows = with_rows
        self._batches.prepare()
        if with_rows is not None:
            rows = self._batches.peek(turn)
            self._ready = rows, self._made(with_rows, rows)

    def _take(self, turn: int) -> tuple[AnyInts, NDArray[Any] | None]:
        """Return the rows of an update, and what was made of their features; None if they are as they were.

        Where other rows were got ready than those of this turn's part, it is made up for.
        """
        rows, ready = self._batches.take(turn), self._ready
        self._ready = None
        if self._with_rows is None:
            return rows, None
        if ready is not None and np.array_equal(ready[0], rows):
            return rows, ready[1]
        return rows, self._made(self._with_rows, rows)

    def _made(self, with_rows: PrepareRows, rows: AnyInts) -> NDArray[Any]:
        features = self._features[rows]
        made = with_rows(features.copy(), self._labels[rows].copy())
        if made is None:
            return features
        made = np.asarray(made)
        given = f"features of shape {made.shape} and type {made.dtype}"
        if made.dtype.kind in "fiu":
            with np.errstate(over="ignore", invalid="ignore"):
                made = made.astype(features.dtype)  # what is finite in a wider type need not be in this one
        if made.shape != features.shape or made.dtype.kind != "f" or not np.isfinite(made).all():
            raise InvalidInput("data.prepare", given, f"finite numbers of shape {features.shape}, or None")
        return without_tiny(made)

    def _usable(self, parameters: NDArray[Any]) -> NDArray[Any]:
        """Return parameters that came from elsewhere, if they can be this learner's; they can be written."""
        if parameters.shape != self.shape or parameters.dtype != self.dtype:
            given, wanted = f"{parameters.shape} of {parameters.dtype}", f"{self.shape} of {self.dtype}"
            raise InvalidInput("parameters", given, f"{wanted}, as this node's model is")
        # With a finite norm, every product with a row is finite as well.
        if not math.isfinite(norm(parameters)):
            raise InvalidInput("parameters", "infinite or not a number", "finite")
        return np.require(parameters, requirements=["C", "W"])
