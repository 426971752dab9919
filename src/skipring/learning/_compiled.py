"""Updates of linear models, compiled: the fast twins of `reference`, which they are tested against.

Much of the time goes into random numbers, exponentials and waiting, so all are spared. One uniform number serves
several draws of a shuffle. A loss of one margin is read from a table, as margins are bounded by the radius. (Between
the points of the table its slope is linear, increasing, and no steeper than the loss is smooth. So it is the gradient
of a loss that is as convex and as smooth.) All random numbers of an update are drawn before its arithmetic. Rows carry
the sign of their label where the loss is one of a margin.

What a function is given is a few named tuples. Everything is inlined where it is called: what is compiled then does not
depend on what was found on disk, and neither do the last digits.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .._arrays import AnyInts, Floats
from .linear import LinearModel
from .loss import SoftmaxLoss
from .margin_loss import MarginLoss
from .units import Protection

#: Width of a cell of the tables, for a smoothness of at most 1/4: linear interpolation is then good to 2e-8.
_CELL = 1.0 / 820.0
#: No table has more cells: 8 MB.
_MOST_CELLS = 1 << 20
#: How many possibilities a uniform number chooses among; softmax, whose exponentials take longer, has one for each row.
_CHOICES = 1e6
#: Sums may be reordered and divisions turned into products; nan and infinity keep their meaning.
FAST = {"reassoc", "nsz", "contract", "arcp"}
_FILES = [Path(__file__).with_name(name).read_bytes() for name in ("_compiled.py", "_evaluated.py")]
#: Stands for how these functions are written. numba keeps compiled functions on disk, and looks only at the file of the
#: function itself; a kernel with this number in its closure is compiled afresh when what it inlines has changed.
SOURCE = int(hashlib.sha256(b"".join(_FILES)).hexdigest()[:12], 16)


class Margin(NamedTuple):
    """A loss of one margin, read from a table of margins from -span to span; `beyond`: margins may lie outside it.

    `limits` bounds the slope of each row's loss (its gradient clipped); it is empty if nothing is clipped. A uniform
    number is used up once its digits have chosen among `choices` possibilities.
    """

    choices: float
    slopes: Floats
    values: Floats
    span: float
    beyond: bool
    limits: Floats


class Squared(NamedTuple):
    """Half the squared residual; for the rest see `Margin`."""

    choices: float
    limits: Floats


class Softmax(NamedTuple):
    """Softmax regression; `limits` bounds 1 - p_y of each row, and with it the row's gradient; see `Margin`."""

    choices: float
    classes: int
    limits: Floats


class Examples(NamedTuple):
    """The rows of all nodes, part by part: part p from `start[p]` to `start[p + 1]`, at most `batch` rows per update.

    Node v has the parts from `first[v]` to `first[v + 1]`, and takes one after the other; mostly there is one.
    """

    x: Floats
    y: Floats
    start: AnyInts
    first: AnyInts
    batch: int


class UpdateRule(NamedTuple):
    """What an update does: the sum over its rows is divided by `divisor`, of which 0 means the number of rows."""

    step_sizes: Floats
    divisor: float
    noise_std: float
    ridge: float
    radius: float


class Test(NamedTuple):
    """Test rows, column by column, and their labels."""

    columns: Floats
    labels: Floats


class RunMetrics(NamedTuple):
    """What a run leaves at regular steps (`every`): test error, mean test loss, number of updates."""

    every: int
    errors: Floats
    losses: Floats
    updates: AnyInts


class Scratch(NamedTuple):
    """Room for what a run needs between its steps: one for each run."""

    order: AnyInts
    picked: AnyInts
    slopes: Floats
    gradient: Floats
    noise: Floats
    scores: Floats
    cells: AnyInts


def loss_table(loss: MarginLoss, radius: float) -> tuple[Floats, Floats, float]:
    """Return slope and value of a loss for margins from -span to span, one cell beyond, and the span."""
    span = min(radius, loss.flat)
    cell = _CELL * min(1.0, 0.25 / loss.smoothness)
    cells = min(max(16, int(np.ceil(2.0 * span / cell))), _MOST_CELLS)
    margins = np.linspace(-span, span, cells + 1)
    slopes, values = loss.slope(margins), loss.value(margins)
    return np.append(slopes, slopes[-1]), np.append(values, values[-1]).astype(np.float32), span


