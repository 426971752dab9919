"""Test errors of linear models, compiled. Test rows lie column by column, so that many are taken at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import extending, njit

from .._arrays import Floats
from ._compiled import (
    FAST,
    Examples,
    Margin,
    Scratch,
    Softmax,
    Squared,
    Test,
    margin_gradients,
    softmax_gradients,
    squared_gradients,
)


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy", inline="always")
def _scores(w: Floats, columns: Floats, scores: Floats) -> None:
    scores[:] = np.float32(0.0)
    d = len(w)
    for j in range(0, d - 3, 4):  # four columns at a time, so that sums are read and written less often
        one, two, three, four = np.float32(w[j]), np.float32(w[j + 1]), np.float32(w[j + 2]), np.float32(w[j + 3])
        for i in range(len(scores)):
            left = one * columns[j, i] + two * columns[j + 1, i]
            scores[i] += left + (three * columns[j + 2, i] + four * columns[j + 3, i])
    for j in range(d - d % 4, d):
        weight = np.float32(w[j])
        for i in range(len(scores)):
            scores[i] += weight * columns[j, i]


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy", inline="always")
def evaluate_margin(model: Margin, w: Floats, test: Test, room: Scratch) -> tuple[float, float]:
    """Return test error and mean loss."""
    rows = len(test.labels)
    margins, parts, cells = room.scores[0], room.scores[1], room.cells
    _scores(w, test.columns, margins)
    wrong = 0
    for i in range(rows):
        # A margin of 0 counts as the class with label -1.
        wrong += 1 if margins[i] < 0.0 or (margins[i] == 0.0 and test.labels[i] > 0.0) else 0
    # One loop for each kind of work: all but the look-up then take many rows at once.
    most, zero = len(model.values) - 2, np.float32(0.0)
    offset, scale, top = np.float32(model.span), np.float32(0.5 * most / model.span), np.float32(most)
    for i in range(rows):
        t = (margins[i] + offset) * scale
        t = t if t > zero else zero
        t = t if t < top else top
        cell = np.int32(t)
        cells[i] = cell
        parts[i] = t - np.float32(cell)
    following = model.values[1:]
    for i in range(rows):
        k = np.uint32(cells[i])
        parts[i] = model.values[k] + parts[i] * (following[k] - model.values[k])
    total = 0.0
    for i in range(rows):
        total += parts[i]
    if model.beyond:  # there the loss is a straight line
        below, above = model.slopes[0], model.slopes[-1]
        for i in range(rows):
            total += below * min(margins[i] + model.span, 0.0) + above * max(margins[i] - model.span, 0.0)
    return wrong / rows, total / rows


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy", inline="always")
def evaluate_squared(model: Squared, w: Floats, test: Test, room: Scratch) -> tuple[float, float]:
    """Return mean squared error and mean loss."""
    rows = len(test.labels)
    scores = room.scores[0]
    _scores(w, test.columns, scores)
    total = 0.0
    for i in range(rows):
        residual = scores[i] - test.labels[i]
        total += residual * residual
    return total / rows, 0.5 * total / rows


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy", inline="always")
def evaluate_softmax(model: Softmax, w: Floats, test: Test, room: Scratch) -> tuple[float, float]:
    """Return test error and mean loss."""
    d, rows = test.columns.shape
    scores = room.scores
    for k in range(model.classes):
        _scores(w[k * d : (k + 1) * d], test.columns, scores[k])
    wrong = 0
    total = 0.0
    for i in range(rows):
        best = 0
        for k in range(1, model.classes):
            if scores[k, i] > scores[best, i]:
                best = k
        top = scores[best, i]
        s = 0.0
        for k in range(model.classes):
            s += np.exp(scores[k, i] - top)
        y = int(test.labels[i])
        wrong += 1 if best != y else 0
        total += np.log(s) + top - scores[y, i]
    return wrong / rows, total / rows


# Of any model --------------------------------------------------------------------------------------------------------
# Which kind of model it is, is found by its type when a loop is compiled: no branch is left. (A loop that captured a
# compiled function would be another one in each process to numba's cache, and be compiled anew each time.)


def gradients(model: Margin | Squared | Softmax, w: Floats, rows: Examples, take: int, room: Scratch) -> None:
    """Write the sum of the clipped gradients of the picked rows into `room.gradient`; for compiled functions only."""
    raise NotImplementedError


def evaluate(model: Margin | Squared | Softmax, w: Floats, test: Test, room: Scratch) -> tuple[float, float]:
    """Return test error and mean loss; for compiled functions only."""
    raise NotImplementedError


@extending.overload(gradients, inline="always", strict=False)
def _gradients(model: Any, w: Any, rows: Any, take: Any, room: Any) -> Any:
    by_kind: dict[type, Any] = {Margin: margin_gradients, Squared: squared_gradients, Softmax: softmax_gradients}
    return by_kind[model.instance_class].py_func


@extending.overload(evaluate, inline="always", strict=False)
def _evaluate(model: Any, w: Any, test: Any, room: Any) -> Any:
    by_kind: dict[type, Any] = {Margin: evaluate_margin, Squared: evaluate_squared, Softmax: evaluate_softmax}
    return by_kind[model.instance_class].py_func
