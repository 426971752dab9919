"""Linear models: logistic regression or another loss of one margin, softmax regression and least squares.

The data is bounded instead of the gradient: rows, an intercept column included, have norm at most 1. Gradients then
have a bound that needs no clipping, and every update with a small enough step size is a contraction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ..errors import InvalidInput, require_integer, require_non_negative, require_positive
from .loss import Loss
from .margin_loss import require_tried, usual_loss

#: Steps of this size and noise for them still have squares that a double holds.
_MOST_BOUND = 1e100


@dataclass(frozen=True, kw_only=True)
class LinearModel:
    """A linear model on rows of norm at most 1, with its parameters kept in a ball around 0.

    Parameters
    ----------
    loss : one of `LOSSES`, such as `LOGISTIC` (two classes), `SOFTMAX` (more) or `SQUARED` (numbers); or a `MarginLoss`
        of your own for two classes.
    features : columns of the data, the intercept included.
    classes : for softmax, their number.
    diameter : of the ball that the parameters are projected onto; infinity means none (not for squared loss).
    ridge : weight of half the squared norm, added to the loss.
    clip : if smaller than the natural bound, each example's gradient is clipped to this norm, in a way that keeps the
        loss convex.
    label_bound : for squared loss, the largest absolute label. Infinity, where every gradient is clipped: the bound is
        then `clip`, whatever the labels are.

    >>> from skipring.learning import LOGISTIC
    >>> model = LinearModel(loss=LOGISTIC, features=8, diameter=10.0)
    >>> model.gradient_bound, model.smoothness, model.contracts(0.3)
    (1.0, 0.25, True)
    """

    loss: Loss
    features: int
    diameter: float
    classes: int = 2
    ridge: float = 0.0
    clip: float | None = None
    label_bound: float = 1.0

    def __post_init__(self) -> None:
        require_tried(self.loss)
        require_integer("features", self.features, 1)
        if self.diameter != math.inf or self.loss.is_of_numbers:  # whose gradient no bound would hold without a ball
            require_positive("diameter", self.diameter)
        require_non_negative("ridge", self.ridge)
        require_integer("classes", self.classes, 2)
        # No label is too large if each gradient is clipped to a bound of its own.
        if not (self.loss.is_of_numbers and self.clip is not None and self.label_bound == math.inf):
            require_positive("label_bound", self.label_bound)
        if not self.loss.is_of_numbers and not self.loss.fits(self.classes):
            usual = usual_loss(self.classes).name
            raise InvalidInput("model", self.name, f"{usual} for {self.classes} classes; {self.name} is for two")
        if self.clip is not None:
            require_positive("gradient_bound", self.clip)
        if not self.gradient_bound <= _MOST_BOUND:
            # Whichever of them is so large, unless gradients are clipped to less.
            which = "label_bound" if self.label_bound >= self.radius and self.clip is None else "diameter"
            which, value = ("gradient_bound", self.clip) if self.clip is not None else (which, getattr(self, which))
            raise InvalidInput(which, f"{value:g}", f"below {_MOST_BOUND:g}: squares of what follows from it overflow")

    #: Whether the bound is that of each row's gradient.
    bounds_rows: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """What run files and results call it: the name of its loss."""
        return self.loss.name

    @property
    def label_classes(self) -> int:
        """How many classes labels have; 0 where they are numbers."""
        return 0 if self.loss.is_of_numbers else self.classes

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the parameters: a vector, or a row for each class."""
        scores = self.loss.scores(self.classes)
        return (self.features,) if scores == 1 else (scores, self.features)

    @property
    def radius(self) -> float:
        """How far from 0 the parameters may be."""
        return 0.5 * self.diameter

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        return self.features * self.loss.scores(self.classes)

    @property
    def natural_bound(self) -> float:
        """The largest norm of an example's gradient, without the ridge term (which does not depend on data)."""
        return self.loss.longest(self.radius, self.label_bound)

    @property
    def clips(self) -> bool:
        """Whether gradients are ever clipped."""
        return self.clip is not None and self.clip < self.natural_bound

    @property
    def gradient_bound(self) -> float:
        """The k of the accountants: the largest norm of the part of a node's gradient that depends on its data."""
        return self.clip if self.clips and self.clip is not None else self.natural_bound

    @property
    def smoothness(self) -> float:
        """The beta of the accountants, ridge term included."""
        return self.loss.smoothness + self.ridge

    def contracts(self, step_size: float) -> bool:
        """Say whether updates with steps of at most this size are contractions, which amplification needs.

        Clipping an example's gradient keeps the loss convex and no less smooth: one of a margin becomes Huber's, and
        softmax is clipped by its scalar slope 1 - p_y, not by its length.
        """
        return step_size <= 2.0 / self.smoothness

    def why_not(self, step_size: float) -> str:
        """Say why updates are not contractions; empty if they are."""
        if not step_size <= 2.0 / self.smoothness:
            return f"the learning rate {step_size:g} is above 2 / smoothness = {2.0 / self.smoothness:g}"
        return ""
