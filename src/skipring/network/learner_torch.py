"""What a node computes if the model is a neural network: one clipped and noisy step on all of its parameters.

The network is `cnn`, one of the paper's, or `module:function`: a function without arguments that returns a PyTorch
module, such as ``clinic.models:small``. It is imported like any Python module, so it must be installed or its folder be
in PYTHONPATH, at every node; the current folder is not searched, and no code travels between nodes. Every call must
return a new module, the same for the same seed of PyTorch. It takes a float32 batch of shape (rows, features), and
answers with (rows, classes), or with (rows,) or (rows, 1) where labels are numbers.

Only parameters travel, and only those that require a gradient: as one float32 vector, in the order of
``module.parameters()``. A module with buffers, such as the running means of a BatchNorm, is refused, because they would
be left behind, and depend on data that no noise hides.

A node's averaged gradient is clipped to `learning.gradient_bound`; without one nothing can be promised, so it has to be
given. The vector given to an update is changed in place, and beside it there is only the gradient.
"""

from __future__ import annotations

import importlib
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import require_finite_labels, require_single_precision
from ..errors import InvalidInput, require_non_negative, require_positive
from ..learning import Batches, NeuralModel, Noise, Rows
from ..learning.update import noise_std, norm, usable
from ..runs import RunFile, Shape, model_of

try:
    import torch
    from torch import nn
    from torch.nn.functional import cross_entropy
    from torch.nn.parameter import UninitializedParameter
except ImportError:
    raise InvalidInput.because("model", "a network", "needs PyTorch: pip install skipring[torch]") from None

__all__ = ["NetworkLearner", "network_learner"]

#: Rounding to single precision must not lift a clipped gradient above its bound.
_BELOW = 1.0 - 1e-6
_TEST_CHUNK = 1000
# A network is drawn from the generator that all threads of torch share.
_DRAWING = threading.Lock()


def network_learner(run: RunFile, rows: Rows, rng: np.random.Generator) -> NetworkLearner:
    """Return the learner of a node with these rows."""
    _require_finite(rows)
    if run.learning.gradient_bound is None:
        reason = "the gradient of a network has no bound of its own, so no privacy could be stated; give one to clip to"
        raise InvalidInput.because("learning.gradient_bound", "missing", reason)
    name = str(run.model.name)
    make: Callable[[], nn.Module]
    if run.model.is_function:
        make = partial(_make, name)
    else:
        from ..learning.neural import paper_cnn

        model = model_of(run, Shape(rows.train_x.shape[1], rows.classes))
        assert isinstance(model, NeuralModel)
        make = partial(paper_cnn, model.network)
        rows = replace(rows, train_x=_images(rows.train_x, model), test_x=_images(rows.test_x, model))
    return NetworkLearner(
        make,
        rows,
        name=name,
        gradient_bound=run.learning.gradient_bound,
        radius=math.inf if run.learning.diameter is None else 0.5 * run.learning.diameter,
        ridge=run.model.ridge,
        batch=run.learning.batch,
        device=run.model.device,
        seed=run.simulation.seed,
        rng=rng,
    )


def _make(name: str) -> nn.Module:
    """Return what the user's function returns, or say in one line why it is no module."""
    where, _, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(where), function)
    except Exception as error:  # a user's module may raise anything
        hint = "; the module must be installed, or its folder be in PYTHONPATH"
        raise InvalidInput.because("model.name", name, f"cannot be imported: {_line(error)}{hint}") from error
    try:
        made = found()
    except Exception as error:  # so may a user's function
        raise InvalidInput.because("model.name", name, f"made no module: {_line(error)}") from error
    if not isinstance(made, nn.Module):
        raise InvalidInput.because("model.name", name, f"made no PyTorch module, but a {type(made).__name__}")
    return made


def _line(error: Exception) -> str:
    first = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _images(rows: NDArray[Any], model: NeuralModel) -> NDArray[np.float32]:
    """Return rows in [0, 1], pixel by pixel, as images in [-1, 1] with the colours first, as simulations do."""
    colours, height, width = model.image_shape
    values = np.asarray(rows, np.float32).reshape(-1, height, width, colours).transpose(0, 3, 1, 2)
    return np.ascontiguousarray(2.0 * values - 1.0)


