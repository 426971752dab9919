"""A walking network from its settings by name, as a table of cases has them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from skipring.learning import Hardware, NetworkStep, NeuralToken, Protection
from skipring.learning.torch_each import BatchLoss

COMPUTING = ("device", "batch", "graph", "compile_loss", "bf16")


def token_with(
    module: nn.Module, loss: BatchLoss, images: torch.Tensor, labels: torch.Tensor, **given: Any
) -> NeuralToken:
    """Return it; `divisor` and `rows_per_person` are those of the protection."""
    hardware = Hardware(**{name: given.pop(name) for name in COMPUTING if name in given})
    unit, per_person = given.pop("protects"), given.pop("rows_per_person", 1)
    per_person = per_person if unit == "person" else 1
    protection = Protection(unit=unit, batch=given.pop("divisor", None), rows_per_person=per_person)
    step = {name: given.pop(name) for name in ("gradient_bound", "diameter", "ridge") if name in given}
    return NeuralToken(
        module, loss, images, labels, step=NetworkStep(protection=protection, **step), hardware=hardware, **given
    )
