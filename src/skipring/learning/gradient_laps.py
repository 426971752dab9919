"""How any model learns from private sums of gradients: an optimiser makes a step of each of them.

Every lap adds up clipped gradients, with an equal part of the budget. What the optimiser makes of the noisy means costs
no privacy. The model is the average of the second half of all laps, in which much of the noise is averaged out.

All networks learn like this, and linear models with many columns or classes. Five laps, with x x', suit small models.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import Doubles, Floats
from ..errors import InvalidInput
from ..privacy import FINEST
from ..schedules import Laps
from .exact_sums import Whole, gradient_grid
from .lap_steps import USUAL, LapRule, LapState, LapSum, LinearLaps, clipped_sum
from .linear import LinearModel
from .networks import NeuralModel
from .optimisers import ADAM, AUTO, FIVE_LAPS, MOMENTUM, is_of_torch, optimiser_named
from .reference import projected

#: How many laps there are where nobody says.
_USUAL = Laps.usual_by_gradients
#: With more numbers to learn, the noise in x x' leaves hardly any curvature to be seen: it grows with the root of the
#: columns, and what rows say does not. And with many classes the curvature is far below what x x' bounds it by.
#: Gradients have fewer errors or a smaller loss on digits (64 columns, 10 classes) and on the pixels of MNIST, and
#: larger ones on breast-cancer (31 columns, 2 classes). And x x' has half as many numbers as columns squared.
MOST_NUMBERS = Laps.few_parameters
#: A network's gradients are clipped to this, where nobody says; a step is by so much of that bound.
USUAL_CLIP, _STEP = 0.1, 0.5
#: Rows of a linear model are clipped to this part of their natural bound, times mu, and to no less than the second.
_CLIPPED, _LEAST_CLIPPED = 0.4, 0.05
#: How far Adam moves each number.
_ADAM = 0.003


class GradientLaps:
    """The laps of a linear model or a network whose steps an optimiser makes.

    Parameters
    ----------
    model : what is learned; a network's gradients need a bound.
    mu : what all laps together may cost.
    laps : how many.
    optimiser : ``momentum``, ``adam`` or ``torch.optim:NAME``.
    rate : how far it goes, in units of the mean over rows of clipped gradients.
    rows_of_one : how many rows a person may have, whose gradients a network's bound is about.
    first : the model to begin with; by default 0.

    >>> laps = GradientLaps(NeuralModel(features=784, clip=0.1), mu=0.5, laps=100)
    >>> round(laps.sum_of(0).sensitivity, 6), laps.rate
    (0.2, 5.0)
    """

    def __init__(
        self,
        model: LinearModel | NeuralModel,
        mu: float,
        laps: int,
        *,
        optimiser: str = MOMENTUM,
        rate: float | None = None,
        rows_of_one: int = 1,
        first: Doubles | None = None,
    ) -> None:
        if not mu > 0.0:
            raise InvalidInput("mu", mu, "above 0, or infinity for no noise")
        self.model, self.mu, self.laps = model, float(mu), laps
        self.weights = (1.0 / laps,) * laps
        if isinstance(model, NeuralModel):
            if model.clip is None:
                raise InvalidInput.because("gradient_bound", "missing", "what is added up has no other bound")
            self.bound, usual = model.clip, _STEP * rows_of_one / model.clip
        else:
            part = min(1.0, max(_LEAST_CLIPPED, _CLIPPED * self.mu))
            self.bound = model.gradient_bound if model.clips else part * model.natural_bound
            usual = 2.0 / model.loss.smoothness
        self._optimiser, self._first = optimiser, first
        usual = _ADAM if optimiser == ADAM else usual
        self.rate = rate if rate is not None or is_of_torch(optimiser) else usual
        self._sum = self._what_is_added_up()

    def _what_is_added_up(self) -> LapSum:
        """Return the sum of every lap, with a grid that costs next to nothing.

        A linear model's sums are whole numbers from the beginning, so that clipping is all that moves them. A network's
        are rounded, floor(x + 1/2): two that are D apart are by less than one step more apart in each number.
        """
        numbers = self.model.parameters
        if isinstance(self.model, LinearModel):
            grid, moved = gradient_grid(self.bound), 2.0 * self.bound
            if grid * math.sqrt(numbers) > FINEST * self.bound:
                reason = "are too many for sums of 64 bits with a grid that costs no privacy"
                raise InvalidInput.because("features", f"{numbers} parameters", reason)
        else:
            grid = 2.0 ** math.floor(math.log2(FINEST * self.bound / math.sqrt(numbers)))
            moved = (2.0 * self.bound + grid * math.sqrt(numbers)) * (1.0 + 1e-9)
        return LapSum(moved, grid, np.broadcast_to(np.float64(1.0), numbers))

    def sum_of(self, lap: int) -> LapSum:
        """Return what is added up in a lap: the same in each."""
        return self._sum

    def start(self) -> LapState:
        """Return what is known before the first lap: a model to begin with, and an optimiser that has seen nothing."""
        first = np.zeros(self.model.parameters) if self._first is None else self._first
        return LapState(0, first, first, optimiser_named(self._optimiser, self.rate))

    def contribution(self, state: LapState, rows: Any, labels: NDArray[Any]) -> Whole:
        """Return what rows of a linear model (`on_grid`) add to a sum; `NetworkSums` knows those of networks."""
        assert isinstance(self.model, LinearModel)
        return clipped_sum(self.model, state.model, rows, labels, self.bound)

    def step(self, state: LapState, total: Floats, *, std: float, rows: int) -> LapState:
        """Return what is known after a lap over `rows` rows, whatever the deviation of its noise."""
        gone: Doubles = state.memory.stepped(state.model, total / rows + self.model.ridge * state.model)
        model = np.asarray(projected(gone, self.model.radius), np.float64)
        laps = state.laps + 1
        of_second_half = max(1, laps - self.laps // 2)
        before = state.average if of_second_half > 1 else model
        average = before + (model - before) / of_second_half
        return replace(state, laps=laps, model=model, average=average)


def uses_five_laps(model: LinearModel | NeuralModel | None, optimiser: str) -> bool:
    """Say whether a model learns from x x'; a network that nobody has looked at is None."""
    if optimiser == FIVE_LAPS and not isinstance(model, LinearModel):
        raise InvalidInput.because("laps.optimiser", optimiser, "is there for linear models, not for networks")
    if optimiser != AUTO:
        return optimiser == FIVE_LAPS
    return isinstance(model, LinearModel) and model.parameters <= MOST_NUMBERS


def usual_laps(model: LinearModel | NeuralModel | None, optimiser: str) -> int:
    """Return how many laps a model takes where nobody says."""
    if uses_five_laps(model, optimiser):
        return 1 if isinstance(model, LinearModel) and model.loss.is_of_numbers else USUAL
    return _USUAL


def laps_of_model(
    model: LinearModel | NeuralModel,
    mu: float,
    laps: int,
    *,
    optimiser: str,
    rate: float | None = None,
    rows_of_one: int = 1,
    first: Doubles | None = None,
) -> LapRule:
    """Return how a model learns from private sums."""
    if uses_five_laps(model, optimiser):
        assert isinstance(model, LinearModel)
        if rate is not None:
            raise InvalidInput.because("laps.rate", rate, f"is for laps of gradients; {FIVE_LAPS} find their own steps")
        return LinearLaps(model, mu, laps)
    name = MOMENTUM if optimiser == AUTO else optimiser
    return GradientLaps(model, mu, laps, optimiser=name, rate=rate, rows_of_one=rows_of_one, first=first)