class NetworkLearner:
    """Any PyTorch module, and a node's rows; see `skipring.learning.Learner`.

    `make` returns a new module; its weights are drawn with `seed`. Between two calls there is neither a copy of the
    parameters nor a gradient. A gradient that is not finite counts as 0.
    """

    dtype = np.dtype("<f4")

    def __init__(
        self,
        make: Callable[[], nn.Module],
        rows: Rows,
        *,
        name: str,
        gradient_bound: float,
        radius: float,
        ridge: float,
        batch: int | None,
        device: str,
        seed: int,
        rng: np.random.Generator,
    ) -> None:
        require_positive("gradient_bound", gradient_bound)
        require_non_negative("ridge", ridge)
        if not radius > 0.0:
            raise InvalidInput("diameter", 2.0 * radius, "above 0")
        _require_finite(rows)
        self.labels_clipped = rows.labels_clipped
        self.name, self.gradient_bound, self.radius, self._ridge = name, gradient_bound, radius, ridge
        self._make, self._seed, self._device, self._classes = make, seed, _device(device), rows.classes
        kind = np.int64 if rows.classes else np.float32
        self._x, self._test_x = (torch.from_numpy(np.asarray(x, np.float32)) for x in (rows.train_x, rows.test_x))
        self._y, self._test_y = (torch.from_numpy(np.asarray(y, kind)) for y in (rows.train_y, rows.test_y))
        self._batches = Batches(len(rows.train_x), batch, rng)
        self._at_work = threading.Lock()
        self._module = self._fresh().to(self._device)
        self._parameters = _trainable(self._module)
        self._check(name)
        self.shape = (sum(p.numel() for p in self._parameters),)
        self._shapes = [p.shape for p in self._parameters]
        self._let_go()

    def _fresh(self) -> nn.Module:
        with _DRAWING, torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._seed % 2**63)
            return self._make()

    def _check(self, name: str) -> None:
        """Refuse a module that cannot travel as a vector, or that does not take these rows."""
        if buffer := next((of for of, _ in self._module.named_buffers()), None):
            reason = f"only parameters travel between nodes, and the module has a buffer ({buffer})"
            raise InvalidInput.because("model.name", name, reason)
        for of, parameter in self._module.named_parameters():
            if isinstance(parameter, UninitializedParameter):
                raise InvalidInput.because("model.name", name, f"{of} has no size yet; say how many inputs it has")
            if parameter.requires_grad and parameter.dtype != torch.float32:
                raise InvalidInput.because("model.name", name, f"{of} is of type {parameter.dtype}, not torch.float32")
        if not self._parameters:
            raise InvalidInput.because("model.name", name, "the module has no parameters to learn")
        some = self._x[:2].to(self._device)
        try:
            with torch.no_grad():
                answer = self._module.eval()(some)
        except Exception as error:  # so may a user's network
            reason = f"cannot take a batch of shape {tuple(some.shape)}: {_line(error)}"
            raise InvalidInput.because("model.name", name, reason) from error
        shape = tuple(answer.shape) if isinstance(answer, torch.Tensor) else type(answer).__name__
        rows = len(some)
        # The paper's networks have ten outputs for any number of classes.
        classes = 10 if name == "cnn" else self._classes
        if shape not in ([(rows, classes)] if classes else [(rows,), (rows, 1)]):
            wanted = (
                f"({rows}, {classes}), a score for each class" if classes else f"({rows},), since labels are numbers"
            )
            raise InvalidInput.because("model.name", name, f"answers {rows} rows with {shape}, and not {wanted}")

    def _let_go(self) -> None:
        """Keep neither parameters nor gradients: what was lent belongs to somebody else."""
        for parameter in self._parameters:
            parameter.data, parameter.grad = torch.empty(0, device=self._device), None

    @contextmanager
    def _lent(self, pieces: list[torch.Tensor]) -> Iterator[None]:
        """Let the module work with these parameters; on a CPU they are not copied."""
        try:
            for parameter, piece, shape in zip(self._parameters, pieces, self._shapes, strict=True):
                parameter.data = piece.view(shape).to(self._device)
            yield
        finally:
            self._let_go()

    def _pieces(self, parameters: NDArray[Any]) -> list[torch.Tensor]:
        whole, sizes = torch.from_numpy(parameters), [shape.numel() for shape in self._shapes]
        return list(torch.split_with_sizes(whole, sizes))

    def contracts(self, step_size: float) -> bool:
        """Say that updates of a network are no contractions."""
        return False

    def initial(self) -> NDArray[Any]:
        """Return weights drawn with the run's seed."""
        start = np.empty(self.shape, self.dtype)
        fresh = _trainable(self._fresh())
        if [p.shape for p in fresh] != self._shapes:
            raise InvalidInput.because("model.name", self.name, "must return a new module of the same size every time")
        for parameter, piece, shape in zip(fresh, self._pieces(start), self._shapes, strict=True):
            piece.view(shape).copy_(parameter.data)
        usable(start, self)
        return start

    def prepare(self) -> None:
        """Choose the rows of the next update."""
        self._batches.prepare()

    def update(
        self, parameters: NDArray[Any], *, step_size: float, noise_multiplier: float, noise: Noise
    ) -> NDArray[Any]:
        """Change the parameters by one noisy step, and return them; only an array that cannot be written is copied."""
        std = noise_std(self, step_size, noise_multiplier)
        w = _writeable(usable(parameters, self))
        pieces = self._pieces(w)
        with self._at_work:
            gradients = self._clipped(self._gradients(pieces))
        # From here on nothing depends on the node's rows but what is in the gradients.
        for piece in pieces:
            # One at a time: what is used is not kept.
            gradient = gradients.pop(0)
            if std > 0.0:
                noise.add(gradient.numpy(), std)
            if self._ridge > 0.0:
                piece.mul_(1.0 - step_size * self._ridge)
            piece.add_(gradient, alpha=-step_size)
        length = norm(w)
        if length > self.radius:
            w *= self.radius / length
        return w

    def _gradients(self, pieces: list[torch.Tensor]) -> list[torch.Tensor]:
        """Return the gradient of the batch's mean loss, a vector for each parameter."""
        rows = torch.from_numpy(self._batches.take())
        with self._lent(pieces):
            loss = self._loss(self._module.train()(self._x[rows].to(self._device)), self._y[rows].to(self._device))
            if loss.requires_grad:  # otherwise the answer depends on no parameter
                loss.backward()  # type: ignore[no-untyped-call] # torch's
            found = [parameter.grad for parameter in self._parameters]
        return [
            # A parameter that was not used has no gradient; it gets noise like all others.
            torch.zeros(shape.numel()) if gradient is None else _flat(gradient)
            for gradient, shape in zip(found, self._shapes, strict=True)
        ]

    def _clipped(self, gradients: list[torch.Tensor]) -> list[torch.Tensor]:
        length = math.hypot(*(norm(gradient.numpy()) for gradient in gradients))
        for gradient in gradients:
            if not math.isfinite(length):
                gradient.zero_()
            elif length > self.gradient_bound:
                gradient.mul_(self.gradient_bound / length * _BELOW)
        return gradients

    def _loss(self, answer: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if self._classes:
            return cross_entropy(answer, labels)
        return 0.5 * (answer.reshape(labels.shape) - labels).square().mean()

    def test_error(self, parameters: NDArray[Any]) -> float:
        """Return the share of wrong test rows, or the mean squared error."""
        pieces = self._pieces(_writeable(usable(parameters, self)))
        if not len(self._test_x):
            return math.nan
        total = 0.0
        with self._at_work, self._lent(pieces), torch.no_grad():
            self._module.eval()
            for start in range(0, len(self._test_x), _TEST_CHUNK):
                rows = slice(start, start + _TEST_CHUNK)
                answer, labels = self._module(self._test_x[rows].to(self._device)).cpu(), self._test_y[rows]
                wrong = (
                    answer.argmax(1) != labels if self._classes else (answer.reshape(labels.shape) - labels).square()
                )
                total += float(wrong.sum(dtype=torch.float64))
        return total / len(self._test_x)


def _require_finite(rows: Rows) -> None:
    """Refuse what is not finite in single precision."""
    most = math.inf if rows.classes else float(np.finfo(np.float32).max)
    for what, x, y in (("training", rows.train_x, rows.train_y), ("test", rows.test_x, rows.test_y)):
        require_single_precision(x, what)
        require_finite_labels(y, what, most)


def _trainable(module: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def _flat(gradient: torch.Tensor) -> torch.Tensor:
    return (gradient.to_dense() if gradient.is_sparse else gradient).reshape(-1).cpu()


def _writeable(parameters: NDArray[Any]) -> NDArray[Any]:
    return np.require(parameters, requirements=["C", "W"])


def _device(asked: str) -> torch.device:
    if asked == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if asked.partition(":")[0] not in ("cpu", "cuda"):
        raise InvalidInput("model.device", asked, "auto, cpu or cuda")
    if asked.startswith("cuda") and not torch.cuda.is_available():
        raise InvalidInput.because("model.device", asked, "there is no GPU that PyTorch can use")
    return torch.device(asked)
