"""What one layer of a network adds to the gradient of every record or person, without a gradient for each of them.

The gradient of a layer's weights is a sum over positions (pixels, words) of products: output gradient times input. From
the two, kept by one backward pass, follow

- how long the gradient of each unit is: from the products themselves where they are small (*direct*), or else from
  the inner products between positions, |sum_t g_t a_t'|^2 = sum_ts (g_t.g_s)(a_t.a_s) (*Gram*);
- the sum of the clipped gradients: one matrix product with the output gradients scaled by each unit's factor.

**Why the bound holds in spite of rounding.** A *direct* gradient is measured and multiplied as the same numbers. Of
the others, the factor is rounded into the output gradients, and positions that cancel do not cancel after that. With a
relative error u of every factor, the sum is off by at most u x spread, where spread = sqrt(sum |g_t|^2 sum |a_t|^2).
The inner products are rounded as well; the square of the length is off by at most a few units of that precision x
spread^2. Both are added to the length before it is compared with the bound.

**Sums over a batch.** Added up in single precision, one row decides whether each of the rows after it is rounded to
nothing, and 40,000 rows move by 25 bounds where 2 are allowed. So products and sums over rows are in double precision,
and round a sum S of B clipped units twice: to single precision, and when it is divided. (On a GPU the product of a
gradient and its factor is rounded once, too.) It is then off by less than `ROUNDED` x B x bound. Two batches that
differ in one unit have two such sums, so clipping to bound / (1 + B x `ROUNDED`) keeps them within 2 bounds. This is
proven for float32 and float64, on a CPU and a GPU, for any order of the rows. **Not for bfloat16 on a GPU**, which only
simulations use, from which nothing is released. There n products are added up in single precision, in an order that the
GPU chooses, and may be off by n x 2^-23 of their spread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import nn
from torch.nn import functional

#: Numbers that one layer may keep for all rows: gradients of a row each, or the patches that a convolution looks at.
#: What is larger is computed anew, and in pieces. An H200 at work on the paper's networks needs 2^26.
_KEPT = {"cpu": 1 << 26, "cuda": 1 << 28}
#: How far off a number may be that is rounded into a matrix product, relative to itself. bfloat16 keeps 8 bits and
#: rounds to the nearest; TF32, which a GPU may use for single precision, keeps 11 and cuts off, in both factors.
_COARSE, _TF32, _FINE = 1.01 * 2.0**-8, 2.0**-9, 2.0**-22
#: How many numbers a CPU adds up in single precision without losing what is small.
_SHORT = 256
#: Numbers that are converted to double precision at a time.
_WIDENED = {"cpu": 1 << 20, "cuda": 1 << 26}
#: How far off a sum over a batch may be, relative to its number of units x their bound: 3 roundings to 24 bits.
ROUNDED = 2.0**-22
#: `torch.bmm(..., out_dtype=)` came with 2.8; before, products of bfloat16 that come out in single precision are slow.
_WIDENS = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2]) >= (2, 8)


@dataclass(frozen=True)
class Units:
    """Which rows of a batch belong together: each row is a unit, or `index` says which unit each row belongs to.

    Rows of one unit lie side by side, at most `most` of them. Rows that do not count belong to the unit `count`.
    """

    count: int
    index: torch.Tensor | None = None
    most: int = 1

    def total(self, of_rows: torch.Tensor) -> torch.Tensor:
        """Return the sum over the rows of each unit."""
        if self.index is None:
            return of_rows
        kind = of_rows.dtype if of_rows.dtype == torch.float64 else torch.float32
        sums = torch.zeros(self.count + 1, *of_rows.shape[1:], dtype=kind, device=of_rows.device)
        return sums.index_add_(0, self.index, of_rows.to(kind))

    def rows(self, of_units: torch.Tensor) -> torch.Tensor:
        """Return what belongs to each row's unit."""
        return of_units if self.index is None else of_units[self.index]


@dataclass(frozen=True)
class Lengths:
    """Of each unit: the square of a gradient's length, the square of its spread, and how coarsely that is rounded."""

    square: torch.Tensor
    spread: torch.Tensor | None = None
    product: float = 0.0
    factor: float = 0.0

    def longest(self) -> torch.Tensor:
        """Return the square of the most that the gradient can be long once it is scaled and rounded, per unit scale."""
        if self.spread is None:
            return self.square
        length = torch.sqrt(self.square.clamp(min=0.0) + self.product * self.spread)
        return (length + self.factor * torch.sqrt(self.spread)).square()


