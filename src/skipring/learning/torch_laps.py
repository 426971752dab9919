"""What rows of a network add to a private sum: clipped gradients of records or persons, in whole steps of a grid.

**Why one unit moves the sum by at most D = 2 k + g sqrt(d).** Units are taken some at a time, always the same ones
together. Such a piece is added up as `torch_layers` says: its sum is within 2 k of what it is with another unit in one
place, rounding included. Each number of it is then rounded to whole steps, floor(x / g + 1/2), which moves two sums
apart by less than one step g more in each of d numbers. All pieces are added up as whole numbers, in any order. The
other pieces are the same whole numbers for both: every unit lies in its own place, and a person has as many places as
it may have rows. So nothing that one unit says, nor how many rows it has, decides how others are computed. In which
order a GPU adds up, it decides by itself, and not by what the numbers are.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .._arrays import AnyInts, Doubles, Floats
from ..errors import InvalidInput
from ..privacy import Unit
from .exact_sums import Whole
from .networks import NeuralModel
from .torch_module import (
    as_vector,
    choose_device,
    drawing,
    maker,
    redraw,
    rows_for,
    usable_module,
    with_parameters,
)
from .torch_units import UnitGradients
from .torch_update import mean_error
from .units import Protection

Labelled = tuple[Floats, NDArray[Any]]
#: Rows that are computed at once. A CPU is no quicker with more. Beside these a GPU's launches take no time.
_AT_ONCE = {"cpu": 512, "cuda": 4096}


class NetworkSums:
    """The rows of all nodes on their device, and what units of them add to a sum.

    Parameters
    ----------
    model : a network whose gradients are clipped.
    train, test : rows and labels.
    places : for each record or person, the rows of `train` that it has, in a table; -1 where it has no more.
    grid : the step of the sum.
    """

    def __init__(self, model: NeuralModel, train: Labelled, test: Labelled, *, places: AnyInts, grid: float) -> None:
        assert model.clip is not None
        device = choose_device(model.device)
        self._x, self._y = (each.to(device) for each in rows_for(model, *train, "training"))
        self._test = rows_for(model, *test, "test")
        self._model, self._make, self._places, self._grid = model, maker(model), places, grid
        self._module = usable_module(model, self._x)
        of_one = places.shape[1]
        self._units = max(1, _AT_ONCE.get(device.type, _AT_ONCE["cpu"]) // of_one)
        if not self._units * model.clip / grid < 2.0**52:
            reason = "has more parameters than exact sums have room for"
            raise InvalidInput.because("model.name", model.name, reason)
        unit: Unit = "person" if of_one > 1 else "record"
        protection = Protection(unit=unit, batch=self._units * of_one, rows_per_person=of_one)
        self._clipped = UnitGradients(self._module, model, protection, self._x[:0], self._y[:0])

    def begin(self, seed: int) -> Doubles:
        """Draw all weights with a seed, as on a walk, and return those that learn."""
        redraw(self._module, self._make, seed, self._model.name)
        return as_vector(self._module).astype(np.float64)

    def drawing(self, seed: int) -> AbstractContextManager[None]:
        """Let the module draw what it draws with a seed, as a dropout does."""
        return drawing(self._x.device, seed)

    def sum(self, weights: Doubles, units: AnyInts) -> Whole:
        """Return what these units add at a model, in steps of the grid."""
        with_parameters(self._module, weights)
        self._module.train()
        total = torch.zeros(len(weights), dtype=torch.int64, device=self._x.device)
        for first in range(0, len(units), self._units):
            places = torch.from_numpy(self._places[units[first : first + self._units]])
            found = self._of(places.to(self._x.device))
            total += torch.floor(found / self._grid + 0.5).to(torch.int64)
        whole: Whole = total.cpu().numpy()
        return whole

    def _of(self, places: torch.Tensor) -> torch.Tensor:
        """Return the sum of some units' clipped gradients. A place without a row repeats the unit's first, unheard."""
        there = places >= 0
        rows = torch.where(there, places, places[:, :1]).flatten()
        units = torch.arange(len(places), device=rows.device).repeat_interleave(places.shape[1])
        several = places.shape[1] > 1
        found = self._clipped(
            self._x[rows],
            self._y[rows],
            units=units if several else None,
            heard=there.flatten() if several else None,
        )
        return torch.cat([each.detach().reshape(-1).double() for each in found])

    def error(self, weights: Doubles) -> float:
        """Return the share of test rows that are wrong, or the mean squared error."""
        with_parameters(self._module, weights)
        return mean_error(self._module, *self._test)
