"""Gradients of a network in which every record, or every person, has a bounded share.

    sum over units of clip(sum of the gradients of the unit's rows, bound)

Of a chain of PyTorch's own layers (`torch_rowwise`), one forward and one backward pass keep what each layer took in and
what its output's gradient is. `torch_layers` makes lengths and sums of it. Nothing waits for a GPU: a CUDA graph can
record it. Every other module is computed unit by unit (`EachUnit`), so that records cannot depend on each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from ..errors import InvalidInput
from .networks import NeuralModel
from .torch_layers import LAYERS, ROUNDED, Units, add_weighted_, squared_lengths
from .torch_module import Hardware, require_known_good, trial_rows, unchanged
from .torch_rowwise import CannotCompute, first_that_works, layers_of_chain, mixes, same
from .torch_update import BELOW, LONGEST, batch_loss
from .units import Protection

Scales = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
#: Numbers that are kept at a time: gradients of some units.
_KEPT = 1 << 26


class UnitGradients:
    """The sum of the clipped gradients of all records or persons in a batch.

    Parameters
    ----------
    module : the network.
    model : what each unit's gradient, the sum over its rows, is clipped to; one that is not finite counts as 0.
    protection : how many rows of a batch may belong to one unit; a unit with more of them counts as 0. It also says how
        many rows a batch may have: rounding their sum is made room for.
    some, labels : rows and labels as they will be; only their shape and type count, since made-up ones are tried out.
    hardware : whether layers compute in bfloat16, and torch compiles the whole.
    """

    def __init__(
        self,
        module: nn.Module,
        model: NeuralModel,
        protection: Protection,
        some: torch.Tensor,
        labels: torch.Tensor,
        *,
        hardware: Hardware | None = None,
    ) -> None:
        name = model.name
        if model.clip is None:
            reason = "the gradient of a network has no bound of its own; give one that each is clipped to"
            raise InvalidInput.because("gradient_bound", "missing", reason)
        require_known_good(module, name, apart=True)
        hardware = Hardware() if hardware is None else hardware
        self._module, self._bound, self._protection = module, model.clip, protection
        self._bf16, self._compiled = hardware.bf16, hardware.compile_loss
        self._names = [of for of, parameter in module.named_parameters() if parameter.requires_grad]
        self._each = EachUnit(module, bf16=self._bf16)
        self._traced: Callable[..., list[torch.Tensor]] | None = None
        # No row of a node: whether a module is taken, and how it is computed, must not depend on a node's rows.
        tried = [
            each.float() if each.is_floating_point() else each for each in trial_rows(some, 3)
        ]  # as parameters are
        answers = torch.zeros(3, *labels.shape[1:], dtype=labels.dtype, device=labels.device)
        with _as_before(module, some), unchanged(module, name):
            module.train()
            self._layers = layers_of_chain(module, name, tried)
            if self._layers is None:
                if mixes(module, *tried[:2]):
                    raise InvalidInput.because(
                        "model.name", name, "its answer to one record depends on the others of a batch"
                    )
                self._each.try_out(tried, answers, name)
        #: Whether each unit's gradient is computed by itself, which is slow.
        self.one_by_one = self._layers is None
        #: Whether a GPU is never waited for, so that a CUDA graph can record the whole.
        self.recordable = self._layers is not None or self._each.together

    def __call__(
        self,
        x: torch.Tensor,
        y: torch.Tensor,
        *,
        used: torch.Tensor | None = None,
        units: torch.Tensor | None = None,
        heard: torch.Tensor | None = None,
    ) -> list[torch.Tensor]:
        """Return the sum of the clipped gradients, a tensor for each parameter that learns, in their order.

        `used` says of each row whether it counts (a batch may be filled up with rows that do not). `units` says which
        unit it belongs to: numbers from 0 to the number of rows - 1. Without, each row is a unit. Rows of a unit that
        are not `heard` keep their places, and add 0 to its gradient.
        """
        parameters = dict(self._module.named_parameters())
        given = [parameters[name].detach() for name in self._names]
        if self._compiled and not self.one_by_one:
            if self._traced is None:
                self._traced = _compile(self._sum, given, x, y, used, units, heard)
            return self._traced(given, x, y, used, units, heard)
        return self._sum(given, x, y, used, units, heard)

    def _sum(
        self,
        parameters: Sequence[torch.Tensor],
        x: torch.Tensor,
        y: torch.Tensor,
        used: torch.Tensor | None,
        units: torch.Tensor | None,
        heard: torch.Tensor | None,
    ) -> list[torch.Tensor]:
        rows = len(x)
        counted = torch.ones(rows, dtype=torch.bool, device=x.device) if used is None else used.to(torch.bool)
        if units is None:
            together = Units(rows)
        else:
            # The rows of a unit side by side, and those that do not count at the end.
            index, order = torch.sort(torch.where(counted, units, rows), stable=True)
            x, y, heard = x[order], y[order], None if heard is None else heard[order]
            together = Units(rows, index, self._protection.rows_per_person)
            many = torch.zeros(rows + 1, dtype=torch.int64, device=x.device).index_add_(
                0, index, torch.ones_like(index)
            )
            counted = (many <= self._protection.rows_per_person) & (torch.arange(rows + 1, device=x.device) < rows)
        if self._layers is None:
            return self._each.sum(x, y, heard, together, lambda square, who: self._scales(square, counted[who], rows))
        return self._at_once(parameters, x, y, heard, together, counted)

    def _at_once(
        self,
        parameters: Sequence[torch.Tensor],
        x: torch.Tensor,
        y: torch.Tensor,
        heard: torch.Tensor | None,
        units: Units,
        counted: torch.Tensor,
    ) -> list[torch.Tensor]:
        assert self._layers is not None
        with torch.enable_grad(), _watched(self._layers) as seen:
            learned = {name: each.detach().requires_grad_() for name, each in zip(self._names, parameters, strict=True)}
            with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=self._bf16):
                answers = functional_call(self._module, learned, (x,))
            losses = row_losses(answers, y)
            total = (losses if heard is None else torch.where(heard, losses, 0.0)).sum()
        for of, calls in seen.items():
            if len(calls) != 1:
                reason = f"layer {of} was used {len(calls)} times, but not when the module was tried out"
                raise InvalidInput.because("model.name", type(self._module).__name__, reason)
        ends = [calls[0][1] for calls in seen.values()]
        found: Any = torch.autograd.grad(total, ends, allow_unused=True) if ends and total.requires_grad else ()
        with torch.no_grad():
            layers = {
                name: LAYERS[type(self._layers[name])](self._layers[name], units, calls[0][0], g)
                for (name, calls), g in zip(seen.items(), found, strict=bool(found))
                if g is not None
            }
            squares = [each.longest() for layer in layers.values() for each in layer.lengths()]
            sums = {}
            if squares:
                scale, counts = self._scales(torch.stack(squares).sum(0), counted, len(x))
                for of, layer in layers.items():
                    for parameter, value in layer.gradients(scale, counts):
                        sums[f"{of}.{parameter}" if of else parameter] = value
            # A parameter that was not used has no gradient.
            return [
                sums[name].to(each.dtype) if name in sums else torch.zeros_like(each)
                for name, each in zip(self._names, parameters, strict=True)
            ]

    def _scales(self, square: torch.Tensor, counted: torch.Tensor, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what each unit's gradient is multiplied with, and whether it counts at all."""
        length = torch.sqrt(square)
        counts = counted & (length <= LONGEST)  # false also of what is not a number
        most = max(rows, self._protection.batch or rows)
        bound = self._bound * BELOW / (1.0 + ROUNDED * most)
        return torch.where(counts, torch.clamp(bound / length, max=1.0), 0.0), counts


