"""Sums of clipped gradients over large batches: rounding must not let one record move them by more than its share."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from tokens import unit_gradients
from torch import nn

from skipring.learning.torch_update import BELOW

pytestmark = pytest.mark.usefixtures("one_thread")


def flat(found: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat([each.reshape(-1) for each in found]).double()


class Loop(nn.Module):
    """A module that is computed one row after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        float(x.sum())  # which vmap does not allow
        answer: torch.Tensor = self.inner(x)
        return answer


class Own(Loop):
    """A module that is computed several rows at a time."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = self.inner(x)
        return answer


SUMMED: dict[str, Callable[[], nn.Module]] = {
    "direct": lambda: nn.Sequential(
        nn.Unflatten(1, (3, 1)), nn.Linear(1, 1, bias=False), nn.Flatten(), nn.AvgPool1d(3)
    ),
    "gram": lambda: nn.Sequential(nn.Linear(3, 1, bias=False)),
    "convolution": lambda: nn.Sequential(nn.Unflatten(1, (3, 1)), nn.Conv1d(3, 1, 1, bias=False), nn.Flatten()),
    "bias": lambda: nn.Sequential(nn.Linear(3, 1)),
    "words": lambda: nn.Sequential(nn.Embedding(2, 1), nn.Flatten()),
    "several": Own,
    "one by one": Loop,
}


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("name", "rows"),
    [
        pytest.param(name, rows, marks=[pytest.mark.slow] if rows == 40_000 else [])
        for name in SUMMED
        for rows in (3_000, 10_000, 40_000)
        if name != "one by one" or rows == 3_000  # more would take minutes
    ],
)
def test_one_record_moves_the_sum_over_a_large_batch_by_its_share_only(name: str, rows: int) -> None:
    """Sums in single precision round every later row to 0 or not, as the first one decides: 25 instead of 2."""
    module = SUMMED[name]()
    for parameter in module.parameters():
        nn.init.zeros_(parameter)
        if name == "bias":
            module[0].weight.requires_grad_(False)  # type: ignore[index] # a chain
    x = torch.zeros(rows, 1, dtype=torch.int64) if name == "words" else torch.tensor([1.0, 0.0, 0.0]).repeat(rows, 1)
    if name == "direct":
        x[:] = 1.0
    whole = 2.0 ** math.floor(math.log2(0.49 * rows))
    y = torch.full((rows,), -0.9 * whole * 2.0**-24)
    y[: int(whole) + 2] = (whole + 0.5) / (whole + 2)
    other = y.clone()
    other[0] = -0.9
    made = unit_gradients(module, 1.0, x, y, most=rows)
    moved = float((flat(made(x, y)) - flat(made(x, other))).norm())
    assert 1.8 < moved <= 2.0


def test_the_bound_leaves_room_for_rounding_the_sum_of_all_rows() -> None:
    module, x, y = nn.Linear(3, 1), torch.ones(1, 3), torch.tensor([100.0])
    lengths = [float(flat(unit_gradients(module, 1.0, x, y, most=most)(x, y)).norm()) for most in (1, 10**6)]
    assert lengths[0] == pytest.approx(BELOW, abs=1e-6)
    assert lengths[1] == pytest.approx(BELOW / (1.0 + 1e6 * 2.0**-22), abs=1e-6)
