"""Modules must not change their own parameters when they are used: what changes them are rows that no noise hides.

``nn.Embedding(max_norm=...)`` does, and so may any `forward`. What a parameter was is not kept, which would be a second
copy of the model. But torch counts the operations that write to a tensor, and a sum of its bits tells of most others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from ..errors import InvalidInput

#: Bits are added up in pieces of this many numbers: a CPU copies them into wider ones first.
_PIECE = 1 << 16
Written = dict[str, tuple[int, torch.Tensor]]


def require_fixed(module: nn.Module, name: str, parameter: str = "model") -> None:
    """Refuse layers that are known to change their parameters when they are used."""
    for of, part in module.named_modules():
        if isinstance(part, nn.Embedding | nn.EmbeddingBag) and part.max_norm is not None:
            layer = f"layer {of or 'of the model'} ({type(part).__name__})"
            reason = f"{layer} changes its own parameters when it is used, by rows that no noise hides (max_norm)"
            raise InvalidInput.because(parameter, name, reason)


def versions(module: nn.Module) -> dict[str, int]:
    """Return how often each parameter was written to, as far as torch knows; no GPU is waited for."""
    return {name: each._version for name, each in module.named_parameters()}


def written_bits(module: nn.Module) -> Written:
    """Return how often each parameter and buffer was written to, and a sum of its bits."""
    named = [*module.named_parameters(), *module.named_buffers()]
    return {name: (each._version, _sum_of_bits(each)) for name, each in named}


def changed_since(module: nn.Module, before: Written) -> str | None:
    """Return the name of a parameter or buffer that was written to since then; None if there is none."""
    for name, (version, bits) in written_bits(module).items():
        if name not in before or version != before[name][0] or not torch.equal(bits, before[name][1]):
            return name
    return None


def refusal_of_change(parameter: str, name: str, changed: str) -> InvalidInput:
    """Return why a module is refused that changed one of its parameters."""
    reason = f"changes its own parameters when it is used ({changed}), by rows that no noise hides"
    return InvalidInput.because(parameter, name, reason)


@contextmanager
def unchanged(module: nn.Module, name: str, parameter: str = "model") -> Iterator[None]:
    """Refuse a module that changes a parameter or buffer of its own meanwhile."""
    before = written_bits(module)
    try:
        yield
    finally:
        if (changed := changed_since(module, before)) is not None:
            raise refusal_of_change(parameter, name, changed)


def _sum_of_bits(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.detach().reshape(-1)
    bits = flat.view(torch.int32 if flat.element_size() == 4 else torch.uint8)
    total = torch.zeros((), dtype=torch.int64, device=flat.device)
    for piece in torch.split(bits, _PIECE):
        total += piece.sum(dtype=torch.int64)
    return total
