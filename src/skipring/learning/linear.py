"""Linear models: logistic regression or another loss of one margin, softmax regression and least squares.

The data is bounded instead of the gradient: rows, an intercept column included, have norm at most 1. Gradients then
have a bound that needs no clipping, and every update with a small enough step size is a contraction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ..errors import InvalidInput, require_integer, require_non_negative, require_positive
from .losses import MarginLoss, loss_named, register_loss

#: The losses that are always there.
LossName = Literal["logistic", "softmax", "squared"]
#: Steps of this size and noise for them still have squares that a double holds.
_MOST_BOUND = 1e100


class _Loss:
    """A model's loss: given by its name or as a `MarginLoss`, and read as its name."""

    def __get__(self, model: Any, owner: type) -> str:
        if model is None:  # no default
            raise AttributeError("loss")
        name: str = model.__dict__["loss"]
        return name

    def __set__(self, model: Any, loss: str | MarginLoss) -> None:
        found = register_loss(loss) if isinstance(loss, MarginLoss) else loss_named(loss)
        model.__dict__["loss"] = loss.name if isinstance(loss, MarginLoss) else loss
        model.__dict__["_margin_loss"] = found


@dataclass(frozen=True, kw_only=True)
class LinearModel:
    """A linear model on rows of norm at most 1, with its parameters kept in a ball around 0.

    Parameters
    ----------
    loss : ``logistic`` (two classes), ``softmax`` (more) or ``squared`` (numbers); or a loss of your own for two
        classes, a `MarginLoss` or its name.
    features : columns of the data, the intercept included.
    classes : for softmax, their number.
    diameter : of the ball that the parameters are projected onto; infinity means none (not for squared loss).
    ridge : weight of half the squared norm, added to the loss.
    clip : if smaller than the natural bound, each example's gradient is clipped to this norm, in a way that keeps the
        loss convex.
    label_bound : for squared loss, the largest absolute label. Infinity, where every gradient is clipped: the bound is
        then `clip`, whatever the labels are.

    >>> model = LinearModel(loss="logistic", features=8, diameter=10.0)
    >>> model.gradient_bound, model.smoothness, model.contracts(0.3)
    (1.0, 0.25, True)
    """

    loss: _Loss = _Loss()
    features: int
    diameter: float
    classes: int = 2
    ridge: float = 0.0
    clip: float | None = None
    label_bound: float = 1.0

    def __post_init__(self) -> None:
        require_integer("features", self.features, 1)
        if self.diameter != math.inf or self.loss == "squared":  # whose gradient no bound would hold without a ball
            require_positive("diameter", self.diameter)
        require_non_negative("ridge", self.ridge)
        require_integer("classes", self.classes, 2)
        # No label is too large if each gradient is clipped to a bound of its own.
        if not (self.loss == "squared" and self.clip is not None and self.label_bound == math.inf):
            require_positive("label_bound", self.label_bound)
        if self.margin_loss is not None and self.classes != 2:
            raise InvalidInput("model", self.loss, f"softmax for {self.classes} classes; {self.loss} is for two")
        if self.clip is not None:
            require_positive("gradient_bound", self.clip)
        if not self.gradient_bound <= _MOST_BOUND:
            # Whichever of them is so large, unless gradients are clipped to less.
            which = "label_bound" if self.label_bound >= self.radius and self.clip is None else "diameter"
            which, value = ("gradient_bound", self.clip) if self.clip is not None else (which, getattr(self, which))
            raise InvalidInput(which, f"{value:g}", f"below {_MOST_BOUND:g}: squares of what follows from it overflow")

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.margin_loss is not None:  # which a process that this model was sent to may not know
            register_loss(self.margin_loss)

    #: Whether the bound is that of each row's gradient.
    bounds_rows: ClassVar[bool] = True

    @property
    def margin_loss(self) -> MarginLoss | None:
        """The loss, if it is one of a margin (logistic or your own); None for softmax and squared loss."""
        found: MarginLoss | None = self.__dict__["_margin_loss"]
        return found

    @property
    def radius(self) -> float:
        """How far from 0 the parameters may be."""
        return 0.5 * self.diameter

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        return self.features * (self.classes if self.loss == "softmax" else 1)

    @property
    def natural_bound(self) -> float:
        """The largest norm of an example's gradient, without the ridge term (which does not depend on data)."""
        if self.margin_loss is not None:
            return self.margin_loss.bound
        if self.loss == "softmax":
            return 2.0**0.5
        return self.radius + self.label_bound

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
        if self.margin_loss is not None:
            return self.margin_loss.smoothness + self.ridge
        return {"softmax": 0.5, "squared": 1.0}[self.loss] + self.ridge

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
