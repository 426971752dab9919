"""What a loss of a linear model has to say, and the two that are none of a margin: squared loss and softmax.

Rows have norm at most 1. A loss is convex, and says how steep and how smooth it is. A row's gradient is at most
`longest` long, and updates with steps of at most 2 / `smoothness` are contractions. The accountants rest on these two
numbers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._arrays import Floats

#: Squares of shorter rows vanish: such a row is taken to be as long as that, which clips it all the more.
_SHORTEST = 1e-150


class Loss(ABC):
    """A convex, smooth loss of a row's scores."""

    #: What run files call it.
    name: str
    #: The largest derivative of its slope.
    smoothness: float
    #: Whether its scores say how likely each class is.
    has_probabilities: bool
    #: How many classes labels may have; 0 means that they are numbers.
    classes: ClassVar[range]
    #: How many are assumed as long as nobody has seen the labels.
    usual_classes: ClassVar[int]

    @classmethod
    def scores(cls, classes: int) -> int:
        """Return how many scores a row has, each with a parameter for every column."""
        return 1

    @classmethod
    def fits(cls, classes: int) -> bool:
        """Say whether labels with this many classes can be learned; where all are of one class, there may be two."""
        return (max(2, classes) if classes else 0) in cls.classes

    @property
    def is_of_numbers(self) -> bool:
        """Whether labels are numbers, and no classes."""
        return 0 in self.classes

    @abstractmethod
    def longest(self, radius: float, label_bound: float) -> float:
        """Return the length of a row's longest gradient, with parameters and labels at most so far from 0."""

    @abstractmethod
    def slopes(self, scores: Floats, y: NDArray[Any], norms: Floats, clip: float) -> Floats:
        """Return the derivative by each score, clipped so that no gradient of a row of this norm is above `clip`."""

    @abstractmethod
    def values(self, scores: Floats, y: NDArray[Any]) -> Floats:
        """Return the loss of each row."""

    @abstractmethod
    def errors(self, scores: Floats, y: NDArray[Any]) -> Floats:
        """Return for each row 1 if its predicted class is wrong, and else 0; or the squared error of its number."""

    @property
    def on_device(self) -> bool:
        """Whether a device can compute it; else numpy does."""
        return True

    # The same with tensors of PyTorch, for simulations in single precision.

    @abstractmethod
    def device_slopes(self, scores: Any, y: Any, limits: Any) -> Any:
        """Return the clipped slopes; `limits` is the longest gradient over the norm of each row."""

    @abstractmethod
    def device_sums(self, scores: Any, y: Any) -> tuple[Any, Any]:
        """Return the sum of errors, and of losses."""


@dataclass(frozen=True)  # two of a kind are the same
class SquaredLoss(Loss):
    """Half the squared distance of a score from a number."""

    name = "squared"
    smoothness = 1.0
    has_probabilities = False
    classes = range(1)
    usual_classes = 0

    def longest(self, radius: float, label_bound: float) -> float:
        """Return the largest residual."""
        return radius + label_bound

    def slopes(self, scores: Floats, y: NDArray[Any], norms: Floats, clip: float) -> Floats:
        """Return the residuals, clipped."""
        return clipped_slopes(scores - y, norms, clip)

    def values(self, scores: Floats, y: NDArray[Any]) -> Floats:
        """Return half the squared residuals."""
        return 0.5 * (scores - y) ** 2

    def errors(self, scores: Floats, y: NDArray[Any]) -> Floats:
        """Return the squared residuals."""
        errors: Floats = (scores - y) ** 2
        return errors

    def device_slopes(self, scores: Any, y: Any, limits: Any) -> Any:
        """Return the residuals, clipped."""
        return (scores - y).clamp(-limits, limits)

    def device_sums(self, scores: Any, y: Any) -> tuple[Any, Any]:
        """Return the sum of squared residuals, and half of it."""
        squares = (scores.double() - y).square().sum()
        return squares, 0.5 * squares


@dataclass(frozen=True)
class SoftmaxLoss(Loss):
    """Cross-entropy with a score for each class.

    A row's gradient is at most sqrt(2) |x| (1 - p_y) long. Capping that keeps it the gradient of a convex function
    (docs/privacy.md, "Clipping"), which cutting it to its own length would not.
    """

    name = "softmax"
    smoothness = 0.5
    has_probabilities = True
    classes = range(2, 10**6)
    usual_classes = 3

    @classmethod
    def scores(cls, classes: int) -> int:
        """Return one for each class."""
        return classes

    def longest(self, radius: float, label_bound: float) -> float:
        """Return that of a row whose class is held to be impossible."""
        return math.sqrt(2.0)

    def slopes(self, scores: Floats, y: NDArray[Any], norms: Floats, clip: float) -> Floats:
        """Return the probability of each class, but for what its own lacks, clipped."""
        each: Floats = np.exp(scores - scores.max(axis=1, keepdims=True))
        each /= each.sum(axis=1, keepdims=True)
        own = np.arange(len(y)), y.astype(np.int64, copy=False)
        each[own] = 0.0
        wrong = each.sum(axis=1)
        each[own] = -wrong
        sizes = math.sqrt(2.0) * norms * wrong
        each *= np.minimum(1.0, clip / np.maximum(sizes, 1e-300))[:, None]
        return each

    def values(self, scores: Floats, y: NDArray[Any]) -> Floats:
        """Return minus the logarithm of the probability of each row's class."""
        top = scores.max(axis=1)
        each: Floats = np.log(np.exp(scores - top[:, None]).sum(axis=1)) + top
        return each - scores[np.arange(len(y)), y.astype(np.int64, copy=False)]

    def errors(self, scores: Floats, y: NDArray[Any]) -> Floats:
        """Return whether another class has the highest score."""
        return (np.argmax(scores, axis=1) != y).astype(np.float64)

    def device_slopes(self, scores: Any, y: Any, limits: Any) -> Any:
        """Return the probability of each class, but for what its own lacks, clipped."""
        each = scores.softmax(dim=1).scatter_(1, y[:, None], 0.0)
        wrong = each.sum(dim=1, keepdim=True)
        each.scatter_(1, y[:, None], -wrong)
        each *= (limits[:, None] / (math.sqrt(2.0) * wrong.clamp(min=1e-30))).clamp(max=1.0)
        return each

    def device_sums(self, scores: Any, y: Any) -> tuple[Any, Any]:
        """Return how many rows another class has the highest score of, and the sum of cross-entropies."""
        from torch.nn.functional import cross_entropy  # PyTorch is loaded only where it is needed

        return (scores.argmax(dim=1) != y).sum(), cross_entropy(scores, y, reduction="sum").double()


def clipped_slopes(slopes: Floats, norms: Floats, clip: float) -> Floats:
    """Return slopes of one score, none of which makes the gradient of a row of this norm longer than `clip`."""
    limits = clip / np.maximum(norms, _SHORTEST)
    clipped: Floats = np.minimum(np.maximum(slopes, -limits), limits)
    return clipped
