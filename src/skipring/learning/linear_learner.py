"""A node's updates of a linear model, in numpy: one clipped, noisy, projected step at a time."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import require_finite_labels, require_unit_rows
from . import reference
from .learner import Learner
from .linear import LinearModel
from .units import Protection
from .update import NothingFits, Pieces, Rows, without_tiny

#: Squares of larger numbers overflow, and with them the mean squared error.
_MOST_TEST_LABEL = 1e150


class LinearLearner(Learner):
    """A loss of one margin (logistic or your own), softmax regression or least squares; see `Learner`.

    Rows that a user's function has made too long are cut to length 1.
    """

    dtype = np.dtype("<f8")

    def __init__(
        self,
        model: LinearModel,
        rows: Rows,
        *,
        protection: Protection,
        rng: np.random.Generator,
        dealt: np.random.Generator | None = None,
    ) -> None:
        for what, x, y in (("training", rows.train_x, rows.train_y), ("test", rows.test_x, rows.test_y)):
            require_unit_rows(x, what)
            require_finite_labels(y, what, _MOST_TEST_LABEL if what == "test" else math.inf)
        x, y = without_tiny(rows.train_x), without_tiny(rows.train_y)
        super().__init__(model, rows, features=x, labels=y, protection=protection, rng=rng, dealt=dealt)
        self._linear, self.rows = model, dataclasses.replace(rows, train_x=x, train_y=y)
        self._norms, self.shape = reference.row_norms(x), (model.parameters,)

    def initial(self) -> NDArray[Any]:
        """Return zeros."""
        return np.zeros(self.shape, self.dtype)

    def _gradient(self, w: NDArray[Any], turn: int, pieces: Pieces) -> list[NDArray[Any]]:
        rows, other = self._take(turn)
        divisor, taken, gradient = self.protection.divisor(len(rows)), 0, None
        for piece in pieces(len(rows)):
            some = rows[piece]
            taken += len(some)
            x, norms = self.rows.train_x[some], self._norms[some]
            if other is not None:
                x = _shortened(other[piece])
                norms = reference.row_norms(x)
            found = reference.gradient(self._linear, w, x, self.rows.train_y[some], divisor, norms)
            gradient = found if gradient is None else gradient + found
        if gradient is None:
            raise NothingFits
        if self.protection.unit == "node" and taken < len(rows):
            gradient *= len(rows) / taken  # the mean of those that were taken
        return [gradient]

    def _stepped(self, w: NDArray[Any], gradient: list[NDArray[Any]], step_size: float, ridge: float) -> NDArray[Any]:
        return reference.stepped(self._linear, w, gradient[0], step_size, ridge)

    def test_error(self, parameters: NDArray[Any]) -> float:
        """Return the share of wrong test rows, or the mean squared error."""
        return reference.test_error(self._linear, self._usable(parameters), self.rows.test_x, self.rows.test_y)


def _shortened(x: NDArray[Any]) -> NDArray[Any]:
    """Return rows of at most length 1, as all bounds need them."""
    wide = x.astype(np.float64)
    return wide / np.maximum(1.0, reference.row_norms(wide))[:, None] * (1.0 - 1e-12)
