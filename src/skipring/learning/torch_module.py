"""PyTorch modules that can learn on a walk: where they come from, what is asked of them, and the rows they are given.

The network is `cnn`, one of the paper's, `small-cnn`, or `module:function`: a function without arguments that returns a
PyTorch module, such as ``clinic.models:small``. It is imported like any Python module, so it must be installed or its
folder be in PYTHONPATH, at every node. The node's owner has to allow it; no code travels between nodes. Every call must
return a new module, the same for the same seed of PyTorch. It takes a float32 batch of shape (rows, features), and
answers with (rows, classes), or with (rows,) or (rows, 1) where labels are numbers.

Only parameters travel, and only those that require a gradient: as one float32 vector, in the order of
``module.parameters()``. A module with buffers, such as the running means of a BatchNorm, is refused, because they would
be left behind, and depend on data that no noise hides. So is a tensor that is drawn at random and no parameter: the
file of a model has parameters, those that do not learn included, and no seed.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.parameter import UninitializedParameter
from torch.nn.utils import vector_to_parameters

from .._function import error_line, made_by
from ..data import require_finite_labels, require_single_precision
from ..errors import InvalidInput, require_integer
from .networks import NeuralModel
from .update import without_tiny

# A network is drawn from the generator that all threads of torch share.
_DRAWING = threading.Lock()
#: A seed that no run has, by which one sees what a seed decides.
_OTHER_SEED = 0x5EED5EED5EED5EED
#: Bits are added up in pieces of this many numbers: a CPU copies them into wider ones first.
_PIECE = 1 << 16
#: How often each parameter was written to, and a sum of its bits.
Written = dict[str, tuple[int, torch.Tensor | None]]


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """Where a network is computed, and how.

    Parameters
    ----------
    device : such as ``cpu`` or ``cuda``.
    batch : rows per update; None means that every update may have another number, which no CUDA graph can.
    graph, compile_loss, bf16 : whether an update is recorded as a CUDA graph, if it can be; whether torch compiles the
        loss; whether layers compute in bfloat16, with parameters and noise in single precision. How far one record
        moves a sum that is rounded so coarsely is not proven: that is for simulations, which release nothing.
    """

    device: str | torch.device = "cpu"
    batch: int | None = None
    graph: bool = False
    compile_loss: bool = False
    bf16: bool = False

    def __post_init__(self) -> None:
        if self.batch is not None:
            require_integer("batch", self.batch, 1)
        elif self.graph or self.compile_loss:
            raise InvalidInput.because("batch", "missing", "a graph is recorded for a fixed number of rows")

    @classmethod
    def fastest(cls, device: torch.device, batch: int | None) -> Hardware:
        """Return how a device is quickest: a GPU with all of it that can be."""
        on_gpu = device.type == "cuda"
        whole = on_gpu and batch is not None
        return cls(device=device, batch=batch, graph=whole, compile_loss=whole, bf16=on_gpu)


def paper_cnn(data: Literal["mnist", "cifar10"]) -> nn.Sequential:
    """Return one of the paper's two networks: 3x3 convolutions with SELU, the last layer linear.

    >>> sum(p.numel() for p in paper_cnn("mnist").parameters())
    279498
    """
    if data == "mnist":
        return _convolutions(1, [(64, 1), (64, 2), (128, 1), (128, 2)], padding=0, outputs=128 * 4 * 4)
    if data == "cifar10":
        layers = [(64, 1), (64, 2), (128, 1), (128, 2), (256, 1), (256, 1), (256, 2), (512, 1), (512, 1), (512, 2)]
        return _convolutions(3, layers, padding=1, outputs=512 * 2 * 2)
    raise InvalidInput("model", data, "mnist or cifar10")


def _convolutions(channels: int, layers: Sequence[tuple[int, int]], *, padding: int, outputs: int) -> nn.Sequential:
    modules: list[nn.Module] = []
    for width, stride in layers:
        modules += [nn.Conv2d(channels, width, 3, stride=stride, padding=padding), nn.SELU()]
        channels = width
    return nn.Sequential(*modules, nn.Flatten(), nn.Linear(outputs, 10))


def small_cnn(data: Literal["mnist", "cifar10"]) -> nn.Sequential:
    """Return a small network: two convolutions, two linear layers, and tanh in between.

    The noise of an update grows with the number of parameters; the gradients that it is added to are clipped.

    >>> [sum(p.numel() for p in small_cnn(data).parameters()) for data in ("mnist", "cifar10")]
    [26010, 37274]
    """
    colours, side = {"mnist": (1, 4), "cifar10": (3, 5)}[data]
    return nn.Sequential(
        *(nn.Conv2d(colours, 16, 8, stride=2, padding=2), nn.Tanh(), nn.MaxPool2d(2, 1)),
        *(nn.Conv2d(16, 32, 4, stride=2), nn.Tanh(), nn.MaxPool2d(2, 1)),
        *(nn.Flatten(), nn.Linear(32 * side * side, 32), nn.Tanh(), nn.Linear(32, 10)),
    )


def maker(model: NeuralModel) -> Callable[[], nn.Module]:
    """Return what makes a new module of a model whenever it is called."""
    if model.is_function:
        return partial(_call, model.name)
    return partial(paper_cnn if model.name == "cnn" else small_cnn, model.network)


def _call(name: str) -> nn.Module:
    """Return what the user's function returns, or say in one line why it is no module."""
    made = made_by("model.name", name, "module")
    if not isinstance(made, nn.Module):
        raise InvalidInput.because("model.name", name, f"made no PyTorch module, but a {type(made).__name__}")
    return made


