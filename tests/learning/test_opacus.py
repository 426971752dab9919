"""Modules that Opacus takes train here too, with the same clipped gradients. Skipped where it is not installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tokens import unit_gradients
from torch import nn

from skipring.learning.torch_update import batch_loss

opacus = pytest.importorskip("opacus", reason="Opacus is no dependency")
pytestmark = pytest.mark.filterwarnings("ignore")  # Opacus' hooks warn on new versions of torch


class Recurrent(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        from opacus.layers import DPGRU, DPLSTM, DPRNN

        self.inner: Any = {"lstm": DPLSTM, "gru": DPGRU, "rnn": DPRNN}[kind](4, 5, batch_first=True)
        self.last = nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        last: torch.Tensor = self.last(self.inner(x.reshape(len(x), 6, 4))[0][:, -1])
        return last


class Attentive(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        from opacus.layers import DPMultiheadAttention

        self.inner: Any = DPMultiheadAttention(4, 2, batch_first=True)
        self.last = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.reshape(len(x), 6, 4)
        last: torch.Tensor = self.last(self.inner(x, x, x)[0].mean(1))
        return last


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm, self.last = nn.Embedding(7, 5), nn.LayerNorm(5), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        last: torch.Tensor = self.last(self.norm(self.table((x.abs() * 3.0).long() % 7)).mean(1))
        return last


def image(*layers: nn.Module, numbers: int) -> nn.Module:
    return nn.Sequential(nn.Unflatten(1, (2, 3, 4)), *layers, nn.Flatten(), nn.Linear(numbers, 3))


MODULES: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Sequential(nn.Linear(24, 8), nn.ReLU(), nn.Dropout(0.0), nn.Linear(8, 3)),
    "conv1d": lambda: nn.Sequential(
        nn.Unflatten(1, (2, 12)), nn.Conv1d(2, 4, 3), nn.Tanh(), nn.AvgPool1d(2), nn.Flatten(), nn.Linear(20, 3)
    ),
    "conv2d": lambda: image(nn.Conv2d(2, 4, 2, stride=2, padding=1), nn.GroupNorm(2, 4), numbers=24),
    "groups": lambda: image(nn.Conv2d(2, 4, 3, padding="same", groups=2), nn.SELU(), numbers=48),
    "conv3d": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 2, 3, 4)), nn.Conv3d(1, 3, 2), nn.GELU(), nn.Flatten(), nn.Linear(18, 3)
    ),
    "instance": lambda: image(nn.Conv2d(2, 4, 2), nn.InstanceNorm2d(4, affine=True), numbers=24),
    "rms": lambda: nn.Sequential(nn.Linear(24, 8), nn.RMSNorm(8), nn.Linear(8, 3)),
    "prelu": lambda: nn.Sequential(nn.Linear(24, 8), nn.PReLU(), nn.Linear(8, 3)),
    "words": Words,
    "lstm": lambda: Recurrent("lstm"),
    "gru": lambda: Recurrent("gru"),
    "rnn": lambda: Recurrent("rnn"),
    "attention": Attentive,
}


@pytest.mark.parametrize("name", MODULES)
def test_what_opacus_takes_trains_here_with_the_same_gradients(name: str) -> None:
    from opacus.grad_sample import GradSampleModule
    from opacus.validators import ModuleValidator

    with torch.random.fork_rng():
        torch.manual_seed(3)
        module, x, y = MODULES[name](), torch.randn(6, 24), torch.arange(6) % 3
    assert ModuleValidator.is_valid(module)
    found = unit_gradients(module, 0.5, x, y)(x, y)
    theirs = GradSampleModule(module, loss_reduction="mean")
    batch_loss(theirs(x), y).backward()  # type: ignore[no-untyped-call] # torch's
    each = [parameter.grad_sample for parameter in theirs.parameters()]
    lengths = torch.stack([part.flatten(1).norm(dim=1) for part in each]).norm(dim=0)
    scale = torch.clamp(0.5 / lengths, max=1.0)
    assert bool((lengths > 0.5).any())
    for mine, part in zip(found, each, strict=True):
        assert torch.allclose(mine, torch.einsum("n,n...->...", scale, part), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("layer", [nn.BatchNorm1d(8), nn.SyncBatchNorm(8)])
def test_what_opacus_refuses_for_mixing_records_is_refused_here(layer: nn.Module) -> None:
    from opacus.validators import ModuleValidator

    from skipring.errors import InvalidInput

    module = nn.Sequential(nn.Linear(24, 8), layer, nn.Linear(8, 3))
    assert not ModuleValidator.is_valid(module)
    with pytest.raises(InvalidInput, match="mixes the records"):
        unit_gradients(module, 0.5, torch.randn(6, 24), torch.arange(6) % 3)
