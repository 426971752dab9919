"""The training and test rows of simulated laps: what they add to a sum, and how well a model does on them."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import AnyInts, Doubles
from ..learning import MOST_ROWS, LapRule, LapState, LinearModel, NeuralModel, on_grid, reference, require_torch
from .layout import laid_out
from .setup import Setup

#: Numbers of rows that are copied at a time: more would take room, and be no quicker.
_AT_ONCE = 1 << 23


class LinearRows:
    """Rows of a linear model on the grid of exact sums, part by part."""

    #: How many runs go on at once; None: one on each core.
    parallel = None

    def __init__(self, setup: Setup) -> None:
        assert isinstance(setup.model, LinearModel)
        rows, self._model, self._test = laid_out(setup), setup.model, (setup.test_x, setup.test_y)
        self._cut, self._y = on_grid(rows.x.astype(np.float64, copy=False)), rows.y
        self._sizes = np.diff(rows.start)
        self._at_once = max(1, min(MOST_ROWS, _AT_ONCE // rows.x.shape[1]))

    def begin(self, seed: int) -> Doubles:
        """Return the model that a run begins with."""
        return np.zeros(self._model.parameters)

    def sum(self, rule: LapRule, state: LapState, parts: AnyInts) -> NDArray[np.int64]:
        """Return what the rows of these parts add to a sum, whatever is added first."""
        chosen = np.zeros(len(self._sizes), np.bool_)
        chosen[parts] = True
        taken = np.flatnonzero(np.repeat(chosen, self._sizes))
        total = np.zeros(len(rule.sum_of(state.laps).scales), np.int64)
        for piece in np.array_split(taken, -(-len(taken) // self._at_once)):
            total += rule.contribution(state, self._cut[piece], self._y[piece])
        return total

    def tested(self, model: Doubles) -> tuple[float, float]:
        """Return test error and mean loss of a model."""
        given = self._model, model, *self._test
        return reference.test_error(*given), reference.mean_loss(*given)

    def reproducible(self, rng: np.random.Generator) -> AbstractContextManager[Any]:
        """Do nothing: nothing but noise is drawn."""
        return nullcontext()


class NetworkRows:
    """Rows of a network on its device, unit by unit."""

    parallel = 1

    def __init__(self, setup: Setup, grid: float) -> None:
        model, data = setup.model, setup.data
        assert isinstance(model, NeuralModel)
        require_torch(model.name)
        from ..learning import NetworkSums  # PyTorch is loaded only where it is needed

        persons = data.persons if setup.protection.unit == "person" else None
        places = [
            _places(low + part, persons, setup.protection.rows_of_one)
            for low, parts in zip(data.start[:-1], setup.parts, strict=True)
            for part in parts
        ]
        self._part_of_unit = np.repeat(np.arange(len(places)), list(map(len, places)))
        rows = (data.features, data.labels), (setup.test_x, setup.test_y)
        self._sums = NetworkSums(model, *rows, places=np.concatenate(places), grid=grid)
        self._draws = model.is_function

    def begin(self, seed: int) -> Doubles:
        """Return the weights that a run begins with."""
        return self._sums.begin(seed)

    def sum(self, rule: LapRule, state: LapState, parts: AnyInts) -> NDArray[np.int64]:
        """Return what the units of these parts add to a sum."""
        units = np.flatnonzero(np.isin(self._part_of_unit, parts, kind="table"))
        return self._sums.sum(state.model, units)

    def tested(self, model: Doubles) -> tuple[float, float]:
        """Return the test error of a model; losses are not computed."""
        return self._sums.error(model), math.nan

    def reproducible(self, rng: np.random.Generator) -> AbstractContextManager[Any]:
        """Draw what a function's module draws, as a dropout does, from the run's own stream."""
        return self._sums.drawing(int(rng.integers(2**31))) if self._draws else nullcontext()


def _places(rows: AnyInts, persons: AnyInts | None, most: int) -> NDArray[np.int64]:
    """Return the rows of each unit of a part in a table with room for as many as one may have; -1 where it has less."""
    if persons is None:
        return np.asarray(rows, np.int64)[:, None]
    _, unit = np.unique(persons[rows], return_inverse=True)
    order = np.argsort(unit, kind="stable")
    many = np.bincount(unit)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(many) - many, many)
    table = np.full((len(many), most), -1)
    table[unit[order], within] = rows[order]
    return table
