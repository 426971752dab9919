"""What the simulator, the nodes and the accountants need to know about a neural network, without loading PyTorch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

from ..errors import InvalidInput, require_non_negative, require_positive

#: The networks that are built in: those of the paper, and a small one that learns more where noise is strong.
NETWORKS = ("cnn", "small-cnn")

#: Shape of the images (colours, height, width) by the number of features.
_SHAPES: dict[int, tuple[Literal["mnist", "cifar10"], tuple[int, int, int]]] = {
    784: ("mnist", (1, 28, 28)),
    3072: ("cifar10", (3, 32, 32)),
}


def is_network(name: str) -> bool:
    """Say whether a model of this name is a neural network.

    >>> is_network("logistic"), is_network("clinic.models:small")
    (False, True)
    """
    return name in NETWORKS or ":" in name


@dataclass(frozen=True, kw_only=True)
class NeuralModel:
    """A network with PyTorch; the averaged gradient of a node is clipped, or nothing is promised.

    Parameters
    ----------
    name : ``cnn``, one of the paper's convolutional networks, ``small-cnn``, two convolutions and a tenth of the
        parameters, or ``module:function``, which returns a PyTorch module.
    features : columns of a row; for images 784 (28 x 28 pixels) or 3072 (32 x 32 in colour).
    classes : 0 where labels are numbers, which networks for images cannot learn; they have at most 10.
    clip : the averaged gradient is clipped to this norm; None means not at all.
    diameter : of the ball that the parameters are kept in; None means none.
    ridge : weight of half the squared norm of the parameters.
    device : where to compute: ``auto`` (a GPU if there is one), ``cpu`` or ``cuda``.

    >>> model = NeuralModel(features=784, clip=1.0)
    >>> model.network, model.contracts(0.1), model.gradient_bound
    ('mnist', False, 1.0)
    """

    #: Rows have no bound of their own: what is clipped has.
    bounds_rows: ClassVar[bool] = False

    features: int
    classes: int = 10
    clip: float | None = None
    diameter: float | None = None
    ridge: float = 0.0
    device: str = "auto"
    name: str = "cnn"

    def __post_init__(self) -> None:
        if not self.is_function:
            self._check_images()
        for name, value in (("gradient_bound", self.clip), ("diameter", self.diameter)):
            if value is not None:
                require_positive(name, value)
        require_non_negative("ridge", self.ridge)

    def _check_images(self) -> None:
        if self.name not in NETWORKS:
            raise InvalidInput("model", self.name, f"{', '.join(NETWORKS)} or module:function")
        if self.classes == 0:
            raise InvalidInput.because("model", self.name, "the labels are numbers, not classes; use squared")
        if self.features not in _SHAPES:
            sizes = "784 (28 x 28 pixels) or 3072 (32 x 32 in colour)"
            raise InvalidInput("model", self.name, f"given images of {sizes} features, not {self.features}")
        if self.classes > 10:
            raise InvalidInput("model", self.name, f"used for at most 10 classes, not {self.classes}")

    @property
    def is_function(self) -> bool:
        """Whether the network is whatever a function of the user's own returns."""
        return ":" in self.name

    @property
    def label_classes(self) -> int:
        """How many classes labels have; 0 where they are numbers."""
        return self.classes

    @property
    def network(self) -> Literal["mnist", "cifar10"]:
        """The paper's data set whose images the network takes; not of a function."""
        return _SHAPES[self.features][0]

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Colours, height and width of the images; not of a function."""
        return _SHAPES[self.features][1]

    @cached_property
    def parameters(self) -> int:
        """Number of parameters that travel; for a function, PyTorch is loaded and it is called."""
        if not self.is_function:
            sizes = {"cnn": (279_498, 7_655_754), "small-cnn": (26_010, 37_274)}[self.name]
            return sizes[self.network == "cifar10"]
        require_torch(self.name)
        from .torch_module import drawn, maker, trainable

        return sum(parameter.numel() for parameter in trainable(drawn(maker(self), 0)))

    @property
    def gradient_bound(self) -> float:
        """The unit of the noise: the clipping norm, or 1 where nothing is clipped."""
        return 1.0 if self.clip is None else self.clip

    @property
    def radius(self) -> float:
        """How far from 0 the parameters may be."""
        return math.inf if self.diameter is None else 0.5 * self.diameter

    @property
    def smoothness(self) -> float:
        """No bound is known."""
        return math.inf

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


def require_torch(name: str) -> None:
    """Refuse a network where PyTorch, an optional dependency, is missing."""
    try:
        import torch  # noqa: F401 # loaded only where it is needed
    except ImportError:
        raise InvalidInput.because("model.name", name, "needs PyTorch: pip install skipring[torch]") from None
