"""What is made of one mean gradient after another: momentum, Adam, or any optimiser of PyTorch.

In laps the noise is in a gradient before an optimiser sees it. So whatever it remembers or scales costs no privacy.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from .._arrays import Doubles
from ..errors import InvalidInput

#: What a run file may say, beside a class of PyTorch.
AUTO, FIVE_LAPS, MOMENTUM, ADAM = "auto", "five-laps", "momentum", "adam"
_OF_TORCH = "torch.optim:"
#: How much of its speed a heavy ball keeps.
_KEPT = 0.9
#: Adam's decays of the mean and of the mean square, and what keeps it from dividing by 0.
_MEAN, _SQUARE, _LEAST = 0.9, 0.999, 1e-8


class Optimiser(Protocol):
    """What remembers earlier gradients, and takes a step."""

    def stepped(self, model: Doubles, gradient: Doubles) -> Doubles:
        """Return the model after a step."""


class Momentum:
    """A heavy ball: it keeps nine tenths of its speed."""

    def __init__(self, rate: float) -> None:
        self._rate, self._speed = rate, np.zeros(1)

    def stepped(self, model: Doubles, gradient: Doubles) -> Doubles:
        """Return the model after a step."""
        self._speed = _KEPT * self._speed + gradient
        return model - self._rate * self._speed


class Adam:
    """Each number goes about as far as every other, whatever the size of its gradients (Kingma and Ba, 2015)."""

    def __init__(self, rate: float) -> None:
        self._rate, self._steps = rate, 0
        self._mean = self._square = np.zeros(1)

    def stepped(self, model: Doubles, gradient: Doubles) -> Doubles:
        """Return the model after a step."""
        self._steps += 1
        self._mean = _MEAN * self._mean + (1.0 - _MEAN) * gradient
        self._square = _SQUARE * self._square + (1.0 - _SQUARE) * gradient**2
        mean, square = self._mean / (1.0 - _MEAN**self._steps), self._square / (1.0 - _SQUARE**self._steps)
        return model - self._rate * mean / (np.sqrt(square) + _LEAST)


class OfTorch:
    """An optimiser of PyTorch; without a rate, with its own. To it the whole model is one vector."""

    def __init__(self, name: str, rate: float | None) -> None:
        self._name, self._make = name, _class_of(name)
        self._rate: dict[str, Any] = {} if rate is None else {"lr": rate}
        self._vector: Any = None
        self.stepped(np.zeros(2), np.ones(2))  # one that needs more than gradients is refused now
        self._vector = None

    def stepped(self, model: Doubles, gradient: Doubles) -> Doubles:
        """Return the model after a step."""
        import torch

        try:
            if self._vector is None:
                self._vector = torch.from_numpy(model.copy()).requires_grad_()
                self._optimiser = self._make([self._vector], **self._rate)
            with torch.no_grad():
                self._vector.copy_(torch.from_numpy(model))  # which may have been projected
            self._vector.grad = torch.from_numpy(gradient)
            self._optimiser.step()
        except (TypeError, ValueError, RuntimeError, AttributeError) as error:
            reason = f"cannot step from gradients alone: {str(error).splitlines()[0]}"
            raise InvalidInput.because("laps.optimiser", self._name, reason) from error
        found: Doubles = self._vector.detach().numpy().copy()
        return found


def require_optimiser(name: str) -> None:
    """Refuse what no run file may say; whether PyTorch has a class of that name is found out when it is made."""
    known = name in (AUTO, FIVE_LAPS, MOMENTUM, ADAM) or (
        is_of_torch(name) and name.removeprefix(_OF_TORCH).isidentifier()
    )
    if not known:
        raise InvalidInput("laps.optimiser", name, f"{AUTO}, {FIVE_LAPS}, {MOMENTUM}, {ADAM} or {_OF_TORCH}NAME")


def is_of_torch(name: str) -> bool:
    """Say whether PyTorch has this optimiser, and knows its usual rate."""
    return name.startswith(_OF_TORCH)


def optimiser_named(name: str, rate: float | None) -> Optimiser:
    """Return a new optimiser, which has seen no gradient yet.

    >>> optimiser_named("momentum", 0.5).stepped(np.zeros(2), np.array([1.0, -2.0])).tolist()
    [-0.5, 1.0]
    """
    if is_of_torch(name):
        return OfTorch(name, rate)
    assert rate is not None
    return Adam(rate) if name == ADAM else Momentum(rate)


def _class_of(name: str) -> Any:
    try:
        import torch
    except ImportError:
        reason = "needs PyTorch: pip install skipring[torch]"
        raise InvalidInput.because("laps.optimiser", name, reason) from None
    found = getattr(torch.optim, name.removeprefix(_OF_TORCH), None)
    if not (isinstance(found, type) and issubclass(found, torch.optim.Optimizer)):
        raise InvalidInput.because("laps.optimiser", name, "is no class of torch.optim")
    return found
