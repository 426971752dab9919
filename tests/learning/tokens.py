"""A walking network, and bounded gradients, from their settings by name, as a table of cases has them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from skipring.learning import Hardware, NeuralModel, NeuralToken, Protection
from skipring.learning.torch_units import UnitGradients

COMPUTING = ("graph", "compile_loss", "bf16")


def token_with(module: nn.Module, images: torch.Tensor, labels: torch.Tensor, **given: Any) -> NeuralToken:
    """Return it; `divisor` and `rows_per_person` are those of the protection."""
    hardware = Hardware.fastest(torch.device(given.pop("device", "cpu")), given.pop("batch", None))
    hardware = replace(hardware, **{name: given.pop(name) for name in COMPUTING if name in given})
    unit, per_person = given.pop("protects"), given.pop("rows_per_person", 1)
    per_person = per_person if unit == "person" else 1
    protection = Protection(unit=unit, batch=given.pop("divisor", None), rows_per_person=per_person)
    seed = {"seed": given.pop("seed")} if "seed" in given else {}
    return NeuralToken(model_with(**given), module, images, labels, protection=protection, hardware=hardware, **seed)


def unit_gradients(
    module: nn.Module,
    bound: float,
    x: torch.Tensor,
    labels: torch.Tensor,
    *,
    rows: int = 1,
    most: int | None = None,
    name: str = "a:network",
    **given: Any,
) -> UnitGradients:
    """Return what bounds each unit of up to `rows` rows, in batches of `most`; by default as many as there are."""
    batch = max(len(x), rows) if most is None else most
    protection = Protection(unit="person" if rows > 1 else "record", batch=batch, rows_per_person=rows)
    return UnitGradients(module, model_with(gradient_bound=bound, name=name), protection, x, labels, **given)


def model_with(*, gradient_bound: float | None = None, name: str = "a:network", **given: Any) -> NeuralModel:
    """Return what is to be known of a module."""
    return NeuralModel(name=name, features=1, clip=gradient_bound, **given)
