"""All losses of linear models by name: here one is looked up, and yours is made known."""

from __future__ import annotations

from ..errors import InvalidInput
from .loss import Loss, SoftmaxLoss, SquaredLoss
from .margin_loss import LOGISTIC, MarginLoss
from .networks import NETWORKS

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
