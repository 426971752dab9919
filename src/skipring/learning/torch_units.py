"""Gradients of a network in which every record, or every person, has a bounded share.

    sum over units of clip(sum of the gradients of the unit's rows, bound)

One forward and one backward pass keep what each layer took in and what its output's gradient is; `torch_layers` makes
lengths and sums of it. A module with other layers, or with parameters that are used in more than one place, is computed
unit by unit (`torch_each`). Modules in which the records of a batch depend on each other are refused. Nothing waits for
a GPU, so that a CUDA graph can record it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from ..errors import InvalidInput, require_integer, require_positive
from ..privacy import Unit
from .torch_each import EachUnit, Loss, row_losses
from .torch_layers import LAYERS, Units
from .torch_update import BELOW, LONGEST

__all__ = ["UnitGradients", "numbered", "require_divisor"]


class UnitGradients:
    """The sum of the clipped gradients of all records or persons in a batch.

    Parameters
    ----------
    module, loss : the network, and a function of its outputs and the labels that returns the mean loss of a batch.
    bound : every unit's gradient, the sum over its rows, is clipped to this norm; one that is not finite counts as 0.
    some, labels : a few rows to try the module out with.
    rows_per_unit : how many rows of a batch may belong to one unit; a unit with more of them counts as 0.
    prepare : what is done to rows first, such as scaling them.
    bf16 : let layers compute in bfloat16, where torch's autocast does.
    compiled : let torch compile the whole; batches then have one size.
    name : what refusals call the model.
    """

    def __init__(
        self,
        module: nn.Module,
        loss: Loss,
        bound: float,
        some: torch.Tensor,
        labels: torch.Tensor,
        *,
        rows_per_unit: int = 1,
        prepare: Callable[[torch.Tensor], torch.Tensor] | None = None,
        bf16: bool = False,
        compiled: bool = False,
        name: str = "a network",
    ) -> None:
        require_positive("gradient_bound", bound)
        require_integer("rows_per_person", rows_per_unit, 1)
        _require_records_apart(module, name)
        self._module, self._loss, self._bound, self._bf16 = module, loss, bound, bf16
        self._rows_per_unit, self._prepare, self._compiled = rows_per_unit, prepare, compiled
        self._names = [of for of, parameter in module.named_parameters() if parameter.requires_grad]
        self._each = EachUnit(module, loss, bf16=bf16)
        self._traced: Callable[..., list[torch.Tensor]] | None = None
        self._layers = _known_layers(module)
        some = some if prepare is None else prepare(some)
        if some.is_floating_point():
            some = some.float()  # as the parameters are, where no autocast converts both
        with _as_before(module, some):
            module.train()
            if not _tried_out(module, self._layers or {}, some, name):
                self._layers = None
            if self._layers is None:
                self._each.try_out(some, labels)
        #: Whether each unit's gradient is computed by itself, which is slow.
        self.one_by_one = self._layers is None
        #: Whether a GPU is never waited for, so that a CUDA graph can record the whole.
        self.recordable = self._layers is not None or self._each.together

    def __call__(
        self, x: torch.Tensor, y: torch.Tensor, *, used: torch.Tensor | None = None, units: torch.Tensor | None = None
    ) -> list[torch.Tensor]:
        """Return the sum of the clipped gradients, a tensor for each parameter that learns, in their order.

        `used` says of each row whether it counts (a batch may be filled up with rows that do not), `units` which unit
        it belongs to: numbers from 0 to the number of rows - 1. Without, each row is a unit.
        """
        parameters = dict(self._module.named_parameters())
        given = [parameters[name].detach() for name in self._names]
        if self._compiled and not self.one_by_one:
            if self._traced is None:
                self._traced = _compile(self._sum, given, x, y, used, units)
            return self._traced(given, x, y, used, units)
        return self._sum(given, x, y, used, units)

    def _sum(
        self,
        parameters: Sequence[torch.Tensor],
        x: torch.Tensor,
        y: torch.Tensor,
        used: torch.Tensor | None,
        units: torch.Tensor | None,
    ) -> list[torch.Tensor]:
        rows, x = len(x), x if self._prepare is None else self._prepare(x)
        counted = torch.ones(rows, dtype=torch.bool, device=x.device) if used is None else used.to(torch.bool)
        if units is None:
            together = Units(rows)
        else:
            # The rows of a unit side by side, and those that do not count at the end.
            index, order = torch.sort(torch.where(counted, units, rows), stable=True)
            x, y = x[order], y[order]
            together = Units(rows, index, self._rows_per_unit)
            many = torch.zeros(rows + 1, dtype=torch.int64, device=x.device).index_add_(
                0, index, torch.ones_like(index)
            )
            counted = (many <= self._rows_per_unit) & (torch.arange(rows + 1, device=x.device) < rows)
        if self._layers is None:
            return self._each.sum(x, y, together, lambda square, who: self._scales(square, counted[who]))
        return self._at_once(parameters, x, y, together, counted)

    def _at_once(
        self, parameters: Sequence[torch.Tensor], x: torch.Tensor, y: torch.Tensor, units: Units, counted: torch.Tensor
    ) -> list[torch.Tensor]:
        assert self._layers is not None
        with torch.enable_grad(), _watched(self._layers) as seen:
            learned = {name: each.detach().requires_grad_() for name, each in zip(self._names, parameters, strict=True)}
            with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=self._bf16):
                answers = functional_call(self._module, learned, (x,))
            total = row_losses(self._loss, answers, y).sum()
        for of, calls in seen.items():
            if len(calls) != 1:
                reason = f"layer {of} was used {len(calls)} times, but not when the module was tried out"
                raise InvalidInput.because("model", type(self._module).__name__, reason)
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
                scale, counts = self._scales(torch.stack(squares).sum(0), counted)
                for of, layer in layers.items():
                    for parameter, value in layer.gradients(scale, counts):
                        sums[f"{of}.{parameter}" if of else parameter] = value
            # A parameter that was not used has no gradient.
            return [
                sums[name].to(each.dtype) if name in sums else torch.zeros_like(each)
                for name, each in zip(self._names, parameters, strict=True)
            ]

    def _scales(self, square: torch.Tensor, counted: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what each unit's gradient is multiplied with, and whether it counts at all."""
        length = torch.sqrt(square)
        counts = counted & (length <= LONGEST)  # false also of what is not a number
        return torch.where(counts, torch.clamp(self._bound * BELOW / length, max=1.0), 0.0), counts


