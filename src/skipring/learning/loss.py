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

from .._arrays import Floats

#: Squares of shorter rows vanish: such a row is taken to be as long as that, which clips it all the more.
_SHORTEST = 1e-150


class Loss(ABC):
    """A convex, smooth loss of a row's scores.

    Rows are arrays of numpy in double precision, or tensors of PyTorch in single precision, for simulations.
    """

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
    def slopes(self, scores: Any, y: Any, norms: Any, clip: float) -> Any:
        """Return the derivative by each score, clipped so that no gradient of a row of this norm is above `clip`."""

    @abstractmethod
    def values(self, scores: Any, y: Any) -> Any:
        """Return the loss of each row."""

    @abstractmethod
    def errors(self, scores: Any, y: Any) -> Any:
        """Return for each row 1 if its predicted class is wrong, and else 0; or the squared error of its number."""

    @property
    def on_device(self) -> bool:
        """Whether a device can compute it; else numpy does."""
        return True


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

    def slopes(self, scores: Any, y: Any, norms: Any, clip: float) -> Any:
        """Return the residuals, clipped."""
        return clipped_slopes(scores - y, norms, clip)

    def values(self, scores: Any, y: Any) -> Any:
        """Return half the squared residuals."""
        return 0.5 * (scores - y) ** 2

    def errors(self, scores: Any, y: Any) -> Any:
        """Return the squared residuals."""
        return (scores - y) ** 2


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

    def slopes(self, scores: Any, y: Any, norms: Any, clip: float) -> Any:
        """Return the probability of each class, but for what its own lacks, clipped."""
        if not isinstance(scores, np.ndarray):
            return _softmax_slopes_on_device(scores, y, clip / norms)
        each: Floats = np.exp(scores - scores.max(axis=1, keepdims=True))
        each /= each.sum(axis=1, keepdims=True)
        own = np.arange(len(y)), y.astype(np.int64, copy=False)
        each[own] = 0.0
        wrong = each.sum(axis=1)
        each[own] = -wrong
        sizes = math.sqrt(2.0) * norms * wrong
        each *= np.minimum(1.0, clip / np.maximum(sizes, 1e-300))[:, None]
        return each

    def values(self, scores: Any, y: Any) -> Any:
        """Return minus the logarithm of the probability of each row's class."""
        if not isinstance(scores, np.ndarray):
            from torch.nn.functional import cross_entropy  # PyTorch is loaded only where it is needed

            return cross_entropy(scores, y, reduction="none")
        top = scores.max(axis=1)
        each: Floats = np.log(np.exp(scores - top[:, None]).sum(axis=1)) + top
        return each - scores[np.arange(len(y)), y.astype(np.int64, copy=False)]

    def errors(self, scores: Any, y: Any) -> Any:
        """Return whether another class has the highest score."""
        return 1.0 * (scores.argmax(1) != y)


def _softmax_slopes_on_device(scores: Any, y: Any, limits: Any) -> Any:
    each = scores.softmax(dim=1).scatter_(1, y[:, None], 0.0)
    wrong = each.sum(dim=1, keepdim=True)
    each.scatter_(1, y[:, None], -wrong)
    each *= (limits[:, None] / (math.sqrt(2.0) * wrong.clamp(min=1e-30))).clamp(max=1.0)
    return each


def clipped_slopes(slopes: Any, norms: Any, clip: float) -> Any:
    """Return slopes of one score, none of which makes the gradient of a row of this norm longer than `clip`."""
    limits = clip / norms.clip(min=_SHORTEST)
    return slopes.clip(-limits, limits)
