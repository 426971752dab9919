"""Losses of one margin per row, for two classes (logistic loss, and your own), and all losses by name.

With labels y of -1 and 1, a row's margin is m = y w.x. Let the loss be convex in m, no steeper than `bound`, and its
slope no steeper than `smoothness`. Then rows of norm at most 1 have gradients of at most `bound`, and updates with
steps of at most 2 / `smoothness` are contractions. The accountants rest on these two numbers, so both are tried out
before a loss is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._arrays import Floats
from ..errors import InvalidInput, require_positive
from .loss import Loss, SoftmaxLoss, SquaredLoss, clipped_slopes
from .networks import NETWORKS

#: How many margins a loss is tried at, how far beyond `flat`, and what rounding may change, in units of its bound.
_TRIED, _BEYOND, _ROUNDING = 200_001, 1e6, 1e-6


@dataclass(frozen=True, kw_only=True)
class MarginLoss(Loss):
    """A convex, smooth loss of a row's margin, for two classes.

    Parameters
    ----------
    name : what run files call it.
    value, slope : the loss and its derivative, given an array of margins.
    bound : the largest absolute slope.
    smoothness : the largest derivative of the slope.
    flat : beyond margins of -flat and flat the loss is a straight line, or as good as one.
    has_probabilities : whether the loss is minus the logarithm of how likely a row's class is.
    device_value, device_slope : the same for tensors of PyTorch, where a device is to compute it.

    >>> hinge = MarginLoss(
    ...     name="smooth-hinge",
    ...     value=lambda m: np.where(m < 0.0, 0.5 - m, 0.5 * np.maximum(1.0 - m, 0.0) ** 2),
    ...     slope=lambda m: np.clip(m - 1.0, -1.0, 0.0),
    ...     bound=1.0,
    ...     smoothness=1.0,
    ... )
    >>> hinge.check()
    """

    name: str
    # A function is shown with its address, which differs from process to process.
    value: Callable[[Floats], Floats] = field(repr=False)
    slope: Callable[[Floats], Floats] = field(repr=False)
    bound: float
    smoothness: float
    flat: float = 40.0
    has_probabilities: bool = False
    device_value: Callable[[Any], Any] | None = field(default=None, repr=False)
    device_slope: Callable[[Any], Any] | None = field(default=None, repr=False)

    classes = range(2, 3)
    usual_classes = 2

    @property
    def on_device(self) -> bool:
        """Whether there is a twin for it."""
        return self.device_value is not None and self.device_slope is not None

    def longest(self, radius: float, label_bound: float) -> float:
        """Return the bound."""
        return self.bound

    def slopes(self, scores: Any, y: Any, norms: Any, clip: float) -> Any:
        """Return the slope by each score, clipped."""
        signs, slope = 2.0 * y - 1.0, self.slope if isinstance(scores, np.ndarray) else self.device_slope
        assert slope is not None
        return clipped_slopes(signs * slope(signs * scores), norms, clip)

    def values(self, scores: Any, y: Any) -> Any:
        """Return the loss of each margin."""
        value = self.value if isinstance(scores, np.ndarray) else self.device_value
        assert value is not None
        return value((2.0 * y - 1.0) * scores)

    def errors(self, scores: Any, y: Any) -> Any:
        """Return whether a score has the wrong sign; 0 speaks for the first class."""
        return 1.0 * ((scores > 0.0) != (y == 1))

    def check(self) -> None:
        """Refuse a loss that is not what it says, as far as trying it at many margins can tell."""
        for what in ("bound", "smoothness", "flat"):
            require_positive(f"loss.{what}", getattr(self, what))
        margins = np.linspace(-self.flat, self.flat, _TRIED)
        slopes = self._tried("slope", margins)
        allowed = _ROUNDING * self.bound
        steps, width = np.diff(slopes), 2.0 * self.flat / (_TRIED - 1)
        if steps.min() < -1e-9 * self.bound:
            self._refuse("slope", "falls somewhere, so that the loss is not convex")
        if np.abs(slopes).max() > self.bound * (1.0 + 1e-9):
            self._refuse("slope", f"reaches {np.abs(slopes).max():g}, above the bound {self.bound:g}")
        if steps.max() > self.smoothness * width * (1.0 + 1e-6) + 1e-12 * self.bound:
            self._refuse("slope", f"rises by {steps.max() / width:g} per margin, above {self.smoothness:g}")
        ends = self._tried("slope", np.array([-_BEYOND, -1.0, 1.0, _BEYOND]) * self.flat)
        if max(abs(ends[0] - ends[1]), abs(ends[2] - ends[3])) > allowed:
            self._refuse("slope", f"still changes beyond margins of {self.flat:g}; give a larger flat")
        # The trapezium rule is off by at most width^2 x smoothness / 4 per margin: the value must be the slope's sum.
        values = self._tried("value", margins)
        summed = np.append(0.0, np.cumsum(0.5 * width * (slopes[1:] + slopes[:-1])))
        off = float(np.abs(values - values[0] - summed).max())
        if off > 0.5 * self.flat * width * self.smoothness + 1e-6 * max(1.0, float(np.abs(values).max())):
            self._refuse("value", f"is off by {off:g} from what the slope adds up to")

    def _tried(self, what: str, margins: Floats) -> Floats:
        found = np.asarray(getattr(self, what)(margins), dtype=np.float64)
        if found.shape != margins.shape or not np.isfinite(found).all():
            self._refuse(what, "must be a finite number for each margin of an array")
        return found

    def _refuse(self, what: str, reason: str) -> None:
        raise InvalidInput.because("loss", self.name, f"its {what} {reason}")


def _logistic_slope(margins: Floats) -> Floats:
    return -1.0 / (1.0 + np.exp(np.minimum(margins, 700.0)))


def _logistic_value(margins: Floats) -> Floats:
    value: Floats = np.logaddexp(0.0, -margins)
    return value


def _logistic_slope_on_device(margins: Any) -> Any:
    return -(-margins).sigmoid()


def _logistic_value_on_device(margins: Any) -> Any:
    from torch.nn.functional import softplus  # PyTorch is loaded only where it is needed

    return softplus(-margins)


LOGISTIC = MarginLoss(
    name="logistic",
    value=_logistic_value,
    slope=_logistic_slope,
    bound=1.0,
    smoothness=0.25,
    has_probabilities=True,
    device_value=_logistic_value_on_device,
    device_slope=_logistic_slope_on_device,
)

SOFTMAX, SQUARED = SoftmaxLoss(), SquaredLoss()
#: The losses by name; those of your own stand behind them.
LOSSES: dict[str, Loss] = {loss.name: loss for loss in (LOGISTIC, SOFTMAX, SQUARED)}
#: Names of those that are always there, and that run no code of a user's.
BUILT_IN = frozenset(LOSSES)


def register_loss(loss: MarginLoss) -> MarginLoss:
    """Make a loss usable by its name, in models and run files, once it was tried out; return it."""
    require_tried(loss)
    LOSSES.setdefault(loss.name, loss)
    return loss


def require_tried(loss: object) -> None:
    """Refuse a loss that is not what it says, or has the name of another."""
    if not isinstance(loss, Loss):
        raise InvalidInput("loss", loss, "LOGISTIC, SOFTMAX, SQUARED or a MarginLoss")
    known = LOSSES.get(loss.name)
    if known == loss:
        return
    if known is not None or loss.name in NETWORKS:
        raise InvalidInput.because("loss", loss.name, "is the name of another loss")
    if not isinstance(loss, MarginLoss):
        raise InvalidInput("loss", loss, "a MarginLoss")
    if not loss.name or not loss.name.replace("-", "").replace("_", "").isalnum():
        raise InvalidInput("loss", loss.name, "a name of letters, digits, - and _")
    loss.check()


def loss_named(name: str) -> Loss:
    """Return the loss of this name.

    >>> loss_named("logistic").smoothness
    0.25
    """
    if name not in LOSSES:
        raise InvalidInput("model", name, f"one of {', '.join(sorted(LOSSES))}")
    return LOSSES[name]


def loss_kind(name: str) -> type[Loss]:
    """Return what kind of loss a trained linear model has; one that is not known here is a `MarginLoss` of a user's."""
    return type(LOSSES[name]) if name in LOSSES else MarginLoss


def usual_loss(classes: int) -> Loss:
    """Return the loss for labels with this many classes, where nobody asks for another; 0 classes are numbers."""
    return SQUARED if classes == 0 else LOGISTIC if classes == 2 else SOFTMAX


def is_of_numbers(name: str | None) -> bool:
    """Say whether a model of this name is a linear model of labels that are numbers."""
    return name in LOSSES and LOSSES[name].is_of_numbers