def require_divisor(protects: Unit, divisor: int | None, bound: float | None, batch: int | None) -> None:
    """Refuse persons or records without a bound for each and a constant to divide by, or with more rows than that."""
    if protects not in ("node", "person", "record"):
        raise InvalidInput("protects", protects, "node, person or record")
    if protects == "node":
        return
    if bound is None:
        reason = "the gradient of a network has no bound of its own; give one that each is clipped to"
        raise InvalidInput.because("gradient_bound", "missing", reason)
    if divisor is None:
        reason = "sums over records or persons are divided by a constant that all nodes agree on"
        raise InvalidInput.because("divisor", "missing", reason)
    require_integer("divisor", divisor, 1)
    if batch is not None and batch > divisor:
        raise InvalidInput("batch", batch, f"at most the divisor, {divisor}")


def numbered(units: torch.Tensor | None, rows: int, most: int) -> torch.Tensor:
    """Return whose each row is, numbered from 0, if nobody has more rows than agreed."""
    if units is None or units.shape != (rows,):
        given = "missing" if units is None else tuple(units.shape)
        raise InvalidInput("units", given, f"the person of each of the {rows} rows")
    _, persons, many = torch.unique(units.cpu(), return_inverse=True, return_counts=True)
    if len(many) and int(many.max()) > most:
        raise InvalidInput("units", f"{int(many.max())} rows of one person", f"at most {most}, as agreed")
    return persons


