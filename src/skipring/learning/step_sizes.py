"""How far an update goes: the step size by the number of the update."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInput, require_positive


@dataclass(frozen=True)
class StepSizes:
    """A learning rate that falls with the root of the update number (`sqrt`), stays `constant`, or your `own` list.

    >>> StepSizes(0.6).first(4).round(4).tolist()
    [0.6, 0.4243, 0.3464, 0.3]
    """

    rate: float
    law: Literal["sqrt", "constant", "own"] = "sqrt"
    own: Sequence[float] = ()

    def __post_init__(self) -> None:
        if self.law not in ("sqrt", "constant", "own"):
            raise InvalidInput("step_size", self.law, "one of sqrt, constant, own")
        if self.law == "own":
            if not len(self.own) or not np.all(np.asarray(self.own, dtype=np.float64) > 0.0):
                raise InvalidInput("step_size", "own", "a list of numbers above 0")
        else:
            require_positive("rate", self.rate)

    @property
    def largest(self) -> float:
        """The largest step size, which decides whether updates are contractions."""
        return float(max(self.own)) if self.law == "own" else self.rate

    def first(self, updates: int) -> NDArray[np.floating[Any]]:
        """Return the step sizes of the first updates."""
        if self.law == "own":
            if len(self.own) < updates:
                raise InvalidInput("step_size", f"{len(self.own)} numbers", f"at least {updates}, one for each step")
            return np.asarray(self.own[:updates], dtype=np.float64)
        if self.law == "constant":
            return np.full(updates, self.rate)
        return self.rate / np.sqrt(np.arange(1, updates + 1))