def drawn(make: Callable[[], nn.Module], seed: int) -> nn.Module:
    """Return a new module whose weights are drawn with this seed; torch's own generator is left as it was."""
    with _DRAWING, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed % 2**63)
        return make()


@contextmanager
def drawing(device: torch.device, seed: int) -> Iterator[None]:
    """Let modules draw from torch's own generators, as a dropout does, and leave them as they were."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def redraw(module: nn.Module, make: Callable[[], nn.Module], seed: int, name: str) -> None:
    """Give a module the weights of a new one that is drawn with this seed, those that do not learn included."""
    fresh = drawn(make, seed)
    require_same_size(name, fresh, module, [parameter.shape for parameter in trainable(module)])
    with torch.no_grad():
        for mine, new in zip(module.parameters(), fresh.parameters(), strict=True):
            mine.copy_(new)


def trainable(module: nn.Module) -> list[nn.Parameter]:
    """Return the parameters that travel."""
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def as_vector(module: nn.Module) -> NDArray[np.float32]:
    """Return a copy of the parameters as they travel: in the order of ``module.parameters()``."""
    found: NDArray[np.float32] = torch.cat([each.detach().reshape(-1) for each in trainable(module)]).cpu().numpy()
    return found


def with_parameters(module: nn.Module, vector: NDArray[Any]) -> bool:
    """Give a module the parameters of a vector, as they travel; False if it needs another number of them."""
    parameters = trainable(module)
    if sum(parameter.numel() for parameter in parameters) != vector.size:
        return False
    vector_to_parameters(torch.from_numpy(np.array(vector, np.float32)).to(parameters[0].device), parameters)
    return True


def require_same_size(name: str, fresh: nn.Module, known: nn.Module, shapes: Sequence[torch.Size]) -> None:
    """Refuse a second module that is the first one, or of another size."""
    if fresh is known or [parameter.shape for parameter in trainable(fresh)] != list(shapes):
        raise InvalidInput.because("model.name", name, "must return a new module of the same size every time")


def trial_rows(like: torch.Tensor, count: int) -> list[torch.Tensor]:
    """Return rows that have the shape and type of others, and nothing else in common with them.

    Two batches of them: numbers between -1 and 1 (0 or 1, if they are whole), and zeros, which fit nearly anything.
    """
    generator = torch.Generator().manual_seed(1)
    shape = (count, *like.shape[1:])
    if like.is_floating_point():
        rows = 2.0 * torch.rand(shape, generator=generator) - 1.0
    else:
        rows = torch.randint(0, 2, shape, generator=generator)
    return [each.to(like.device, like.dtype) for each in (rows, torch.zeros(shape))]


def usable_module(model: NeuralModel, rows: torch.Tensor, seed: int = 0) -> nn.Module:
    """Return a model's module on the device of the rows; its weights are drawn with the seed.

    One that cannot travel as a vector, or does not take rows of such a shape and type, is refused.
    """
    module, name = drawn(maker(model), seed).to(rows.device), model.name
    require_known_good(module, name, apart=False)
    if buffer := next((of for of, _ in module.named_buffers()), None):
        reason = f"only parameters travel between nodes, and the module has a buffer ({buffer})"
        raise InvalidInput.because("model.name", name, reason)
    for of, parameter in module.named_parameters():
        if isinstance(parameter, UninitializedParameter):
            raise InvalidInput.because("model.name", name, f"{of} has no size yet; say how many inputs it has")
        if parameter.requires_grad and parameter.dtype != torch.float32:
            raise InvalidInput.because("model.name", name, f"{of} is of type {parameter.dtype}, not torch.float32")
    _require_nothing_else_drawn(module, model)
    if not trainable(module):
        raise InvalidInput.because("model.name", name, "the module has no parameters to learn")
    answer: Any = None
    tried = trial_rows(rows, 2)  # and none of the node's own, on which nothing that others notice may depend
    for some in tried:
        try:
            with torch.no_grad(), unchanged(module, name):
                answer = module.eval()(some)
            break
        except InvalidInput:
            raise
        except Exception as error:  # so may a user's network
            if some is tried[-1]:
                reason = f"cannot take a batch of shape {tuple(some.shape)}: {error_line(error)}"
                raise InvalidInput.because("model.name", name, reason) from error
    shape = tuple(answer.shape) if isinstance(answer, torch.Tensor) else type(answer).__name__
    count = len(some)
    # Networks for images have ten outputs for any number of classes.
    classes = model.classes if model.is_function else 10
    if shape not in ([(count, classes)] if classes else [(count,), (count, 1)]):
        wanted = f"({count}, {classes}), a score for each class" if classes else f"({count},), since labels are numbers"
        raise InvalidInput.because("model.name", name, f"answers {count} rows with {shape}, and not {wanted}")
    return module


def _require_nothing_else_drawn(module: nn.Module, model: NeuralModel) -> None:
    """Refuse tensors that are no parameters and differ with the seed: no model's file has them, nor the seed."""
    known = _plain_tensors(module)
    if not known:
        return
    other = _plain_tensors(drawn(maker(model), _OTHER_SEED))
    for of, tensor in known.items():
        if of not in other or not torch.equal(tensor.detach().cpu(), other[of].detach().cpu()):
            reason = f"{of} is drawn at random and no parameter; make it an nn.Parameter with requires_grad=False"
            raise InvalidInput.because("model.name", model.name, reason)


