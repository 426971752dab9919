"""How a model learns from private sums, and how a linear model with few columns does, in five laps.

What all rules of laps have is `LapRule`: what nodes add up in each lap, and the step that all take after it.

With five laps, lap 0 adds up x x' and the gradients at 0. It gives the curvature of the loss and a first model, as
least squares would. Each further lap adds up gradients, each row's clipped; the step divides them by the curvature. The
model is the average of the last two. All of this is made of the sums alone, so it costs no privacy, and there is no
step size to choose.

For a squared loss one lap is enough: x x' and y x say it all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .._arrays import Doubles, Floats
from ..errors import InvalidInput, require_integer
from ..schedules import Laps
from .exact_sums import MOMENT_GRID, ROW_BITS, SLOPE_BITS, Whole, gradient_grid, gradient_sum, moment_sum
from .linear import LinearModel
from .margin_loss import MarginLoss
from .reference import row_norms

#: The part of mu^2 that lap 0 gets where others follow, and how many there are where nobody says.
_FIRST, USUAL = 0.25, Laps.usual
#: Rows are clipped to this part of their natural bound. Steps allow for a part of what noise does to gradients, and for
#: that times the third number and the cube root of the columns where noise is in x x'. All three were found on splits
#: that the study `skipring paper beyond laps` does not use, and are the same for every table and mu.
_CLIPPED, _CARE, _CARE_FOR_MOMENTS = 0.6, 0.9, 1.5
#: Slopes up to this are on the grid of x x'.
_LEAST_SLOPE = MOMENT_GRID * 2.0 ** (ROW_BITS + SLOPE_BITS)


@dataclass(frozen=True, eq=False)
class LapSum:
    """What is added up in a lap: how far one record can move it, its grid, and each coordinate's part of the noise.

    A coordinate with scale s gets noise s times as large: it counts 1 / s in the norm in which `sensitivity` is.
    """

    sensitivity: float
    grid: float
    scales: Doubles

    @property
    def moved(self) -> int:
        """How many coordinates one record can move, each counted as often as it does in the norm."""
        return math.ceil(float((self.scales**-2.0).sum()))


@dataclass(frozen=True, eq=False)
class LapState:
    """What all nodes know after some laps: where the next gradients are taken, the model to be used, and what helps."""

    laps: int
    model: Doubles
    average: Doubles
    memory: Any = None


class LapRule(Protocol):
    """How a model learns from private sums."""

    @property
    def laps(self) -> int:
        """How many laps there are."""

    @property
    def mu(self) -> float:
        """What all laps together may cost."""

    @property
    def bound(self) -> float:
        """What gradients are clipped to."""

    @property
    def weights(self) -> tuple[float, ...]:
        """Each lap's part of mu^2."""

    def sum_of(self, lap: int) -> LapSum:
        """Return what is added up in a lap."""

    def start(self) -> LapState:
        """Return what is known before the first lap."""

    def contribution(self, state: LapState, rows: Any, labels: NDArray[Any]) -> Whole:
        """Return what some rows add to the sum of the next lap."""

    def step(self, state: LapState, total: Floats, *, std: float, rows: int) -> LapState:
        """Return what is known after a lap over `rows` rows whose sum had noise of deviation `std`."""


@dataclass(frozen=True, eq=False)
class _Curvature:
    """What lap 0 told: x x', over how many rows, and what is added to it lest its noise turns a step around."""

    moments: Doubles
    rows: int
    caution: float


def clipped_sum(model: LinearModel, at: Doubles, cut: Doubles, labels: NDArray[Any], bound: float) -> Whole:
    """Return the sum of rows' gradients (`on_grid`) at a linear model, each clipped, in steps of `gradient_grid`."""
    rows = np.ldexp(cut, -ROW_BITS)
    # With so few bits scores are exact: where a row stands, and how many there are, decides nothing about its score.
    bits = 53 - ROW_BITS - math.frexp(float(np.linalg.norm(at)))[1]
    at = np.ldexp(np.trunc(np.ldexp(at, bits)), -bits)
    slopes = model.loss.slopes(rows @ at.reshape(model.shape).T, labels, row_norms(rows), bound)
    return gradient_sum(cut, slopes, bound).ravel()


