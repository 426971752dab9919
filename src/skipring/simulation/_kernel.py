"""One run of Algorithm 1 for a linear model, compiled. Random numbers come from numpy's generator of that run.

Most of the time goes into random numbers and exponentials, so both are spared: one uniform number serves several draws
of a shuffle, and the logistic function, whose argument is bounded by the radius, is read from a table. (Between the
points of the table it is linear, increasing, and no steeper than 1/4: the gradient of a loss that is as convex and as
smooth.) Test rows are kept column by column, so that evaluation runs over many rows at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = [
    "LOGISTIC",
    "SOFTMAX",
    "SQUARED",
    "add_margin_gradients",
    "add_softmax_gradients",
    "evaluate_margin",
    "evaluate_softmax",
    "logistic_tables",
    "run_margin",
    "run_softmax",
]

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.integer[Any]]

LOGISTIC, SQUARED, SOFTMAX = 0, 1, 2
#: Width of a cell of the tables: linear interpolation is then good to 2e-8.
_CELL = 1.0 / 820.0
#: Beyond this margin the logistic function is 0 or 1 to all digits.
_FLAT = 40.0
#: A uniform number is used up once its digits have chosen among so many possibilities.
_CHOICES = 1e6
# Sums may be reordered and divisions turned into products; nan and infinity keep their meaning.
_FAST = {"reassoc", "nsz", "contract", "arcp"}


def logistic_tables(radius: float) -> tuple[Floats, Floats, float]:
    """Return 1/(1 + e^m) and ln(1 + e^-m) for margins m from -span to span, one cell beyond, and the span."""
    span = min(radius, _FLAT)
    cells = max(16, int(np.ceil(2.0 * span / _CELL)))
    margins = np.linspace(-span, span, cells + 1)
    slope, loss = 1.0 / (1.0 + np.exp(margins)), np.logaddexp(0.0, -margins)
    return np.append(slope, slope[-1]), np.append(loss, loss[-1]).astype(np.float32), span


@njit(nogil=True, cache=True, fastmath=_FAST)
def evaluate_margin(
    loss: int, w: Floats, columns: Floats, labels: Floats, span: float, table: Floats, margins: Floats
) -> tuple[float, float]:
    """Return test error and mean loss. For logistic loss the columns carry the sign of the label."""
    d, rows = columns.shape
    for i in range(rows):
        margins[i] = 0.0
    for j in range(d):
        a = np.float32(w[j])
        for i in range(rows):
            margins[i] += a * columns[j, i]
    total = 0.0
    if loss == SQUARED:
        for i in range(rows):
            residual = margins[i] - labels[i]
            total += residual * residual
        return total / rows, 0.5 * total / rows
    wrong = 0
    for i in range(rows):
        # A margin of 0 counts as the class with label -1.
        wrong += 1 if margins[i] < 0.0 or (margins[i] == 0.0 and labels[i] > 0.0) else 0
    cells = len(table) - 2
    offset, scale, top = np.float32(span), np.float32(0.5 * cells / span), np.float32(cells)
    for i in range(rows):
        t = min(max((margins[i] + offset) * scale, np.float32(0.0)), top)
        k = int(t)
        # Below the table the loss is a straight line.
        total += table[k] + (t - k) * (table[k + 1] - table[k]) + max(-margins[i] - offset, np.float32(0.0))
    return wrong / rows, total / rows


@njit(nogil=True, cache=True, fastmath=_FAST, inline="always")
def add_margin_gradients(
    rng: np.random.Generator,
    loss: int,
    w: Floats,
    x: Floats,
    y: Floats,
    low: int,
    rows: int,
    take: int,
    order: Ints,
    limits: Floats,
    slopes: Floats,
    span: float,
    gradient: Floats,
) -> None:
    """Add the gradients of a batch of a node's rows, `rows` of them from `low` on, for a loss of one margin per row.

    A batch is drawn without replacement by the first steps of a shuffle of the node's rows; the order that is left
    behind is as good a start for the next shuffle as any.
    """
    d = len(w)
    clips = len(limits) > 0
    cells = len(slopes) - 2
    cells_per_unit = 0.5 * cells / span
    u = 0.0
    chosen = 2.0 * _CHOICES
    for i in range(take):
        row = low + i
        if take < rows:
            left = rows - i
            chosen *= left
            if chosen > _CHOICES:
                u = rng.random()
                chosen = left
            u *= left
            k = int(u)
            u -= k
            k = min(k, left - 1) + low + i
            row = order[k]
            order[k] = order[low + i]
            order[low + i] = row
        margin = 0.0
        for j in range(d):
            margin += w[j] * x[row, j]
        if loss == LOGISTIC:
            t = min(max((margin * y[row] + span) * cells_per_unit, 0.0), float(cells))
            k = int(t)
            c = -y[row] * (slopes[k] + (t - k) * (slopes[k + 1] - slopes[k]))
        else:
            c = margin - y[row]
        if clips:
            c = min(max(c, -limits[row]), limits[row])
        for j in range(d):
            gradient[j] += c * x[row, j]


@njit(nogil=True, cache=True, fastmath=_FAST)
def run_margin(
    rng: np.random.Generator,
    loss: int,
    limits: Floats,
    ridge: float,
    radius: float,
    slopes: Floats,
    loss_table: Floats,
    span: float,
    x: Floats,
    y: Floats,
    start: Ints,
    batch: int,
    path: Ints,
    ready: NDArray[np.bool_],
    step_sizes: Floats,
    noise_std: float,
    every: int,
    test_columns: Floats,
    test_labels: Floats,
    w: Floats,
    errors: Floats,
    losses: Floats,
    updates: Ints,
) -> None:
    """Walk the token along `path`, for a loss of one margin per row; w is the model, changed in place.

    `limits` bounds the slope of each row's loss (its gradient clipped); it is empty if nothing is clipped.
    """
    d = len(w)
    order = np.arange(len(x))
    gradient = np.empty(d)
    margins = np.empty(test_columns.shape[1], np.float32)
    done = 0
    point = 0
    for h in range(len(path)):
        if h % every == 0:
            errors[point], losses[point] = evaluate_margin(
                loss, w, test_columns, test_labels, span, loss_table, margins
            )
            updates[point] = done
            point += 1
        if not ready[h]:
            continue
        v = path[h]
        low = start[v]
        rows = start[v + 1] - low
        take = min(rows, batch)
        for j in range(d):
            gradient[j] = 0.0
        add_margin_gradients(rng, loss, w, x, y, low, rows, take, order, limits, slopes, span, gradient)
        eta = step_sizes[done]
        share = eta / take
        shrink = 1.0 - eta * ridge
        noise = eta * noise_std
        squares = 0.0
        if noise > 0.0:
            for j in range(d):
                value = shrink * w[j] - share * gradient[j] - noise * rng.standard_normal()
                w[j] = value
                squares += value * value
        else:
            for j in range(d):
                value = shrink * w[j] - share * gradient[j]
                w[j] = value
                squares += value * value
        if squares > radius * radius:
            scale = radius / np.sqrt(squares)
            for j in range(d):
                w[j] *= scale
        done += 1
    errors[point], losses[point] = evaluate_margin(loss, w, test_columns, test_labels, span, loss_table, margins)
    updates[point] = done


@njit(nogil=True, cache=True, fastmath=_FAST)
def evaluate_softmax(w: Floats, columns: Floats, labels: Floats, scores: Floats) -> tuple[float, float]:
    """Return test error and mean loss."""
    d, rows = columns.shape
    classes = len(scores)
    for k in range(classes):
        for i in range(rows):
            scores[k, i] = 0.0
        for j in range(d):
            a = np.float32(w[k * d + j])
            for i in range(rows):
                scores[k, i] += a * columns[j, i]
    wrong = 0
    total = 0.0
    for i in range(rows):
        best = 0
        for k in range(1, classes):
            if scores[k, i] > scores[best, i]:
                best = k
        top = scores[best, i]
        s = 0.0
        for k in range(classes):
            s += np.exp(scores[k, i] - top)
        y = int(labels[i])
        wrong += 1 if best != y else 0
        total += np.log(s) + top - scores[y, i]
    return wrong / rows, total / rows


@njit(nogil=True, cache=True, fastmath=_FAST, inline="always")
def add_softmax_gradients(
    rng: np.random.Generator,
    classes: int,
    clip: float,
    w: Floats,
    x: Floats,
    y: Floats,
    low: int,
    rows: int,
    take: int,
    order: Ints,
    residuals: Floats,
    gradient: Floats,
) -> None:
    """Add the gradients of a batch of a node's rows for softmax regression; see `add_margin_gradients`."""
    d = x.shape[1]
    for i in range(take):
        row = low + i
        if take < rows:
            k = min(int(rng.random() * (rows - i)), rows - i - 1) + low + i
            row = order[k]
            order[k] = order[low + i]
            order[low + i] = row
        top = -np.inf
        for k in range(classes):
            s = 0.0
            for j in range(d):
                s += w[k * d + j] * x[row, j]
            residuals[k] = s
            top = max(top, s)
        total = 0.0
        for k in range(classes):
            residuals[k] = np.exp(residuals[k] - top)
            total += residuals[k]
        squares = 0.0
        for k in range(classes):
            residuals[k] = residuals[k] / total - (1.0 if k == int(y[row]) else 0.0)
            squares += residuals[k] * residuals[k]
        scale = 1.0
        if clip > 0.0:
            norm = 0.0
            for j in range(d):
                norm += x[row, j] * x[row, j]
            norm = np.sqrt(norm * squares)
            scale = clip / norm if norm > clip else 1.0
        for k in range(classes):
            c = residuals[k] * scale
            for j in range(d):
                gradient[k * d + j] += c * x[row, j]