def _plain_tensors(module: nn.Module) -> dict[str, torch.Tensor]:
    """Return tensors and arrays that are attributes of a module or of its parts, also in lists and dictionaries."""
    found: dict[str, torch.Tensor] = {}

    def look(of: str, value: object, depth: int) -> None:
        if isinstance(value, torch.Tensor):
            if not value.requires_grad and not isinstance(value, nn.Parameter):
                found[of] = value
        elif isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            found[of] = torch.from_numpy(np.array(value))
        elif depth and isinstance(value, dict):
            for key, each in value.items():
                look(f"{of}[{key!r}]", each, depth - 1)
        elif depth and isinstance(value, list | tuple):
            for place, each in enumerate(value):
                look(f"{of}[{place}]", each, depth - 1)

    for path, part in module.named_modules():
        for name, value in vars(part).items():
            if name not in ("_parameters", "_buffers", "_modules"):
                look(f"{path}.{name}" if path else name, value, 3)
    return found


def require_known_good(module: nn.Module, name: str, *, apart: bool) -> None:
    """Refuse layers that keep something of rows, or, if they must stay `apart`, let records depend on each other."""
    for of, part in module.named_modules():
        layer = called(of, part)
        if apart and isinstance(part, _BatchNorm):
            reason = f"{layer} mixes the records of a batch, so that none has a share of its own; GroupNorm does not"
        elif isinstance(part, _BatchNorm | _InstanceNorm) and part.track_running_stats:
            reason = f"{layer} keeps statistics of rows; use GroupNorm or LayerNorm"
        elif isinstance(part, nn.Embedding | nn.EmbeddingBag) and part.max_norm is not None:
            reason = f"{layer} changes its own parameters when it is used, by rows that no noise hides (max_norm)"
        elif apart and isinstance(part, nn.Embedding | nn.EmbeddingBag) and part.scale_grad_by_freq:
            reason = f"{layer} divides a record's gradient by how often others use its words (scale_grad_by_freq)"
        else:
            continue
        raise InvalidInput.because("model.name", name, reason)