class Layer(Protocol):
    """What a layer does with the inputs and output gradients of one batch."""

    def lengths(self) -> Iterator[Lengths]:
        """Yield the lengths of the gradients of its parameters."""

    def gradients(self, scale: torch.Tensor, counts: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield each parameter's name, and the sum of the gradients of all units that count, times their scales."""


def _sum(values: torch.Tensor, dims: int | tuple[int, ...]) -> torch.Tensor:
    """Add up, on a CPU in double precision: it loses what is small beside the sum so far."""
    return values.sum(dims, dtype=torch.float64 if values.device.type == "cpu" else _wide(values))


def squared_lengths(values: torch.Tensor) -> torch.Tensor:
    """Return the squared length of each row: on a CPU of short pieces, which are added up in double precision."""
    values = values.flatten(1)
    norm = torch.linalg.vector_norm
    if values.device.type != "cpu":
        return norm(values, dim=1, dtype=_wide(values)).square()
    whole = values.shape[1] // _SHORT * _SHORT
    pieces = values[:, :whole].reshape(len(values), -1, _SHORT)
    rest = norm(values[:, whole:], dim=1, dtype=torch.float64).square()
    return norm(pieces, dim=2, dtype=_wide(values)).double().square().sum(1) + rest


def _wide(values: torch.Tensor) -> torch.dtype:
    return torch.float64 if values.dtype == torch.float64 else torch.float32


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the products of two stacks of matrices, in single precision also where they are in less."""
    if _wide(a) == a.dtype:
        return torch.bmm(a, b)
    if a.is_cuda and _WIDENS:
        return torch.bmm(a, b, out_dtype=torch.float32)
    return torch.bmm(a.float(), b.float())


def add_weighted_(total: torch.Tensor, values: torch.Tensor, scale: torch.Tensor) -> None:
    """Add the rows of a matrix, each times its scale, to a vector of double precision."""
    if values.is_cuda:
        total += (values * scale[:, None].to(values.dtype)).sum(0, dtype=torch.float64)
        return
    rows, columns = values.shape
    wide = min(columns, _WIDENED["cpu"])
    for left in range(0, columns, max(1, wide)):
        here = slice(left, left + wide)
        tall = max(1, _WIDENED["cpu"] // wide)
        for top in range(0, rows, tall):
            some = slice(top, top + tall)
            total[here] += torch.mv(values[some, here].double().mT, scale[some].double())


def _summed_product(a: torch.Tensor, b: torch.Tensor, several: bool) -> torch.Tensor:
    """Return the products of two stacks of matrices, summed over rows: in double precision, if `several` will be added.

    Otherwise rounded once. A few rows and outputs at a time: there is no copy of all of them in double precision.
    """
    if a.is_cuda and _wide(a) != a.dtype:
        return _product(a, b)
    groups, outputs, length = a.shape
    inputs, most = b.shape[2], _WIDENED.get(a.device.type, _WIDENED["cpu"])
    found = a.new_empty(groups, outputs, inputs, dtype=torch.float64 if several else _wide(a))
    high, deep = max(1, most // (groups * inputs)), max(1, most // (groups * max(inputs, min(outputs, most))))
    for top in range(0, outputs, high):
        part = slice(top, top + high)
        total: torch.Tensor | None = None
        for first in range(0, length, deep):
            some = slice(first, first + deep)
            product = torch.bmm(a[:, part, some].double(), b[:, some].double())
            total = product if total is None else total.add_(product)
        found[:, part] = 0.0 if total is None else total
    return found


def _rounding(g: torch.Tensor) -> tuple[float, float]:
    """Return how far off products, and factors rounded into them, may be, relative to what is multiplied."""
    if g.dtype == torch.float64:
        return 2.0**-48, 2.0**-50
    # Tensor cores cut off what they add up; the longest sums of a layer are of some thousand products.
    added = 2.0**-20 if g.device.type == "cpu" else 2.0**-15
    if g.dtype != torch.float32:
        return added, _COARSE
    return (4.0 * _TF32, _FINE) if g.is_cuda and _cuts_to_tf32() else (added, _FINE)


def _cuts_to_tf32() -> bool:
    try:
        return torch.backends.cuda.matmul.allow_tf32
    except RuntimeError:  # torch refuses to say where its newer switches were used
        return True


class _Direct:
    """Gradients of a few numbers for each row, which are kept."""

    def __init__(self, units: Units, of_rows: Mapping[str, torch.Tensor]) -> None:
        self._sums = {name: units.total(each.flatten(1)) for name, each in of_rows.items()}
        self._shapes = {name: each.shape[1:] for name, each in of_rows.items()}

    def lengths(self) -> Iterator[Lengths]:
        for each in self._sums.values():
            yield Lengths(squared_lengths(each))

    def gradients(self, scale: torch.Tensor, counts: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
        for name, each in self._sums.items():
            finite = each.to(_wide(each)).masked_fill(~counts[:, None], 0.0)
            if each.is_cuda and each.dtype != finite.dtype:
                yield name, torch.mv(finite.mT, scale.to(finite.dtype)).view(self._shapes[name])
                continue
            total = torch.zeros(each.shape[1], dtype=torch.float64, device=each.device)
            add_weighted_(total, finite, scale)
            yield name, total.view(self._shapes[name])


class _Matrix:
    """Weights that multiply each position's inputs: those of linear layers and, in groups, of convolutions."""

    def __init__(self, module: nn.Module, units: Units, x: torch.Tensor, g: torch.Tensor) -> None:
        self._units, self._g = units, self._grouped(g)
        small: dict[str, torch.Tensor] = {}
        bias, weight = module._parameters.get("bias"), module._parameters["weight"]
        if bias is not None and bias.requires_grad:
            small["bias"] = self._g.sum(2, dtype=_wide(g)).flatten(1)
        self._gram = False
        if weight is not None and weight.requires_grad:
            self._weight = weight
            rows, groups, positions, outputs = self._g.shape
            size, patch = weight.numel() // groups, weight.numel() // (groups * outputs) * groups * positions
            most = _KEPT.get(g.device.type, _KEPT["cpu"])
            self._gram = size > 2 * units.most * positions**2 or rows * weight.numel() > most
            self._piece = max(1, most // patch)
            # What enters a product over all rows must be finite, or one row would spoil the sum of all. Whether it
            # was is remembered.
            self._x = torch.nan_to_num(x.to(g.dtype), 0.0, 0.0, 0.0) if self._gram else x.to(g.dtype)
            self._finite = torch.isfinite(x.flatten(1).sum(1, dtype=_wide(x)))
            self._kept = self._patches(self._x) if self._gram and self._piece >= rows else None
            if not self._gram:
                small["weight"] = self._shaped(self._each_row())
        self._direct = _Direct(units, small)

    def _grouped(self, g: torch.Tensor) -> torch.Tensor:
        """Return output gradients as (rows, groups, positions, outputs of a group)."""
        return g.reshape(len(g), 1, -1, g.shape[-1])

    def _patches(self, x: torch.Tensor) -> torch.Tensor:
        """Return what each position is multiplied with, as (rows, groups, positions, inputs of a group)."""
        return x.reshape(len(x), 1, -1, x.shape[-1])

    def _shaped(self, gradients: torch.Tensor) -> torch.Tensor:
        """Return gradients (..., groups, outputs, inputs) in the shape of the weight."""
        return gradients.flatten(-3, -2)

    def _pieces(self) -> Iterator[tuple[int, int, torch.Tensor]]:
        """Yield the patches of some rows after others, each time with those that may share a unit with the last one."""
        rows = len(self._g)
        if self._kept is not None:
            yield 0, rows, self._kept
            return
        for first in range(0, rows, self._piece):
            last = min(rows, first + self._piece)
            yield first, last, self._patches(self._x[first : last + self._units.most - 1])

    def _each_row(self) -> torch.Tensor:
        """Return the gradient of each row: rounded, if it is, before it is measured."""
        found = []
        for first, last, patches in self._pieces():
            g, a = self._g[first:last].flatten(0, 1), patches[: last - first].flatten(0, 1)
            found.append(torch.bmm(g.mT, a).view(last - first, -1, g.shape[-1], a.shape[-1]))
        return found[0] if len(found) == 1 else torch.cat(found)

    def lengths(self) -> Iterator[Lengths]:
        yield from self._direct.lengths()
        if not self._gram:
            return
        squares, inputs, rows = [], [], len(self._g)
        for first, last, patches in self._pieces():

            def inner(here: slice, there: slice, first: int = first, patches: torch.Tensor = patches) -> torch.Tensor:
                a, b = (patches[part.start - first : part.stop - first] for part in (here, there))
                return _sum((_between(self._g[here], self._g[there]) * _between(a, b)).flatten(1), 1)

            squares.append(_with_their_unit(self._units, first, last, rows, inner))
            inputs.append(squared_lengths(patches[: last - first]))
        total, (product, factor) = self._units.total, _rounding(self._g)
        square = torch.where(self._finite, torch.cat(squares), math.nan)
        yield Lengths(total(square), total(torch.cat(inputs)) * total(squared_lengths(self._g)), product, factor)

    def gradients(self, scale: torch.Tensor, counts: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
        yield from self._direct.gradients(scale, counts)
        if not self._gram:
            return
        scaled, sum_of_all = _scaled(self._units, self._g, scale, counts), None
        several = self._piece < len(scaled)
        for first, last, patches in self._pieces():
            g, a = (each[: last - first].transpose(0, 1).flatten(1, 2) for each in (scaled[first:], patches))
            part = _summed_product(g.mT, a, several)
            sum_of_all = part if sum_of_all is None else sum_of_all.add_(part)
        assert sum_of_all is not None
        yield "weight", self._shaped(sum_of_all)


class _Convolution(_Matrix):
    """A convolution: each position is multiplied with a patch of the input, which is a view of it with strides."""

    def __init__(self, module: Any, units: Units, x: torch.Tensor, g: torch.Tensor) -> None:
        self._module = module
        super().__init__(module, units, x, g)

    def _grouped(self, g: torch.Tensor) -> torch.Tensor:
        return g.flatten(2).view(len(g), self._module.groups, -1, math.prod(g.shape[2:])).mT

    def _patches(self, x: torch.Tensor) -> torch.Tensor:
        module, spatial = self._module, x.dim() - 2
        if any(module._reversed_padding_repeated_twice):
            mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
            x = functional.pad(x, module._reversed_padding_repeated_twice, mode=mode)
        for dim, (size, stride, apart) in enumerate(
            zip(module.kernel_size, module.stride, module.dilation, strict=True), start=2
        ):
            x = x.unfold(dim, (size - 1) * apart + 1, stride)[..., ::apart]
        # Channels last, as the images of a GPU lie in memory, and the gradients of its weights.
        x = x.view(len(x), module.groups, -1, *x.shape[2:]).movedim(2, -1)
        return x.reshape(*x.shape[:2], math.prod(x.shape[2 : 2 + spatial]), -1)

    def _shaped(self, gradients: torch.Tensor) -> torch.Tensor:
        inputs = self._module.in_channels // self._module.groups
        kernel = self._module.kernel_size
        by_place = gradients.flatten(-3, -2)
        return by_place.view(*by_place.shape[:-1], *kernel, inputs).movedim(-1, -1 - len(kernel))


class _Words:
    """A table of vectors: a word's row of the table is multiplied by 1, all others by 0."""

    def __init__(self, module: Any, units: Units, x: torch.Tensor, g: torch.Tensor) -> None:
        self._units, self._shape = units, module.weight.shape
        self._x, self._g = x.reshape(len(x), -1), g.reshape(len(x), -1, g.shape[-1])
        self._learned = self._x != (-1 if module.padding_idx is None else module.padding_idx)

    def lengths(self) -> Iterator[Lengths]:
        rows, positions = self._x.shape
        piece, squares = max(1, _KEPT["cpu"] // max(1, positions**2)), []

        def inner(here: slice, there: slice) -> torch.Tensor:
            same = (self._x[here, :, None] == self._x[there, None, :]) & self._learned[here, :, None]
            return _sum(torch.where(same, _between(self._g[here, None], self._g[there, None])[:, 0], 0.0), (1, 2))

        for first in range(0, rows, piece):
            squares.append(_with_their_unit(self._units, first, min(rows, first + piece), rows, inner))
        total, (product, factor) = self._units.total, _rounding(self._g)
        words = _sum(self._learned.to(_wide(self._g)), 1)
        yield Lengths(total(torch.cat(squares)), total(words) * total(squared_lengths(self._g)), product, factor)

    def gradients(self, scale: torch.Tensor, counts: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
        kind = _wide(self._g)
        scaled = _scaled(self._units, self._g.to(kind), scale, counts).masked_fill(~self._learned[..., None], 0.0)
        rows, columns = self._shape
        words, vectors = self._x.flatten(), scaled.flatten(0, 1)
        table = torch.empty(self._shape, dtype=kind, device=scaled.device)
        wide = max(1, _WIDENED.get(scaled.device.type, _WIDENED["cpu"]) // max(rows, len(words)))
        for left in range(0, columns, wide):
            some = slice(left, left + wide)
            total = torch.zeros(rows, len(range(columns)[some]), dtype=torch.float64, device=scaled.device)
            table[:, some] = total.index_add_(0, words, vectors[:, some].double())
        yield "weight", table


def _with_their_unit(
    units: Units, first: int, last: int, rows: int, inner: Callable[[slice, slice], torch.Tensor]
) -> torch.Tensor:
    """Return for some rows the inner products of their gradients with those of their unit's rows from there on."""
    found = inner(slice(first, last), slice(first, last))
    for apart in range(1, units.most):
        stop = min(last, rows - apart)
        if stop <= first:
            break
        assert units.index is not None
        here, there = slice(first, stop), slice(first + apart, stop + apart)
        # Twice: the other row's product with this one is the same.
        found[: stop - first] += torch.where(units.index[here] == units.index[there], 2.0 * inner(here, there), 0.0)
    return found


def _between(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the inner products between all positions of two rows, group by group."""
    if a.shape[2] == 1:
        return _sum(a.to(_wide(a)) * b.to(_wide(b)), 3)[..., None]
    return _product(a.flatten(0, 1), b.flatten(0, 1).mT).view(*a.shape[:2], a.shape[2], b.shape[2])


def _scaled(units: Units, g: torch.Tensor, scale: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """Return output gradients times the scale of their unit, and 0 where it does not count, whatever they are."""
    factor, used = (units.rows(each).view(-1, *[1] * (g.dim() - 1)) for each in (scale, counts))
    return torch.where(used, g * factor.to(_wide(g)), 0.0).to(g.dtype)


def _normalised(module: Any, units: Units, x: torch.Tensor, g: torch.Tensor) -> Layer:
    """Return what a layer adds that multiplies each channel, or each number, of normalised inputs."""
    g = g.to(_wide(g))
    x = x.to(g.dtype)
    if isinstance(module, nn.GroupNorm):
        x = functional.group_norm(x, module.num_groups, eps=module.eps)
    elif isinstance(module, nn.LayerNorm):
        x = functional.layer_norm(x, module.normalized_shape, eps=module.eps)
    elif isinstance(module, nn.RMSNorm):
        x = functional.rms_norm(x, module.normalized_shape, eps=module.eps)
    elif isinstance(module, nn.PReLU):
        x = x.clamp(max=0.0)
    else:
        x = functional.instance_norm(x, eps=module.eps)
    small = {}
    for name, each in (("weight", x * g), ("bias", g)):
        parameter = module._parameters.get(name)
        if parameter is None or not parameter.requires_grad:
            continue
        if isinstance(module, nn.LayerNorm | nn.RMSNorm):
            found = each.reshape(len(each), -1, *parameter.shape).sum(1)
        else:
            found = each.flatten(2).sum(2) if each.dim() > 2 else each
            found = found.sum(1, keepdim=True) if parameter.numel() == 1 else found
        small[name] = found
    return _Direct(units, small)


#: What a layer of exactly this type adds; its inputs and output gradients of one batch are given.
LAYERS: dict[type[nn.Module], Callable[[nn.Module, Units, torch.Tensor, torch.Tensor], Layer]] = {
    nn.Linear: _Matrix,
    nn.Conv1d: _Convolution,
    nn.Conv2d: _Convolution,
    nn.Conv3d: _Convolution,
    nn.Embedding: _Words,
    nn.GroupNorm: _normalised,
    nn.LayerNorm: _normalised,
    nn.RMSNorm: _normalised,
    nn.InstanceNorm1d: _normalised,
    nn.InstanceNorm2d: _normalised,
    nn.InstanceNorm3d: _normalised,
    nn.PReLU: _normalised,
}