@njit(nogil=True, cache=True, fastmath=_FAST)
def run_softmax(
    rng: np.random.Generator,
    classes: int,
    clip: float,
    ridge: float,
    radius: float,
    x: Floats,
    y: Floats,
    start: Ints,
    batch: int,
    path: Ints,
    ready: NDArray[np.bool_],
    step_sizes: Floats,
    noise_std: float,
    every: int,
    test_columns: Floats,
    test_labels: Floats,
    w: Floats,
    errors: Floats,
    losses: Floats,
    updates: Ints,
) -> None:
    """Walk the token along `path`, for softmax regression; w holds one block of parameters for each class.

    `clip` bounds the norm of an example's gradient; 0 means that nothing is clipped.
    """
    order = np.arange(len(x))
    gradient = np.empty(len(w))
    residuals = np.empty(classes)
    scores = np.empty((classes, test_columns.shape[1]), np.float32)
    done = 0
    point = 0
    for h in range(len(path)):
        if h % every == 0:
            errors[point], losses[point] = evaluate_softmax(w, test_columns, test_labels, scores)
            updates[point] = done
            point += 1
        if not ready[h]:
            continue
        v = path[h]
        low = start[v]
        rows = start[v + 1] - low
        take = min(rows, batch)
        gradient[:] = 0.0
        add_softmax_gradients(rng, classes, clip, w, x, y, low, rows, take, order, residuals, gradient)
        eta = step_sizes[done]
        share = eta / take
        shrink = 1.0 - eta * ridge
        noise = eta * noise_std
        squares = 0.0
        for j in range(len(w)):
            value = shrink * w[j] - share * gradient[j]
            if noise > 0.0:
                value -= noise * rng.standard_normal()
            w[j] = value
            squares += value * value
        if squares > radius * radius:
            scale = radius / np.sqrt(squares)
            for j in range(len(w)):
                w[j] *= scale
        done += 1
    errors[point], losses[point] = evaluate_softmax(w, test_columns, test_labels, scores)
    updates[point] = done
