"""A node's updates of a linear model, in numpy: one clipped, noisy, projected step at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import require_finite_labels, require_unit_rows
from .linear import LinearModel
from .update import Batches, Noise, Rows, noise_std, norm, usable

__all__ = ["LinearLearner"]

Floats = NDArray[np.floating[Any]]
#: Squares of larger numbers overflow, and with them the mean squared error.
_MOST_TEST_LABEL = 1e150


class LinearLearner:
    """Logistic regression, softmax regression or least squares; see `Learner`."""

    dtype = np.dtype("<f8")

    def __init__(self, model: LinearModel, rows: Rows, *, batch: int | None, rng: np.random.Generator) -> None:
        for what, x, y in (("training", rows.train_x, rows.train_y), ("test", rows.test_x, rows.test_y)):
            require_unit_rows(x, what)
            require_finite_labels(y, what, _MOST_TEST_LABEL if what == "test" else math.inf)
        self._model, self.rows = model, rows
        self._norms = np.sqrt(np.einsum("ij,ij->i", rows.train_x, rows.train_x))
        self._batches = Batches(len(rows.train_x), batch, rng)
        self.name: str = model.loss
        self.shape = (model.parameters,)
        self.radius, self.gradient_bound = model.radius, model.gradient_bound
        self.labels_clipped = rows.labels_clipped

    def contracts(self, step_size: float) -> bool:
        """Say whether updates with steps of at most this size are contractions."""
        return self._model.contracts(step_size)

    def initial(self) -> NDArray[Any]:
        """Return zeros."""
        return np.zeros(self.shape, self.dtype)

    def prepare(self) -> None:
        """Choose the rows of the next update."""
        self._batches.prepare()

    def update(
        self, parameters: NDArray[Any], *, step_size: float, noise_multiplier: float, noise: Noise
    ) -> NDArray[Any]:
        """Return the parameters after one noisy step."""
        w = usable(parameters, self)
        std = noise_std(self, step_size, noise_multiplier)
        gradient = self._gradient(w, self._batches.take())
        if std > 0.0:
            noise.add(gradient, std)
        # The ridge's part is no secret, and is added to what the noise has hidden.
        w = (1.0 - step_size * self._model.ridge) * w - step_size * gradient
        length = norm(w)
        return w if length <= self.radius else w * (self.radius / length)

    def _gradient(self, w: Floats, rows: NDArray[np.int64]) -> Floats:
        """Return the mean of the rows' gradients, each clipped.

        They are clipped to the natural bound, too, which they can only exceed if the parameters lie outside the ball:
        what is promised must not depend on who sent them.
        """
        x, y, norms = self.rows.train_x[rows], self.rows.train_y[rows], self._norms[rows]
        if self._model.loss == "softmax":
            each = _class_shares(x @ w.reshape(self._model.classes, -1).T)
            each[np.arange(len(y)), y] -= 1.0
            sizes = norms * np.sqrt(np.einsum("ij,ij->i", each, each))
            each *= np.minimum(1.0, self.gradient_bound / np.maximum(sizes, 1e-300))[:, None]
            return (each.T @ x).ravel() / len(rows)
        if self._model.loss == "squared":
            slopes = x @ w - y
        else:
            signs = 2.0 * y - 1.0
            slopes = -signs * np.exp(-np.logaddexp(0.0, signs * (x @ w)))
        # Squares of what is shorter vanish: such a row is taken to be as long as that, which clips it all the more.
        limits = self.gradient_bound / np.maximum(norms, 1e-150)
        return np.clip(slopes, -limits, limits) @ x / len(rows)

    def test_error(self, parameters: NDArray[Any]) -> float:
        """Return the share of wrong test rows, or the mean squared error."""
        w, x, y = usable(parameters, self), self.rows.test_x, self.rows.test_y
        if not len(x):
            return math.nan
        if self._model.loss == "squared":
            return float(np.mean((x @ w - y) ** 2))
        if self._model.loss == "softmax":
            return float(np.mean(np.argmax(x @ w.reshape(self._model.classes, -1).T, axis=1) != y))
        return float(np.mean((x @ w > 0.0) != (y == 1)))


def _class_shares(scores: Floats) -> Floats:
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    return shares
