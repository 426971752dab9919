"""What accounts of a run that goes on share: what they are told is checked, and what they claim."""

from __future__ import annotations

from abc import abstractmethod
from typing import get_args

from ..errors import InvalidInput, require_integer, require_positive
from .accountant import Claim, Unit
from .by_mu import GaussianAccountant
from .transcript import _RANGE, WorstPair, _require_node, require_one_part


class GrowingTranscript(GaussianAccountant):
    """An account that is told of looks and updates one by one. Step sizes are kept in units of the first one.

    `parts` is the most parts of a node.
    """

    def __init__(self, nodes: int, *, convex: bool, parts: int, protects: Unit) -> None:
        require_integer("nodes", nodes, 2)
        if protects not in get_args(Unit):
            raise InvalidInput("protects", protects, "one of " + ", ".join(get_args(Unit)))
        self.nodes, self.convex = nodes, convex
        self.protects = protects
        require_one_part(parts, self.protects)
        self._unit = 1.0  # the first step size; only ratios matter
        self._updates = 0

    def _checked(self, node: int, step_size: float, noise_multiplier: float) -> tuple[float, float]:
        """Return the step size of a node's update, in units of the first one, and its noise; refuse what is none."""
        require_positive("step_size", step_size)
        require_positive("noise_multiplier", noise_multiplier)
        _require_node("node", node, self.nodes)
        step_size, noise_multiplier = float(step_size), float(noise_multiplier)  # a float16 would round the bound
        if self._updates == 0:
            self._unit = step_size
        step = step_size / self._unit
        if not (1.0 / _RANGE < step < _RANGE and 1.0 / _RANGE < noise_multiplier < _RANGE):
            raise InvalidInput.because("step_size", step_size, f"or its noise is out of range (a factor of {_RANGE:g})")
        return step, noise_multiplier

    def _claimed(self, protected: str, method: str, counted: str) -> Claim:
        return Claim(
            protected=protected,
            against="any other node, which sees the token when it is sent it, knows the path and sees the final model",
            method=method,
            view="offered",
            assumptions=("it is about the path that was taken so far, which no data may have decided", counted),
            unit=self.protects,
        )

    @abstractmethod
    def worst(self) -> WorstPair:
        """Return the pair that leaks most if the run ended now and everyone were sent the model."""

    def _worst_mu(self) -> float:
        return self.worst().mu
