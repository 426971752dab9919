"""The best linear model without noise: its loss minimised to the end, with a ridge that is cross-validated."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from .._arrays import Floats
from ..learning import LinearModel

#: Weights of half the squared norm beside the sum of all rows' losses, the heaviest first.
RIDGES = (10.0, 1.0, 0.1, 0.01, 0.001)
_FOLDS = 5


def solved(model: LinearModel, x: NDArray[Any], y: NDArray[Any], ridge: float, start: Floats | None = None) -> Floats:
    """Return the parameters with the least sum of losses, plus the ridge's part; no ball keeps them, no clipping.

    >>> from skipring.learning import LOGISTIC
    >>> model = LinearModel(loss=LOGISTIC, features=1, diameter=10.0)
    >>> solved(model, np.array([[1.0], [1.0], [1.0]]), np.array([1, 1, 0]), ridge=1e-9).round(3)  # the log of 2
    array([0.693])
    """
    rows, norms = x.astype(np.float64), np.ones(len(x))
    weight = ridge / len(rows) + model.ridge

    def objective(w: Floats) -> tuple[float, Floats]:
        scores = rows @ w.reshape(model.shape).T
        slopes = model.loss.slopes(scores, y, norms, math.inf)
        value = float(np.mean(model.loss.values(scores, y))) + 0.5 * weight * float(w @ w)
        return value, (slopes.T @ rows).ravel() / len(rows) + weight * w

    begun = np.zeros(model.parameters) if start is None else start
    options = {"maxiter": 10_000, "maxfun": 20_000, "ftol": 1e-12, "gtol": 1e-7}
    found: Floats = minimize(objective, begun, jac=True, method="L-BFGS-B", options=options).x
    return found


def cross_validated(model: LinearModel, x: NDArray[Any], y: NDArray[Any], rng: np.random.Generator) -> float:
    """Return the ridge with the least loss on rows that are left out, a fifth at a time; of one row, the heaviest."""
    folds = rng.permutation(len(y)) % min(_FOLDS, len(y))
    losses = np.zeros(len(RIDGES))
    for fold in range(folds.max() + 1 if len(y) > 1 else 0):
        left_out, w = folds == fold, None
        for place, ridge in enumerate(RIDGES):
            w = solved(model, x[~left_out], y[~left_out], ridge, w)
            scores = x[left_out].astype(np.float64) @ w.reshape(model.shape).T
            losses[place] += float(model.loss.values(scores, y[left_out]).sum())
    return RIDGES[int(np.argmin(losses))]
