"""Clipped gradients of records or persons for any module, each computed by itself: slow, and of any architecture.

Several units at a time through ``torch.func.vmap``; one after the other where a module, such as an LSTM, does not allow
that. Both ways the module is only ever given the rows of one unit, so it cannot mix those of several, whatever its
`forward` does. And a dropout draws anew for each. What is kept is bounded: a gradient for each of some units.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from ..errors import InvalidInput
from .torch_layers import Units, add_weighted_, squared_lengths
from .torch_rowwise import CannotCompute, first_that_works, same

BatchLoss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Scales = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
#: Numbers that are kept at a time: gradients of some units.
_KEPT = 1 << 26


def row_losses(loss: BatchLoss, answers: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the loss of each row by itself: whatever the loss is, it cannot mix rows."""
    if answers.dtype in (torch.bfloat16, torch.float16):
        answers = answers.float()
    losses: torch.Tensor = vmap(lambda answer, label: loss(answer[None], label[None]))(answers, labels)
    return losses


class EachUnit:
    """A module and its loss, and the gradient of each unit by itself."""

    def __init__(self, module: nn.Module, loss: BatchLoss, *, bf16: bool) -> None:
        self._module, self._loss, self._bf16 = module, loss, bf16
        self._names = [name for name, parameter in module.named_parameters() if parameter.requires_grad]
        #: Whether several units are computed at a time, without waiting for a GPU.
        self.together = True

    def try_out(self, some: Sequence[torch.Tensor], y: torch.Tensor, name: str) -> None:
        """Find out with made-up rows whether the module allows several units at a time, or only one, or none."""
        for self.together in (True, False):
            try:
                return first_that_works(self._module, name, some, lambda x: self._remembers_nothing(x, y, name))
            except CannotCompute:  # what a module does under vmap fails in many ways
                if not self.together:
                    raise

    def _remembers_nothing(self, x: torch.Tensor, y: torch.Tensor, name: str) -> None:
        """Refuse a module whose gradient of a unit depends on the units that it has seen before."""
        first, _, again = (self._of_rows(rows, y) for rows in (x, x.flip(0), x))
        if not all(same(mine, theirs) for mine, theirs in zip(first, again, strict=True)):
            raise InvalidInput.because("model", name, "it keeps something of the records that it has seen before")

    def _of_rows(self, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        torch.manual_seed(1)
        if not self.together:
            parts = [self._one(x[row : row + 1], y[row : row + 1]) for row in range(len(x))]
            return [torch.cat(each) for each in zip(*parts, strict=True)]
        mask = torch.ones(len(x), 1, dtype=torch.bool, device=x.device)
        return self._together(self._parameters(), x[:, None], y[:, None], mask)

    def _parameters(self) -> dict[str, torch.Tensor]:
        parameters = dict(self._module.named_parameters())
        return {name: parameters[name].detach() for name in self._names}

    def _unit_loss(
        self, parameters: Mapping[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=self._bf16):
            answers = functional_call(self._module, dict(parameters), (x,))
        return torch.where(mask, row_losses(self._loss, answers, y), 0.0).sum()

    def _together(self, parameters: Any, x: torch.Tensor, y: torch.Tensor, mask: torch.Tensor) -> list[torch.Tensor]:
        each = vmap(grad(self._unit_loss), in_dims=(None, 0, 0, 0), randomness="different")(parameters, x, y, mask)
        return [each[name].detach() for name in self._names]

    def _one(self, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        parameters = {name: value.requires_grad_() for name, value in self._parameters().items()}
        everywhere = torch.ones(len(x), dtype=torch.bool, device=x.device)
        with torch.enable_grad():
            loss = self._unit_loss(parameters, x, y, everywhere)
            if not loss.requires_grad:  # the answer depends on no parameter
                return [torch.zeros_like(value)[None] for value in parameters.values()]
            found: Any = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
        return [
            torch.zeros_like(value)[None] if each is None else (each.to_dense() if each.is_sparse else each)[None]
            for value, each in zip(parameters.values(), found, strict=True)
        ]

    def sum(
        self, x: torch.Tensor, y: torch.Tensor, heard: torch.Tensor | None, units: Units, scales: Scales
    ) -> list[torch.Tensor]:
        """Return the sum of all units' gradients, each scaled; `scales` is told squared lengths and who they are of."""
        table, mask = _rows_of_units(units, len(x), x.device)
        mask = mask if heard is None else mask & heard[table]
        parameters = self._parameters()
        # In double precision: a sum of many rows, one after the other, must not lose any of them.
        sums = [torch.zeros_like(value, dtype=torch.float64).flatten() for value in parameters.values()]
        at_once = max(1, _KEPT // sum(value.numel() for value in sums)) if self.together else 1
        seeds = [] if self.together else torch.randint(2**63 - 1, (len(table),)).tolist()
        for first in range(0, len(table), at_once):
            some = slice(first, min(len(table), first + at_once))
            if self.together:
                each = self._together(parameters, x[table[some]], y[table[some]], mask[some])
            else:
                rows = table[first][mask[first]]
                if not len(rows):
                    continue
                # How often one unit draws, as a dropout does, must not decide what the next one draws.
                with torch.random.fork_rng(devices=[x.device] if x.is_cuda else []):
                    torch.manual_seed(seeds[first])
                    each = self._one(x[rows], y[rows])
            with torch.no_grad():
                square = torch.stack([squared_lengths(value) for value in each]).sum(0)
                scale, counts = scales(square, torch.arange(some.start, some.stop, device=x.device))
                for total, value in zip(sums, each, strict=True):
                    add_weighted_(total, value.flatten(1).masked_fill(~counts[:, None], 0.0), scale)
        # One after the other: what is rounded is not kept.
        return [sums.pop(0).to(value.dtype).view(value.shape) for value in parameters.values()]


def _rows_of_units(units: Units, rows: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the rows of each unit in a table, and which of its places are taken; others repeat the unit's last row."""
    if units.index is None:
        table = torch.arange(rows, device=device)[:, None]
        return table, torch.ones_like(table, dtype=torch.bool)
    ones = torch.ones(rows, dtype=torch.int64, device=device)
    many = torch.zeros(units.count + 1, dtype=torch.int64, device=device).index_add_(0, units.index, ones)
    place = torch.arange(units.most, device=device)[None, :]
    start = (torch.cumsum(many, 0) - many)[:, None]
    # Rows that do not count come last, and are nobody's.
    mask = (place < many[:, None])[: units.count]
    table = start + torch.minimum(place, (many[:, None] - 1).clamp(min=0))
    return table[: units.count].clamp(max=rows - 1), mask
