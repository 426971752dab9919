"""Accountants whose whole answer is one mu: what the observer who knows most knows is mu-GDP."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import LEAST_DELTA
from .gaussian import gdp_delta, gdp_epsilon


class GaussianAccountant(ABC):
    """Answers what an `Accountant` is asked for from `_worst_mu`; who inherits gives that, and a `claim`."""

    @abstractmethod
    def _worst_mu(self) -> float:
        """Return mu of the observer and the target for whom it is largest; 0 if nobody has learned anything."""

    def epsilon(self, delta: float) -> float:
        """Return epsilon of the observer who knows most."""
        return gdp_epsilon(self._worst_mu(), delta)

    def delta(self, epsilon: float) -> float:
        """Return delta of the observer who knows most; unless it is 0, it is at least `LEAST_DELTA`."""
        return float(self.curve([epsilon])[0])

    def curve(self, epsilons: Iterable[float]) -> NDArray[np.floating[Any]]:
        """Return delta of the observer who knows most, for each epsilon."""
        mu = self._worst_mu()
        least = LEAST_DELTA if mu > 0.0 else 0.0
        return np.array([max(gdp_delta(mu, float(epsilon)), least) for epsilon in epsilons])