def compiled_model(model: LinearModel, x: Floats) -> Margin | Squared | Softmax:
    """Return what compiled functions need to know about a model, given all training rows."""
    limits = np.zeros(0)
    if model.clips:
        norms = np.sqrt(np.einsum("ij,ij->i", x, x))
        # Squares of what is shorter vanish: such a row is taken to be as long as that, which clips it all the more.
        limits = model.gradient_bound / np.maximum(norms, 1e-150)
    loss = model.loss
    if isinstance(loss, SoftmaxLoss):
        # A row's gradient is at most sqrt(2) |x| (1 - p_y) long.
        return Softmax(0.0, model.classes, limits / np.sqrt(2.0))
    if not isinstance(loss, MarginLoss):
        return Squared(_CHOICES, limits)
    slopes, values, span = loss_table(loss, model.radius)
    return Margin(_CHOICES, slopes, values, span, model.radius > span, limits)


def examples_of(
    model: LinearModel, x: Floats, y: NDArray[Any], start: AnyInts, batch: int, first: AnyInts | None = None
) -> Examples:
    """Lay training rows out; without `first` a node has one part, so `start` says where its rows begin."""
    x, labels = np.ascontiguousarray(x, dtype=np.float64), np.asarray(y, np.float64)
    if isinstance(model.loss, MarginLoss):
        labels = 2.0 * labels - 1.0
        x = x * labels[:, None]
    first = np.arange(len(start)) if first is None else first
    return Examples(x, labels, np.ascontiguousarray(start, np.int64), np.ascontiguousarray(first, np.int64), batch)


def tests_of(model: LinearModel, x: Floats, y: NDArray[Any]) -> Test:
    """Lay test rows out."""
    x, labels = np.asarray(x, np.float32), np.asarray(y, np.float64)
    if isinstance(model.loss, MarginLoss):
        labels = 2.0 * labels - 1.0
        x = x * labels.astype(np.float32)[:, None]
    return Test(np.ascontiguousarray(x.T), labels.astype(np.float32))


def update_rule(model: LinearModel, protection: Protection, step_sizes: Floats, noise_multiplier: float) -> UpdateRule:
    """Say what an update does."""
    divisor = float(protection.divisor(0))
    return UpdateRule(step_sizes, divisor, protection.noise_std(model, noise_multiplier), model.ridge, model.radius)


def scratch_for(model: LinearModel, rows: Examples, test: Test) -> Scratch:
    """Make room for a run."""
    tests = test.columns.shape[1]
    return Scratch(
        order=np.arange(len(rows.x)),
        picked=np.empty(rows.batch, np.int64),
        slopes=np.empty(max(rows.batch, model.classes)),
        gradient=np.empty(model.parameters),
        noise=np.zeros(model.parameters),
        scores=np.empty((max(2, model.classes), tests), np.float32),
        cells=np.empty(tests, np.int32),
    )


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy", inline="always")
def draw_batch(rng: np.random.Generator, choices: float, rows: Examples, part: int, room: Scratch) -> int:
    """Choose a batch of a part's rows for `room.picked`, and return its size.

    It is drawn without replacement by the first steps of a shuffle of the part's rows. The order that is left behind is
    as good a start for the next shuffle as any. A uniform number serves draws among `choices` possibilities.
    """
    low = rows.start[part]
    many = rows.start[part + 1] - low
    take = min(many, rows.batch)
    u = 0.0
    chosen = choices + 1.0
    for i in range(take):
        row = low + i
        if take < many:
            left = many - i
            chosen *= left
            if chosen > choices:
                u = rng.random()
                chosen = left
            u *= left
            whole = np.floor(u)
            u -= whole
            k = min(int(whole), left - 1) + low + i
            row = room.order[k]
            room.order[k] = room.order[low + i]
            room.order[low + i] = row
        room.picked[i] = row
    return take


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy", inline="always")
def draw_noise(rng: np.random.Generator, room: Scratch) -> None:
    """Draw a standard normal number for each parameter."""
    for j in range(len(room.noise)):
        room.noise[j] = rng.standard_normal()


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy", inline="always")
def take_step(
    w: Floats, gradient: Floats, share: float, noise: Floats, std: float, shrink: float, radius: float
) -> None:
    """Turn w into shrink x w - share x gradient - std x noise, projected onto the ball."""
    squares = 0.0
    for j in range(len(w)):
        value = shrink * w[j] - share * gradient[j] - std * noise[j]
        w[j] = value
        squares += value * value
    _scale_down(w, squares, radius)


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy", inline="always")
def project(w: Floats, radius: float) -> None:
    """Move w to the nearest point of the ball."""
    squares = 0.0
    for j in range(len(w)):
        squares += w[j] * w[j]
    _scale_down(w, squares, radius)


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy", inline="always")
def _scale_down(w: Floats, squares: float, radius: float) -> None:
    if squares > radius * radius:
        scale = radius / np.sqrt(squares)
        for j in range(len(w)):
            w[j] *= scale


