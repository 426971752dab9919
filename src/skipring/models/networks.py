"""Models as PyTorch modules: a network with the parameters of a file, or a linear layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ..errors import InvalidInput
from ..learning import NeuralModel, drawn, maker, rows_for, usable_module, with_parameters

_CHUNK = 2000


class _OfRows(nn.Module):
    """A network for images that takes rows of pixels from 0 to 1, as tables have them."""

    def __init__(self, inner: nn.Module, model: NeuralModel) -> None:
        super().__init__()
        self.inner = inner
        self._colours, self._height, self._width = model.image_shape

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the scores of each row."""
        images = rows.reshape(-1, self._height, self._width, self._colours).permute(0, 3, 1, 2)
        found: torch.Tensor = self.inner(2.0 * images - 1.0)
        return found


def fixed_bytes(name: str, seed: int) -> NDArray[np.uint8]:
    """Return the bytes of the weights that do not learn, of a module that a function makes with this seed."""
    module = drawn(maker(NeuralModel(name=name, features=1, classes=0)), seed)
    return np.concatenate([np.zeros(0, np.uint8), *(_bytes(each).numpy() for each in _fixed(module))])


def _fixed(module: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in module.parameters() if not parameter.requires_grad]


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def _with_fixed(module: nn.Module, fixed: NDArray[np.uint8]) -> bool:
    """Give a module its weights that do not learn; False if it has others."""
    weights = _fixed(module)
    sizes = [weight.numel() * weight.element_size() for weight in weights]
    if sum(sizes) != fixed.size:
        return False
    pieces = torch.split(torch.from_numpy(np.array(fixed)), sizes)
    with torch.no_grad():
        for weight, piece in zip(weights, pieces, strict=True):
            # A piece may begin where numbers of this type must not; a copy does not.
            weight.copy_(piece.clone().view(weight.dtype).view(weight.shape))
    return True


def network(model: NeuralModel, parameters: NDArray[Any], fixed: NDArray[np.uint8]) -> nn.Module:
    """Return the module of a network with these parameters, and weights that do not learn, ready to answer rows."""
    some, _ = rows_for(model, np.zeros((1, model.features), np.float32), np.zeros(1), "made-up")
    module = usable_module(model, some)
    if not with_parameters(module, parameters):
        reason = f"makes a module of another size than the {parameters.size} parameters of the model's file"
        raise InvalidInput.because("model.name", model.name, reason)
    if not _with_fixed(module, fixed):
        reason = f"makes a module with other weights that do not learn than the {fixed.size} bytes of the model's file"
        raise InvalidInput.because("model.name", model.name, reason)
    module.eval()
    return module if model.is_function else _OfRows(module, model).eval()


def linear_module(coefficients: NDArray[Any], constants: NDArray[Any]) -> nn.Module:
    """Return a linear layer with these weights."""
    outputs, inputs = coefficients.shape
    layer = nn.Linear(inputs, outputs)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(np.array(coefficients, np.float32)))
        layer.bias.copy_(torch.from_numpy(np.array(constants, np.float32)))
    return layer.eval()


def answers(module: nn.Module, rows: NDArray[Any]) -> NDArray[np.float32]:
    """Return what a module answers to rows, some at a time."""
    single = np.asarray(rows, np.float32)
    with torch.no_grad():
        parts = [
            module(torch.from_numpy(np.ascontiguousarray(single[low : low + _CHUNK])))
            for low in range(0, len(single), _CHUNK)
        ]
    return (
        np.concatenate([np.asarray(part.numpy(), np.float32) for part in parts])
        if parts
        else np.empty((0, 1), np.float32)
    )
