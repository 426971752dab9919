"""A node's updates of a neural network with PyTorch: one clipped and noisy step on all of its parameters, in place.

The vector given to an update is changed in place, and beside it there is only the gradient: a model of 1 GB is learned
within 2.5 GB. What a step is, is in `torch_update`; which modules can learn, in `torch_module`.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import InvalidInput
from .networks import NeuralModel
from .torch_fixed import changed_since, refusal_of_change, written_bits
from .torch_module import choose_device, drawn, maker, require_same_size, require_usable, rows_for, trainable
from .torch_units import UnitGradients, numbered
from .torch_update import clip_, mean_loss, project_, row_errors, step_
from .units import Batches, Protection, deal_parts, most_units, unit_count
from .update import Noise, Rows, require_step, usable

__all__ = ["TorchLearner"]

_TEST_CHUNK = 1000


class TorchLearner:
    """Any PyTorch module, and a node's rows; see `skipring.learning.Learner`.

    Weights are drawn with `seed`, the same at every node; `rng` draws batches, and `dealt` deals rows into parts.
    Between two calls there is neither a copy of the parameters nor a gradient. A gradient that is not finite counts
    as 0. The gradient that is clipped is that of the rows' mean loss or, if persons or records are protected, each of
    theirs.
    """

    dtype = np.dtype("<f4")

    def __init__(
        self,
        model: NeuralModel,
        rows: Rows,
        *,
        protection: Protection,
        seed: int,
        rng: np.random.Generator,
        dealt: np.random.Generator | None = None,
    ) -> None:
        if model.clip is None:
            reason = (
                "the gradient of a network has no bound of its own, so no privacy could be stated; give one to clip to"
            )
            raise InvalidInput.because("gradient_bound", "missing", reason)
        self._x, self._y = rows_for(model, rows.train_x, rows.train_y, "training")
        self._test_x, self._test_y = rows_for(model, rows.test_x, rows.test_y, "test")
        self.labels_clipped, self.rows_left_out = rows.labels_clipped, rows.left_out
        self.guess = rows.guess
        self.name, self.gradient_bound, self.radius = model.name, model.clip, model.radius
        self._model, self._ridge, self._device = model, model.ridge, choose_device(model.device)
        self._make, self._seed = maker(model), seed
        parts = deal_parts(len(rows.train_x), protection, dealt or rng, rows.persons)
        self._batches = Batches(len(rows.train_x), protection, rng, parts=parts)
        self.protection = protection
        self.parts, self.units = len(parts), most_units(parts, protection, rows.persons)
        self.all_units = unit_count(len(rows.train_x), protection, rows.persons)
        self.rows_digest = rows.digest(parts)
        self._at_work = threading.Lock()
        self._module = drawn(self._make, seed).to(self._device)
        require_usable(self._module, model, self._x[:0].to(self._device))
        self._parameters = trainable(self._module)
        self._shapes = [parameter.shape for parameter in self._parameters]
        self.shape = (sum(shape.numel() for shape in self._shapes),)
        self._persons = None
        self._clipped: UnitGradients | None = None
        if protection.unit != "node":
            if protection.unit == "person":
                assert rows.persons is not None  # or they could not have been dealt
                self._persons = torch.from_numpy(np.unique(rows.persons, return_inverse=True)[1])
            per_unit = protection.rows_per_person
            some, labels = (each[:0].to(self._device) for each in (self._x, self._y))
            self._clipped = UnitGradients(
                self._module,
                mean_loss,
                model.clip,
                some,
                labels,
                rows_per_unit=per_unit,
                most=protection.batch,
                name=model.name,
            )
        self._let_go()

    def _let_go(self) -> None:
        """Keep neither parameters nor gradients: what was lent belongs to somebody else."""
        for parameter in self._parameters:
            parameter.data, parameter.grad = torch.empty(0, device=self._device), None

    @contextmanager
    def _lent(self, pieces: list[torch.Tensor]) -> Iterator[None]:
        """Let the module work with these parameters; on a CPU they are not copied.

        If it changes them, they are overwritten, so that nobody can pass on what it made of them.
        """
        try:
            for parameter, piece, shape in zip(self._parameters, pieces, self._shapes, strict=True):
                parameter.data = piece.view(shape).to(self._device)
            before = written_bits(self._module)
            try:
                yield
            finally:
                if (changed := changed_since(self._module, before)) is not None:
                    for piece in pieces:
                        piece.fill_(math.nan)
                    raise refusal_of_change("model.name", self.name, changed)
        finally:
            self._let_go()

    def _pieces(self, parameters: NDArray[Any]) -> list[torch.Tensor]:
        whole, sizes = torch.from_numpy(parameters), [shape.numel() for shape in self._shapes]
        return list(torch.split_with_sizes(whole, sizes))

    def noise_std(self, noise_multiplier: float) -> float:
        """Return the standard deviation of the noise on an update's gradient."""
        return self.protection.noise_std(self._model, noise_multiplier)

    def contracts(self, step_size: float) -> bool:
        """Say that updates of a network are no contractions."""
        return False

    def initial(self) -> NDArray[Any]:
        """Return weights drawn with the run's seed."""
        start = np.empty(self.shape, self.dtype)
        fresh = drawn(self._make, self._seed)
        require_same_size(self.name, fresh, self._module, self._shapes)
        for parameter, piece, shape in zip(trainable(fresh), self._pieces(start), self._shapes, strict=True):
            piece.view(shape).copy_(parameter.data)
        usable(start, self)
        return start

    def prepare(self) -> None:
        """Choose the rows of the next update."""
        self._batches.prepare()

    def update(
        self, parameters: NDArray[Any], *, turn: int, step_size: float, noise_multiplier: float, noise: Noise
    ) -> NDArray[Any]:
        """Change the parameters by one noisy step, and return them; only an array that cannot be written is copied."""
        require_step(turn, step_size, noise_multiplier)
        std = self.noise_std(noise_multiplier)
        w = _writeable(usable(parameters, self))
        pieces = self._pieces(w)
        with self._at_work:
            taken = torch.from_numpy(self._batches.take(turn))
            clipped = self._clipped
            gradients = self._gradients(pieces, taken) if clipped is None else self._sums(pieces, taken, clipped)
        if self._clipped is None:
            clip_(gradients, self.gradient_bound)
        # From here on nothing depends on the node's rows but what is in the gradients.
        size = torch.tensor(step_size, dtype=torch.float32)
        for piece in pieces:
            # One at a time: what is used is not kept.
            gradient = gradients.pop(0)
            if std > 0.0:
                noise.add(gradient.numpy(), std)
            step_(piece, gradient, size, self._ridge)
        project_(torch.from_numpy(w), self.radius)
        return w

    def _gradients(self, pieces: list[torch.Tensor], rows: torch.Tensor) -> list[torch.Tensor]:
        """Return the gradient of the batch's mean loss, a vector for each parameter, in the computer's memory."""
        with self._lent(pieces):
            loss = mean_loss(self._module.train()(self._x[rows].to(self._device)), self._y[rows].to(self._device))
            if loss.requires_grad:  # otherwise the answer depends on no parameter
                loss.backward()  # type: ignore[no-untyped-call] # torch's
            found = [parameter.grad for parameter in self._parameters]
        return [
            # A parameter that was not used has no gradient; it gets noise like all others.
            torch.zeros(shape.numel()) if gradient is None else _flat(gradient)
            for gradient, shape in zip(found, self._shapes, strict=True)
        ]

    def _sums(self, pieces: list[torch.Tensor], rows: torch.Tensor, clipped: UnitGradients) -> list[torch.Tensor]:
        """Return the sum of the clipped gradients over the batch that was agreed on, a vector for each parameter."""
        units = None
        if self._persons is not None:
            units = numbered(self._persons[rows], len(rows), self.protection.rows_per_person).to(self._device)
        with self._lent(pieces):
            self._module.train()
            found = clipped(self._x[rows].to(self._device), self._y[rows].to(self._device), units=units)
        return [_flat(each.mul_(1.0 / self.protection.divisor(len(rows)))) for each in found]

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
                answers = self._module(self._test_x[rows].to(self._device)).cpu()
                total += float(row_errors(answers, self._test_y[rows]).sum())
        return total / len(self._test_x)


def _flat(gradient: torch.Tensor) -> torch.Tensor:
    return (gradient.to_dense() if gradient.is_sparse else gradient).reshape(-1).cpu()


def _writeable(parameters: NDArray[Any]) -> NDArray[Any]:
    return np.require(parameters, requirements=["C", "W"])
