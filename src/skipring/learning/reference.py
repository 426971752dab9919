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
    if model.loss == "softmax":
        each = _class_shares(x @ w.reshape(model.classes, -1).T)
        own = np.arange(len(y)), y.astype(np.int64, copy=False)
        each[own] = 0.0
        wrong = each.sum(axis=1)
        each[own] = -wrong
        # A row's gradient is at most sqrt(2) |x| (1 - p_y) long. Capping that keeps it the gradient of a convex
        # function (docs/privacy.md, "Clipping"), which cutting it to its own length would not.
        sizes = math.sqrt(2.0) * norms * wrong
        each *= np.minimum(1.0, model.gradient_bound / np.maximum(sizes, 1e-300))[:, None]
        return (each.T @ x).ravel() / divisor
    loss = model.margin_loss
    if loss is None:
        slopes = x @ w - y
    else:
        signs = 2.0 * y - 1.0
        slopes = signs * loss.slope(signs * (x @ w))
    # Squares of what is shorter vanish: such a row is taken to be as long as that, which clips it all the more.
    limits = model.gradient_bound / np.maximum(norms, 1e-150)
    return np.minimum(np.maximum(slopes, -limits), limits) @ x / divisor


def stepped(model: LinearModel, w: Floats, gradient: Floats, step_size: float) -> Floats:
    """Return the parameters after a step along a gradient that noise was added to, within their ball.

    The ridge's part is no secret, and is added to what the noise has hidden.
    """
    return projected((1.0 - step_size * model.ridge) * w - step_size * gradient, model.radius)


def projected(w: Floats, radius: float) -> Floats:
    """Return the nearest point of the ball."""
    length = norm(w)
    return w if length <= radius else w * (radius / length)


def test_error(model: LinearModel, w: Floats, x: Floats, y: NDArray[Any]) -> float:
    """Return the share of wrong rows, or the mean squared error; nan if there are no rows."""
    return float(np.mean(row_errors(model, w, x, y))) if len(x) else math.nan


def row_errors(model: LinearModel, w: Floats, x: Floats, y: NDArray[Any]) -> Floats:
    """Return for each row 1 if its predicted class is wrong, and else 0; or the squared error of its number."""
    if model.loss == "squared":
        errors: Floats = (x @ w - y) ** 2
        return errors
    if model.loss == "softmax":
        return (np.argmax(x @ w.reshape(model.classes, -1).T, axis=1) != y).astype(np.float64)
    return ((x @ w > 0.0) != (y == 1)).astype(np.float64)


def mean_loss(model: LinearModel, w: Floats, x: Floats, y: NDArray[Any]) -> float:
    """Return the mean loss of the rows, without the ridge term."""
    if model.loss == "softmax":
        scores = x @ w.reshape(model.classes, -1).T
        top = scores.max(axis=1)
        each = np.log(np.exp(scores - top[:, None]).sum(axis=1)) + top
        return float(np.mean(each - scores[np.arange(len(y)), y.astype(np.int64, copy=False)]))
    if model.margin_loss is None:
        return float(0.5 * np.mean((x @ w - y) ** 2))
    return float(np.mean(model.margin_loss.value((2.0 * y - 1.0) * (x @ w))))


def _class_shares(scores: Floats) -> Floats:
    shares: Floats = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    return shares
