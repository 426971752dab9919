"""The rows of the next update, got ready before the token is there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import AnyInts
from ..errors import InvalidInput
from .units import Batches
from .update import PrepareRows, without_tiny


class NextRows:
    """Which rows an update takes, and what a user's function has made of them; what was got ready is used once.

    Parameters
    ----------
    batches : choose the rows.
    features, labels : of all training rows; a user's function gets copies of some.
    """

    def __init__(self, batches: Batches, features: NDArray[Any], labels: NDArray[Any]) -> None:
        self._batches, self._features, self._labels = batches, features, labels
        self._with_rows: PrepareRows | None = None
        self._ready: tuple[AnyInts, NDArray[Any]] | None = None

    def prepare(self, turn: int, with_rows: PrepareRows | None = None) -> None:
        """Choose the rows of the next update, at a turn, and have them got ready."""
        self._with_rows = with_rows
        self._batches.prepare()
        if with_rows is not None:
            rows = self._batches.peek(turn)
            self._ready = rows, self._made(with_rows, rows)

    def take(self, turn: int) -> tuple[AnyInts, NDArray[Any] | None]:
        """Return the rows of an update, and what was made of their features; None if they are as they were.

        Where other rows were got ready than those of this turn's part, it is made up for.
        """
        rows, ready = self._batches.take(turn), self._ready
        self._ready = None
        if self._with_rows is None:
            return rows, None
        if ready is not None and np.array_equal(ready[0], rows):
            return rows, ready[1]
        return rows, self._made(self._with_rows, rows)

    def _made(self, with_rows: PrepareRows, rows: AnyInts) -> NDArray[Any]:
        features = self._features[rows]
        made = with_rows(features.copy(), self._labels[rows].copy())
        if made is None:
            return features
        made = np.asarray(made)
        given = f"features of shape {made.shape} and type {made.dtype}"
        if made.dtype.kind in "fiu":
            with np.errstate(over="ignore", invalid="ignore"):
                made = made.astype(features.dtype)  # what is finite in a wider type need not be in this one
        if made.shape != features.shape or made.dtype.kind != "f" or not np.isfinite(made).all():
            raise InvalidInput("data.prepare", given, f"finite numbers of shape {features.shape}, or None")
        return without_tiny(made)
