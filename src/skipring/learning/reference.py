"""An update of a linear model, written down plainly: what nodes compute, and what compiled runs are judged by.

Parameters are one vector; softmax has a block of it for each class. Labels are as in the data: 0 and 1 for losses of
one margin, the number of the class for softmax, numbers for squared loss.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import Floats
from .linear import LinearModel
from .update import norm


def row_norms(x: Floats) -> Floats:
    """Return the norm of each row."""
    norms: Floats = np.sqrt(np.einsum("ij,ij->i", x, x))
    return norms


def gradient(
    model: LinearModel, w: Floats, x: Floats, y: NDArray[Any], divisor: int, norms: Floats | None = None
) -> Floats:
    """Return the sum of the rows' gradients, each clipped, over `divisor`, without the ridge term.

    `norms` are those of the rows. Gradients are clipped to the natural bound, too, which they can only exceed if the
    parameters lie outside the ball: what is promised must not depend on who sent them.
    """
    norms = row_norms(x) if norms is None else norms
    slopes = model.loss.slopes(_scores(model, w, x), y, norms, model.gradient_bound)
    return (slopes.T @ x).ravel() / divisor


def stepped(model: LinearModel, w: Floats, gradient: Floats, step_size: float, ridge: float | None = None) -> Floats:
    """Return the parameters after a step along a gradient that noise was added to, within their ball.

    The ridge's part, by default the model's, is no secret, and is added to what the noise has hidden.
    """
    ridge = model.ridge if ridge is None else ridge
    return projected((1.0 - step_size * ridge) * w - step_size * gradient, model.radius)


def projected(w: Floats, radius: float) -> Floats:
    """Return the nearest point of the ball."""
    length = norm(w)
    return w if length <= radius else w * (radius / length)


def test_error(model: LinearModel, w: Floats, x: Floats, y: NDArray[Any]) -> float:
    """Return the share of wrong rows, or the mean squared error; nan if there are no rows."""
    return float(np.mean(model.loss.errors(_scores(model, w, x), y))) if len(x) else math.nan


def mean_loss(model: LinearModel, w: Floats, x: Floats, y: NDArray[Any]) -> float:
    """Return the mean loss of the rows, without the ridge term."""
    return float(np.mean(model.loss.values(_scores(model, w, x), y)))


def _scores(model: LinearModel, w: Floats, x: Floats) -> Floats:
    return x @ w.reshape(model.shape).T