def called(name: str, part: nn.Module) -> str:
    """Return what refusals call a layer."""
    return f"layer {name or 'of the model'} ({type(part).__name__})"


def written_bits(module: nn.Module, *, bits: bool = True) -> Written:
    """Return how often each parameter and buffer was written to, and a sum of its bits.

    Without `bits`, for which a GPU is waited for, it is what torch knows of parameters.
    """
    if not bits:
        return {name: (each._version, None) for name, each in module.named_parameters()}
    named = [*module.named_parameters(), *module.named_buffers()]
    return {name: (each._version, _sum_of_bits(each)) for name, each in named}


@contextmanager
def unchanged(module: nn.Module, name: str, *, bits: bool = True, lent: Sequence[torch.Tensor] = ()) -> Iterator[None]:
    """Refuse a module that changes a parameter or buffer of its own meanwhile: what changes them no noise hides.

    ``nn.Embedding(max_norm=...)`` does, and so may any `forward`. What a parameter was is not kept, which would be a
    second copy of the model. But torch counts the operations that write to a tensor, and a sum of its bits tells of
    most others. What was `lent` is overwritten then, so that nobody can pass on what the module made of it.
    """
    before = written_bits(module, bits=bits)
    try:
        yield
    finally:
        for of, (version, some) in written_bits(module, bits=bits).items():
            was, others = before.get(of, (-1, None))
            if version != was or (some is not None and (others is None or not torch.equal(some, others))):
                for piece in lent:
                    piece.fill_(math.nan)
                reason = f"changes its own parameters when it is used ({of}), by rows that no noise hides"
                raise InvalidInput.because("model.name", name, reason)


def _sum_of_bits(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.detach().reshape(-1)
    bits = flat.view(torch.int32 if flat.element_size() == 4 else torch.uint8)
    total = torch.zeros((), dtype=torch.int64, device=flat.device)
    for piece in torch.split(bits, _PIECE):
        total += piece.sum(dtype=torch.int64)
    return total


def rows_for(
    model: NeuralModel, features: NDArray[Any], labels: NDArray[Any], what: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return rows of the `what` data as the model's network takes them, if they are finite in single precision.

    Networks for images take rows in [0, 1], pixel by pixel, as images in [-1, 1] with the colours first.
    """
    require_single_precision(features, what)
    require_finite_labels(labels, what, math.inf if model.classes else float(np.finfo(np.float32).max))
    x, y = np.asarray(features, np.float32), np.asarray(labels, np.int64 if model.classes else np.float32)
    if not model.is_function:
        colours, height, width = model.image_shape
        x = np.ascontiguousarray(2.0 * x.reshape(-1, height, width, colours).transpose(0, 3, 1, 2) - 1.0)
    return torch.from_numpy(without_tiny(x)), torch.from_numpy(without_tiny(y))


def choose_device(asked: str) -> torch.device:
    """Return the device of that name; `auto` is a GPU if there is one."""
    if asked == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if asked.partition(":")[0] not in ("cpu", "cuda"):
        raise InvalidInput("model.device", asked, "auto, cpu or cuda")
    if asked.startswith("cuda") and not torch.cuda.is_available():
        raise InvalidInput.because("model.device", asked, "there is no GPU that PyTorch can use")
    return torch.device(asked)
