"""Accountants whose whole answer is one mu: what the observer who knows most knows is mu-GDP."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

from ..errors import LEAST_DELTA
from .gaussian import gdp_delta, gdp_epsilon


class GaussianAccountant(ABC):
    """Answers what an `Accountant` is asked for from `_worst_mu`; who inherits gives that, and a `guarantee`."""

    @abstractmethod
    def _worst_mu(self) -> float:
        """Return mu of the observer and the target for whom it is largest; 0 if nobody has learned anything."""

    def epsilon(self, delta: float) -> float:
        """Return epsilon of the observer who knows most."""
        return gdp_epsilon(self._worst_mu(), delta)

    def delta(self, epsilon: float) -> float:
        """Return delta of the observer who knows most; unless it is 0, it is at least `LEAST_DELTA`."""
        mu = self._worst_mu()
        return max(gdp_delta(mu, float(epsilon)), LEAST_DELTA if mu > 0.0 else 0.0)

    def kinds(self, delta: float) -> int:
        """Return 1: the worst unit is found at once."""
        return 1

    def excess(self, epsilon: float, delta: float, kind: int = 0) -> float:
        """Return the logarithm of how many times larger than its budget delta is."""
        return math.log(max(self.delta(epsilon), 1e-320)) - math.log(delta)
