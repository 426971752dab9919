"""Models as PyTorch modules: a network with the parameters of a file, or a linear layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ..errors import InvalidInput
from ..learning import NeuralModel, drawn, maker, require_usable, rows_for, with_parameters

__all__ = ["answers", "linear_module", "network"]

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


def network(model: NeuralModel, parameters: NDArray[Any], seed: int) -> nn.Module:
    """Return the module of a network with these parameters, ready to answer rows."""
    module = drawn(maker(model), seed)
    some, _ = rows_for(model, np.zeros((1, model.features), np.float32), np.zeros(1), "made-up")
    require_usable(module, model, some[:0])
    if not with_parameters(module, parameters):
        reason = f"makes a module of another size than the {parameters.size} parameters of the model's file"
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