def row_losses(answers: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the loss of each row by itself."""
    if answers.dtype in (torch.bfloat16, torch.float16):
        answers = answers.float()
    losses: torch.Tensor = vmap(lambda answer, label: batch_loss(answer[None], label[None]))(answers, labels)
    return losses


class EachUnit:
    """A module, and the gradient of each unit by itself: slow, and of any architecture.

    Several units at a time through ``torch.func.vmap``; one after the other where a module, such as an LSTM, does not
    allow that. Both ways the module is only ever given the rows of one unit, so it cannot mix those of several,
    whatever its `forward` does. And a dropout draws anew for each. What is kept is bounded: a gradient for each of some
    units.
    """

    def __init__(self, module: nn.Module, *, bf16: bool) -> None:
        self._module, self._bf16 = module, bf16
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
            raise InvalidInput.because("model.name", name, "it keeps something of the records that it has seen before")

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
        return torch.where(mask, row_losses(answers, y), 0.0).sum()

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


def numbered_persons(units: torch.Tensor | None, rows: int, protection: Protection) -> torch.Tensor:
    """Return whose each row is, numbered from 0, if nobody has more rows than agreed."""
    if units is None or units.shape != (rows,):
        given = "missing" if units is None else tuple(units.shape)
        raise InvalidInput("units", given, f"the person of each of the {rows} rows")
    _, persons, many = torch.unique(units.cpu(), return_inverse=True, return_counts=True)
    if len(many) and int(many.max()) > (most := protection.rows_of_one):
        raise InvalidInput("units", f"{int(many.max())} rows of one person", f"at most {most}, as agreed")
    return persons


@contextmanager
def _watched(layers: dict[str, nn.Module]) -> Iterator[dict[str, list[tuple[torch.Tensor, Any]]]]:
    """Keep each layer's input, and the place in the graph where the gradient of its output is found."""
    seen: dict[str, list[tuple[torch.Tensor, Any]]] = {}

    def keep(name: str, given: tuple[Any, ...], answer: Any) -> Any:
        # An activation may change the output in place. The place in the graph is that of the output before; only what
        # is a view of something else would lose it.
        answer = answer.clone() if answer._is_view() else answer
        found = given and answer.requires_grad
        edge = torch.autograd.graph.get_gradient_edge(answer) if found else None
        seen.setdefault(name, []).append((given[0].detach() if given else answer, edge))
        return answer

    def hook_of(name: str) -> Callable[..., Any]:
        return lambda _, given, answer: keep(name, given, answer)

    handles = [layer.register_forward_hook(hook_of(name)) for name, layer in layers.items()]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _as_before(module: nn.Module, some: torch.Tensor) -> Iterator[None]:
    """Leave the module's mode, and torch's generators, as they were."""
    training = [(part, part.training) for part in module.modules()]
    with torch.random.fork_rng(devices=[some.device] if some.is_cuda else []):
        yield
    for part, mode in training:
        part.training = mode


def _compile(
    function: Callable[..., list[torch.Tensor]],
    given: list[torch.Tensor],
    *batch: torch.Tensor | None,
) -> Callable[..., list[torch.Tensor]]:
    """Return the function compiled: forward and backward pass, lengths and sums are one graph of operations."""
    from torch.fx.experimental.proxy_tensor import make_fx

    there = [place for place, each in enumerate(batch) if each is not None]

    def of_tensors(parameters: list[torch.Tensor], *tensors: torch.Tensor) -> list[torch.Tensor]:
        full: list[torch.Tensor | None] = [None] * len(batch)
        for place, tensor in zip(there, tensors, strict=True):
            full[place] = tensor
        return function(parameters, *full)

    # The threads of a GPU's backward pass would not be seen.
    with torch.autograd.set_multithreading_enabled(False):
        # Without numbers: what is traced would keep all that it passes through in memory.
        traced = make_fx(of_tensors, tracing_mode="fake")(given, *(each for each in batch if each is not None))
    compiled = torch.compile(traced, dynamic=False)

    def run(parameters: list[torch.Tensor], *tensors: torch.Tensor | None) -> list[torch.Tensor]:
        found: list[torch.Tensor] = compiled(parameters, *(tensors[place] for place in there))
        return found

    return run