class LinearLaps:
    """The laps of a linear model: their sums, and the steps after them.

    Parameters
    ----------
    model : which loss, on rows of norm at most 1.
    mu : what all laps together may cost.
    laps : how many; by default 5, and 1 for a squared loss, which needs no more.

    >>> from skipring.learning import LOGISTIC
    >>> laps = LinearLaps(LinearModel(loss=LOGISTIC, features=3, diameter=10.0), mu=0.3)
    >>> laps.weights, round(laps.sum_of(0).sensitivity, 3), laps.sum_of(1).sensitivity
    ((0.25, 0.1875, 0.1875, 0.1875, 0.1875), 1.591, 1.2)
    """

    def __init__(self, model: LinearModel, mu: float, laps: int | None = None) -> None:
        if not mu > 0.0:
            raise InvalidInput("mu", mu, "above 0, or infinity for no noise")
        self.model, self.mu = model, float(mu)
        one = model.loss.is_of_numbers
        self.laps = (1 if one else USUAL) if laps is None else laps
        require_integer("laps", self.laps, 1)
        if one and self.laps > 1:
            raise InvalidInput.because("laps", self.laps, "one lap is all that a squared loss needs; say 1 or auto")
        if one and not math.isfinite(model.label_bound):
            raise InvalidInput.because("label_bound", "missing", "labels are added up: say how large they may be")
        self.bound = min(model.gradient_bound, model.natural_bound * _CLIPPED)
        #: What slopes at 0 are added up in units of: the label bound where labels are numbers.
        self._unit = model.label_bound if one else model.loss.bound if isinstance(model.loss, MarginLoss) else 1.0
        self._scores = model.loss.scores(model.classes)
        #: The largest norm of a row's slopes at 0, in these units. Other labels than the model's do not exceed it.
        self._steepest = math.inf
        self._steepest = float(np.linalg.norm(self._slopes_at_zero(np.full(1, self._unit if one else 0.0))))

    @property
    def weights(self) -> tuple[float, ...]:
        """Each lap's part of mu^2."""
        if self.laps == 1:
            return (1.0,)
        return (_FIRST, *((1.0 - _FIRST) / (self.laps - 1) for _ in range(self.laps - 1)))

    def sum_of(self, lap: int) -> LapSum:
        """Return what is added up in a lap."""
        columns, outputs = self.model.features, self._scores
        if lap > 0:
            return LapSum(2.0 * self.bound, gradient_grid(self.bound), np.ones(columns * outputs))
        # Off the diagonal x x' counts twice in its norm, and stands once in the sum.
        one, other = np.triu_indices(columns)
        scales = np.where(one == other, 1.0, math.sqrt(0.5))
        return LapSum(self._first_sensitivity, MOMENT_GRID, np.append(scales, np.full(columns * outputs, 1.0)))

    @property
    def _first_sensitivity(self) -> float:
        """How far one row can move (x x', slopes at 0 times x): sqrt 2 (1 + s^2 / 2) with slopes of norm at most s.

        For rows x, z with slopes a, b, and t = x.z, the squared distance is at most 2 + 2 s^2 - 2 t^2 + 2 s^2 |t|. It
        is largest at |t| = s^2 / 2.
        """
        return math.sqrt(2.0) * (1.0 + 0.5 * self._steepest**2)

    def start(self) -> LapState:
        """Return what is known before the first lap: nothing."""
        nothing = np.zeros(self.model.features * self._scores)
        return LapState(0, nothing, nothing)

    def contribution(self, state: LapState, cut: Doubles, labels: NDArray[Any]) -> Whole:
        """Return what a node with these rows (`on_grid`) adds to the sum of the next lap."""
        if state.laps == 0:
            # A hair more, so that no slope is made smaller for its rounding; no grid may be finer than that of x x'.
            most = max(self._steepest * (1.0 + 1e-9), _LEAST_SLOPE)
            steps = gradient_sum(cut, self._slopes_at_zero(labels), most).ravel()
            return np.append(moment_sum(cut), np.left_shift(steps, round(math.log2(gradient_grid(most) / MOMENT_GRID))))
        return clipped_sum(self.model, state.model, cut, labels, self.bound)

    def step(self, state: LapState, total: Floats, *, std: float, rows: int) -> LapState:
        """Return what is known after a lap over `rows` rows whose sum had noise of deviation `std`."""
        columns = self.model.features
        if state.laps == 0:
            upper = np.triu_indices(columns)
            moments = np.zeros((columns, columns))
            moments[upper] = total[: len(upper[0])]
            moments += np.triu(moments, 1).T
            values, vectors = np.linalg.eigh(moments)
            moments = (vectors * np.maximum(values, 0.0)) @ vectors.T
            state = replace(state, memory=_Curvature(moments, rows, self._caution(std, columns)))
            total = total[len(upper[0]) :] * self._unit
        of, ridge = state.memory, self.model.ridge * rows
        curvature = self.model.loss.smoothness * of.moments * (rows / of.rows)
        curvature += (of.caution + ridge) * np.eye(columns)
        total = total + ridge * state.model
        # Without noise and ridge, columns that say the same leave no curvature in some direction.
        moved = np.linalg.lstsq(curvature, total.reshape(self._scores, columns).T, rcond=1e-12)[0].T.ravel()
        model = state.model - moved
        average = model if state.laps == 0 else 0.5 * (model + state.model)
        return LapState(state.laps + 1, model, average, state.memory)

    def _caution(self, std: float, columns: int) -> float:
        """Return what is added to the curvature, lest noise in it or in a gradient makes a step much too long."""
        if self.model.loss.is_of_numbers:
            return 2.0 * std * math.sqrt(columns)
        allowed = _CARE_FOR_MOMENTS * math.cbrt(columns)
        if self.laps > 1:
            # The noise of a gradient lap, as if the same nodes took part in it.
            deviation = math.sqrt(self.weights[0] / self.weights[1]) * 2.0 * self.bound / self._unit
            allowed += deviation / self._first_sensitivity
        return _CARE * self.model.loss.smoothness * std * allowed

    def _slopes_at_zero(self, labels: NDArray[Any]) -> Floats:
        """Return the slopes of rows at the model 0, in their units."""
        shape = (len(labels), self._scores) if self._scores > 1 else (len(labels),)
        slopes = self.model.loss.slopes(np.zeros(shape), labels, np.ones(len(labels)), math.inf) / self._unit
        return np.clip(slopes, -self._steepest, self._steepest)
