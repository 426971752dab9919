"""The paper's theorems as an accountant: for comparison, under the name ``paper``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInput, require_non_negative, require_open_unit
from .gaussian import smallest
from .record import PlannedRun
from .theorems import theorem2, theorem3, theorem3_can_be_trusted, theorem4

__all__ = ["PaperBound"]

_THEOREMS = {"ring": theorem2, "random-ring": theorem3, "random-walk": theorem4}


class PaperBound:
    """What Theorem 2, 3 or 4 of the paper states for a run; it holds with delta + delta_prime.

    >>> run = PlannedRun(schedule="random-ring", nodes=1000, steps=24000, skip=1e-4, noise_multiplier=10.5976)
    >>> round(PaperBound(run, delta_prime=1e-12).epsilon(1e-6), 3)
    2.202
    """

    def __init__(self, run: PlannedRun, *, delta_prime: float) -> None:
        require_open_unit("delta_prime", delta_prime)
        plain = PlannedRun(
            schedule=run.schedule,
            nodes=run.nodes,
            steps=run.steps,
            skip=run.skip,
            noise_multiplier=run.noise_multiplier,
        )
        for parameter in (
            "target_skip",
            "view",
            "observer_skip",
            "distance",
            "observers",
            "convex",
            "step_size",
        ):
            given = getattr(run, parameter)
            if parameter == "convex" and not given:
                raise InvalidInput.because(
                    "non_convex", "given", "the paper's theorems need convexity; use method tight"
                )
            if given != getattr(plain, parameter):
                raise InvalidInput.because(parameter, given, "the paper's theorems do not cover this; use method tight")
        self.run = run
        self.delta_prime = delta_prime
        self.method = "paper"

    @property
    def trusted(self) -> bool:
        """Whether the theorem can be believed here: Theorem 3 is false where few nodes take part in a round."""
        return self.run.schedule != "random-ring" or theorem3_can_be_trusted(self.run.nodes, self.run.skip)

    def epsilon(self, delta: float) -> float:
        """Return epsilon; the statement holds with probability parameter delta + delta_prime."""
        run = self.run
        return _THEOREMS[run.schedule](
            nodes=run.nodes,
            steps=run.steps,
            skip=run.skip,
            noise_multiplier=run.noise_multiplier,
            delta=delta,
            delta_prime=self.delta_prime,
        )

    def curve(self, epsilons: Iterable[float]) -> NDArray[np.floating[Any]]:
        """Return delta (without delta_prime) for each epsilon."""
        return np.array([self.delta(float(epsilon)) for epsilon in epsilons])

    def delta(self, epsilon: float) -> float:
        """Return the smallest delta (without delta_prime) at which the theorem gives this epsilon."""
        require_non_negative("epsilon", epsilon)
        largest = 1.0 - 1e-12
        if self.epsilon(largest) > epsilon:
            raise InvalidInput("epsilon", epsilon, f"at least {self.epsilon(largest):.4g} for any delta below 1")
        if self.epsilon(1e-300) <= epsilon:
            return 1e-300
        return smallest(lambda delta: self.epsilon(delta) <= epsilon, 1e-300, largest)
