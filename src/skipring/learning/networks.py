"""What the simulator and the accountants need to know about a neural network, without loading PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..errors import InvalidInput, require_positive

__all__ = ["NeuralModel"]

#: Shape of the images (colours, height, width) by the number of features.
_SHAPES: dict[int, tuple[Literal["mnist", "cifar10"], tuple[int, int, int]]] = {
    784: ("mnist", (1, 28, 28)),
    3072: ("cifar10", (3, 32, 32)),
}


@dataclass(frozen=True, kw_only=True)
class NeuralModel:
    """One of the paper's convolutional networks; the averaged gradient of a node is clipped, or nothing is promised.

    Parameters
    ----------
    features : 784 for images of 28 x 28 pixels, 3072 for colour images of 32 x 32.
    classes : at most 10.
    clip : the averaged gradient is clipped to this norm; None means not at all.
    diameter : of the ball that the parameters are kept in; None means none.
    device : where to compute: ``auto`` (a GPU if there is one), ``cpu`` or ``cuda``.

    >>> model = NeuralModel(features=784, clip=1.0)
    >>> model.network, model.contracts(0.1), model.gradient_bound
    ('mnist', False, 1.0)
    """

    features: int
    classes: int = 10
    clip: float | None = None
    diameter: float | None = None
    device: str = "auto"

    loss: Literal["cnn"] = "cnn"

    def __post_init__(self) -> None:
        if self.features not in _SHAPES:
            sizes = "784 (28 x 28 pixels) or 3072 (32 x 32 in colour)"
            raise InvalidInput("model", "cnn", f"given images of {sizes} features, not {self.features}")
        if self.classes > 10:
            raise InvalidInput("model", "cnn", f"used for at most 10 classes, not {self.classes}")
        for name, value in (("gradient_bound", self.clip), ("diameter", self.diameter)):
            if value is not None:
                require_positive(name, value)

    @property
    def network(self) -> Literal["mnist", "cifar10"]:
        """The paper's data set that the network was made for."""
        return _SHAPES[self.features][0]

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Colours, height and width."""
        return _SHAPES[self.features][1]

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        return {"mnist": 279_498, "cifar10": 7_655_754}[self.network]

    @property
    def gradient_bound(self) -> float:
        """The unit of the noise: the clipping norm, or 1 where nothing is clipped."""
        return 1.0 if self.clip is None else self.clip

    @property
    def smoothness(self) -> float:
        """No bound is known."""
        return float("inf")

    def contracts(self, step_size: float) -> bool:
        """Say that updates of a network are no contractions."""
        return False

    def why_not(self, step_size: float) -> str:
        """Say why the noise of others may not be counted."""
        return "updates of a neural network are no contractions"

    @property
    def why_no_privacy(self) -> str:
        """Say why no epsilon can be stated; empty if one can."""
        return "" if self.clip is not None else "gradients are not clipped, so a node's share in an update has no bound"
