"""Which modules compute every row by itself, whatever the rows: chains of PyTorch's own layers, known one by one.

This is decided by the types of the layers, their options and the number of dimensions that reach them, never by trying
rows out. A module may mix rows for some rows and weights, and not for others. By induction over the chain the rows lie
in the first dimension and stay apart in front of every layer. Whatever is not known here, such as a module with a
`forward` of its own, is computed unit by unit (`torch_units`), where rows of different units never meet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import nn

from .._function import error_line
from ..errors import InvalidInput
from .torch_layers import LAYERS
from .torch_module import called

Result = TypeVar("Result")


class CannotCompute(InvalidInput):
    """A module that fails with made-up rows."""


#: Layers that keep rows apart in inputs of two or more dimensions. Pooling and padding work on the last dimensions, of
#: which there are fewer than the input has; the masks of a dropout do not depend on the rows.
_APART: frozenset[type[nn.Module]] = frozenset(
    {
        *(nn.Identity, nn.Linear, nn.GroupNorm, nn.LocalResponseNorm, nn.PReLU),
        *(nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.RReLU, nn.ELU, nn.CELU, nn.SELU, nn.GELU, nn.SiLU, nn.Mish, nn.Threshold),
        *(nn.Sigmoid, nn.LogSigmoid, nn.Hardsigmoid, nn.Tanh, nn.Hardtanh, nn.Tanhshrink, nn.Hardshrink, nn.Softshrink),
        *(nn.Hardswish, nn.Softplus, nn.Softsign),
        *(nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout),
        *(nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d),
        *(nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.AdaptiveMaxPool3d),
        *(nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d),
    }
)
#: Layers that take an input with fewer dimensions for a single row, or for its channels.
_DIMENSIONS: dict[type[nn.Module], int] = {
    nn.Conv1d: 3,
    nn.Conv2d: 4,
    nn.Conv3d: 5,
    nn.InstanceNorm1d: 3,
    nn.InstanceNorm2d: 4,
    nn.InstanceNorm3d: 5,
    nn.Softmax2d: 4,
}
_PADDING: frozenset[type[nn.Module]] = frozenset(
    {
        *(nn.ZeroPad1d, nn.ZeroPad2d, nn.ZeroPad3d, nn.ConstantPad1d, nn.ConstantPad2d, nn.ConstantPad3d),
        *(nn.ReflectionPad1d, nn.ReflectionPad2d, nn.ReflectionPad3d),
        *(nn.ReplicationPad1d, nn.ReplicationPad2d, nn.ReplicationPad3d),
    }
)
#: Layers with a dimension to choose, and what they call it: it must not be that of the rows.
_ALONG: dict[type[nn.Module], str] = {
    nn.Softmax: "dim",
    nn.LogSoftmax: "dim",
    nn.Softmin: "dim",
    nn.GLU: "dim",
    nn.Flatten: "start_dim",
    nn.Unflatten: "dim",
}
_SHAPED = (nn.LayerNorm, nn.RMSNorm)
_KNOWN = frozenset({*_APART, *_DIMENSIONS, *_PADDING, *_ALONG, *_SHAPED, *LAYERS, nn.Sequential})


def layers_of_chain(module: nn.Module, name: str, some: Sequence[torch.Tensor]) -> dict[str, nn.Module] | None:
    """Return the layers that learn in a chain which is known to keep rows apart; None for every other module.

    Of the made-up rows only shape and type count.
    """
    parts = list(module.named_modules(remove_duplicate=False))
    owners = [id(each) for _, part in parts for each in part._parameters.values() if each is not None]
    # A layer that is used twice is here twice, and so is a parameter of two layers.
    if not all(_is_torchs_own(part) for _, part in parts) or len(set(owners)) < len(owners):
        return None
    found: list[bool] = []

    def look(part: nn.Module, given: tuple[Any, ...], answer: Any) -> None:
        found.append(isinstance(answer, torch.Tensor) and _keeps_apart(part, given[0]))

    def attempt(rows: torch.Tensor) -> bool:
        found.clear()
        handles = [part.register_forward_hook(look) for part in module.modules()]
        try:
            with torch.no_grad():
                module(rows)
        finally:
            for handle in handles:
                handle.remove()
        return all(found)

    if not first_that_works(module, name, some, attempt):
        return None
    return {of: part for of, part in parts if _learned(part)}


def first_that_works(
    module: nn.Module, name: str, some: Sequence[torch.Tensor], attempt: Callable[[torch.Tensor], Result]
) -> Result:
    """Return what an attempt with the first made-up rows returns that do not make it fail; else name the layer."""
    inside: list[tuple[str, nn.Module]] = []
    handles = []
    for of, part in module.named_modules():
        handles.append(part.register_forward_pre_hook(lambda part, _, of=of: inside.append((of, part))))
        handles.append(part.register_forward_hook(lambda *_: (inside.pop(), None)[1]))
    refusal: CannotCompute | None = None
    try:
        for rows in some:
            inside.clear()
            try:
                return attempt(rows)
            except InvalidInput:
                raise
            except Exception as error:  # so may any layer, of rows that it is not made for
                layer = called(*(inside[-1] if inside else ("", module)))
                reason = f"{layer} cannot compute made-up rows one by one: {error_line(error)}"
                refusal = CannotCompute("model.name", name, reason, must_be=False)
                refusal.__cause__ = error
    finally:
        for handle in handles:
            handle.remove()
    assert refusal is not None
    raise refusal


def _learned(part: nn.Module) -> list[str]:
    return [of for of, each in part._parameters.items() if each is not None and each.requires_grad]


def _is_torchs_own(part: nn.Module) -> bool:
    """Say whether a layer is exactly what PyTorch made it: no other class, hook or method, no parameter in between."""
    hooked = part._forward_hooks or part._forward_pre_hooks or part._backward_hooks or part._backward_pre_hooks
    replaced = any(callable(getattr(type(part), name, None)) for name in vars(part))
    if type(part) not in _KNOWN or hooked or replaced:
        return False
    if type(part) is not nn.Sequential and part._modules:
        return False
    if any(type(each) is not nn.Parameter for each in part._parameters.values() if each is not None):
        return False
    own = set(_learned(part))
    return not own or (type(part) in LAYERS and own <= {"weight", "bias"})


def _keeps_apart(part: nn.Module, x: Any) -> bool:
    """Say whether a known layer keeps the rows of such an input apart, if they lie in its first dimension."""
    kind = type(part)
    if not isinstance(x, torch.Tensor) or x.dim() < (1 if kind is nn.Embedding else 2):
        return False
    if kind in _DIMENSIONS:
        return x.dim() == _DIMENSIONS[kind]
    if kind in _PADDING:
        padding: Any = part.padding
        return len(padding) // 2 < x.dim()
    if kind in _ALONG:
        dim = getattr(part, _ALONG[kind])
        return isinstance(dim, int) and dim % x.dim() != 0
    if isinstance(part, _SHAPED):
        return len(part.normalized_shape) < x.dim()
    return kind in _APART or kind in (nn.Sequential, nn.Embedding)


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Say whether two tensors are equal but for rounding."""
    return torch.allclose(a.double(), b.double(), rtol=1e-4, atol=1e-6, equal_nan=True)


def mixes(module: nn.Module, rows: torch.Tensor, others: torch.Tensor) -> bool:
    """Say whether a module is seen to mix these rows: a courtesy to its author, since no proof rests on it."""
    try:
        answers = _drawn_alike(module, rows)
        for place in range(len(rows)):
            changed = others.clone()
            changed[place] = rows[place]
            if not same(answers[place], _drawn_alike(module, changed)[place]):
                return True
    except Exception:  # whether it can be computed is found out elsewhere
        return False
    return False


def _drawn_alike(module: nn.Module, rows: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(1)
    with torch.no_grad():
        answers: torch.Tensor = module(rows)
    return answers