def _require_records_apart(module: nn.Module, name: str) -> None:
    """Refuse layers in which what becomes of a record depends on the others of its batch."""
    for of, part in module.named_modules():
        layer = f"layer {of or 'of the model'} ({type(part).__name__})"
        if isinstance(part, _BatchNorm):
            reason = f"{layer} mixes the records of a batch, so that none has a share of its own; GroupNorm does not"
        elif isinstance(part, _InstanceNorm) and part.track_running_stats:
            reason = f"{layer} keeps statistics of the records, which no noise hides"
        elif isinstance(part, nn.Embedding | nn.EmbeddingBag) and part.scale_grad_by_freq:
            reason = f"{layer} divides a record's gradient by how often others use its words (scale_grad_by_freq)"
        elif isinstance(part, nn.Embedding | nn.EmbeddingBag) and part.max_norm is not None:
            reason = f"{layer} changes its own parameters when it is used, by rows that no noise hides (max_norm)"
        else:
            continue
        raise InvalidInput.because("model", name, reason)


def _known_layers(module: nn.Module) -> dict[str, nn.Module] | None:
    """Return all layers that learn; None if there is one that is not known, or a parameter belongs to several."""
    layers: dict[str, nn.Module] = {}
    owners: Counter[int] = Counter()
    for name, part in module.named_modules():
        own = {of: each for of, each in part._parameters.items() if each is not None and each.requires_grad}
        owners.update({id(each): 1 for each in own.values()})
        if not own:
            continue
        changed = part._forward_hooks or part._forward_pre_hooks or "forward" in vars(part)
        if type(part) not in LAYERS or changed or not set(own) <= {"weight", "bias"}:
            return None
        layers[name] = part
    return layers if all(many == 1 for many in owners.values()) else None


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


def _tried_out(module: nn.Module, layers: dict[str, nn.Module], some: torch.Tensor, name: str) -> bool:
    """Say whether every parameter is used once, by its own layer, and row by row; refuse a module that mixes rows.

    The first row must not notice when another one changes, neither in the answers nor in front of any layer.
    """
    first, other = some[:1], some[1:2] if len(some) > 1 else some[:1]
    watched = []
    fine = True
    for batch in ([first, other], [first, torch.zeros_like(other)], [first, other, first]):
        torch.manual_seed(1)
        with torch.enable_grad(), _watched(layers) as seen:
            answers = module(torch.cat(batch))
        watched.append((answers, seen))
        uses = _uses(answers)
        edges = [edge for calls in seen.values() for _, edge in calls if edge is not None]
        if edges and answers.requires_grad:
            fine &= all(each is not None for each in torch.autograd.grad(answers.sum(), edges, allow_unused=True))
        for of, layer in layers.items():
            calls = seen.get(of, [])
            own = [each for each in layer.parameters(recurse=False) if each.requires_grad]
            fine &= all(uses[id(each)] == len(calls) for each in own) and len(calls) <= 1
            fine &= all(edge is not None and given.shape[:1] == (len(batch),) for given, edge in calls)
    (answers, seen), (again, seen_again) = watched[:2]
    if not _same(answers[:1], again[:1]):
        raise InvalidInput.because("model", name, "its answer to one record depends on the others of a batch")
    return fine and all(
        _same(mine[0][:1], theirs[0][:1])
        for of in seen.keys() & seen_again.keys()
        for mine, theirs in zip(seen[of], seen_again[of], strict=True)
    )


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.allclose(a.double(), b.double(), rtol=1e-4, atol=1e-6, equal_nan=True)


def _uses(answers: torch.Tensor) -> Counter[int]:
    """Count how often each parameter is used on the way to the answers."""
    uses: Counter[int] = Counter()
    todo, known = [answers.grad_fn], {answers.grad_fn}
    while todo:
        node = todo.pop()
        for before, _ in () if node is None else node.next_functions:
            variable = getattr(before, "variable", None)
            if variable is not None:
                uses[id(variable)] += 1
            elif before not in known:
                known.add(before)
                todo.append(before)
    return uses


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