# Gradients -----------------------------------------------------------------------------------------------------------


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy", inline="always")
def _products(w: Floats, rows: Examples, take: int, room: Scratch) -> None:
    for i in range(take):
        row = room.picked[i]
        summed = 0.0
        for j in range(len(w)):
            summed += w[j] * rows.x[row, j]
        room.slopes[i] = summed


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy", inline="always")
def _add_rows(limits: Floats, rows: Examples, take: int, room: Scratch) -> None:
    if len(limits) > 0:
        for i in range(take):
            limit = limits[room.picked[i]]
            room.slopes[i] = min(max(room.slopes[i], -limit), limit)
    d = len(room.gradient)
    for j in range(0, d - 3, 4):  # sums of four columns do not wait for each other, nor for memory
        one = two = three = four = 0.0
        for i in range(take):
            row, slope = room.picked[i], room.slopes[i]
            one += slope * rows.x[row, j]
            two += slope * rows.x[row, j + 1]
            three += slope * rows.x[row, j + 2]
            four += slope * rows.x[row, j + 3]
        room.gradient[j], room.gradient[j + 1], room.gradient[j + 2], room.gradient[j + 3] = one, two, three, four
    for j in range(d - d % 4, d):
        one = 0.0
        for i in range(take):
            one += room.slopes[i] * rows.x[room.picked[i], j]
        room.gradient[j] = one


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy", inline="always")
def margin_gradients(model: Margin, w: Floats, rows: Examples, take: int, room: Scratch) -> None:
    """Write the sum of the clipped gradients of the picked rows into `room.gradient`."""
    _products(w, rows, take, room)
    cells = len(model.slopes) - 2
    cells_per_unit = 0.5 * cells / model.span
    for i in range(take):
        t = min(max((room.slopes[i] + model.span) * cells_per_unit, 0.0), float(cells))
        k = int(t)
        room.slopes[i] = model.slopes[k] + (t - k) * (model.slopes[k + 1] - model.slopes[k])
    _add_rows(model.limits, rows, take, room)


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy", inline="always")
def squared_gradients(model: Squared, w: Floats, rows: Examples, take: int, room: Scratch) -> None:
    """See `margin_gradients`."""
    _products(w, rows, take, room)
    for i in range(take):
        room.slopes[i] -= rows.y[room.picked[i]]
    _add_rows(model.limits, rows, take, room)


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy", inline="always")
def softmax_gradients(model: Softmax, w: Floats, rows: Examples, take: int, room: Scratch) -> None:
    """See `margin_gradients`."""
    d = rows.x.shape[1]
    for j in range(len(w)):
        room.gradient[j] = 0.0
    for i in range(take):
        row = room.picked[i]
        top = -np.inf
        for k in range(model.classes):
            s = 0.0
            for j in range(d):
                s += w[k * d + j] * rows.x[row, j]
            room.slopes[k] = s
            top = max(top, s)
        total = 0.0
        for k in range(model.classes):
            room.slopes[k] = np.exp(room.slopes[k] - top)
            total += room.slopes[k]
        own = int(rows.y[row])
        room.slopes[own] = 0.0
        wrong = 0.0
        for k in range(model.classes):
            wrong += room.slopes[k]
        room.slopes[own] = -wrong
        scale = 1.0 / total
        if len(model.limits) > 0:
            limit = model.limits[row] * total
            scale = scale * (limit / wrong) if wrong > limit else scale
        for k in range(model.classes):
            c = room.slopes[k] * scale
            for j in range(d):
                room.gradient[k * d + j] += c * rows.x[row, j]
