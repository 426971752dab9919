"""A node's updates of a neural network with PyTorch: one clipped and noisy step on all of its parameters, in place.

The vector given to an update is changed in place, and beside it there is only the gradient: a model of 1 GB is learned
within 2.5 GB. What a step is, is in `torch_update`; which modules can learn, in `torch_module`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import InvalidInput
from .learner import Learner
from .networks import NeuralModel
from .torch_module import (
    as_vector,
    choose_device,
    drawn,
    maker,
    require_same_size,
    rows_for,
    trainable,
    unchanged,
    usable_module,
)
from .torch_units import UnitGradients, numbered_persons
from .torch_update import batch_loss, clip_, mean_error, project_, step_
from .units import Protection
from .update import NothingFits, Pieces, Rows


class TorchLearner(Learner):
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
        own = {"features": self._x.numpy(), "labels": self._y.numpy()}
        super().__init__(model, rows, **own, protection=protection, rng=rng, dealt=dealt)
        self._device = choose_device(model.device)
        self._make, self._seed = maker(model), seed
        self._at_work = threading.Lock()
        some, labels = (each[:0].to(self._device) for each in (self._x, self._y))
        self._module = usable_module(model, some, seed)
        self._parameters = trainable(self._module)
        self._shapes = [parameter.shape for parameter in self._parameters]
        self.shape = (sum(shape.numel() for shape in self._shapes),)
        self._persons = None
        self._clipped: UnitGradients | None = None
        if protection.unit != "node":
            if protection.unit == "person":
                assert rows.persons is not None  # or they could not have been dealt
                self._persons = torch.from_numpy(np.unique(rows.persons, return_inverse=True)[1])
            self._clipped = UnitGradients(self._module, model, protection, some, labels)
        self._let_go()

    def _let_go(self) -> None:
        """Keep neither parameters nor gradients: what was lent belongs to others."""
        for parameter in self._parameters:
            parameter.data, parameter.grad = torch.empty(0, device=self._device), None

    @contextmanager
    def _lent(self, pieces: list[torch.Tensor]) -> Iterator[None]:
        """Let the module work with these parameters; on a CPU they are not copied."""
        try:
            for parameter, piece, shape in zip(self._parameters, pieces, self._shapes, strict=True):
                parameter.data = piece.view(shape).to(self._device)
            with unchanged(self._module, self.name, lent=pieces):
                yield
        finally:
            self._let_go()

    def _pieces(self, parameters: NDArray[Any]) -> list[torch.Tensor]:
        whole, sizes = torch.from_numpy(parameters), [shape.numel() for shape in self._shapes]
        return list(torch.split_with_sizes(whole, sizes))

    def initial(self) -> NDArray[Any]:
        """Return weights drawn with the run's seed."""
        fresh = drawn(self._make, self._seed)
        require_same_size(self.name, fresh, self._module, self._shapes)
        return self._usable(as_vector(fresh))

    def _gradient(self, w: NDArray[Any], turn: int, pieces: Pieces) -> list[NDArray[Any]]:
        with self._at_work:
            gradients = self._summed(self._pieces(w), *self._take(turn), pieces)
        if self._clipped is None:
            clip_(gradients, self.gradient_bound)
        return [each.numpy() for each in gradients]

    def _stepped(self, w: NDArray[Any], gradient: list[NDArray[Any]], step_size: float, ridge: float) -> NDArray[Any]:
        whole, size = torch.from_numpy(w), torch.tensor(step_size, dtype=torch.float32)
        for piece, part in zip(torch.split(whole, list(map(len, gradient))), gradient, strict=True):
            step_(piece, torch.from_numpy(part), size, ridge)
        project_(whole, self.radius)
        return w

    def _summed(
        self, split: list[torch.Tensor], rows: NDArray[Any], other: NDArray[Any] | None, pieces: Pieces
    ) -> list[torch.Tensor]:
        """Return the gradient of those pieces of a batch that there is time for, over all of its rows.

        A person is in one piece, since what is clipped is all that one contributes. The sum of all pieces is rounded
        as often as that of one batch would be.
        """
        order, starts = np.arange(len(rows)), np.arange(len(rows) + 1)
        if self._persons is not None:
            whose = self._persons[torch.from_numpy(rows)].numpy()
            order = np.argsort(whose, kind="stable")
            starts = np.append(np.flatnonzero(np.diff(whose[order], prepend=-1)), len(rows))
        total: list[torch.Tensor] | None = None
        added = 0
        for piece in pieces(len(starts) - 1):
            first, last, _ = piece.indices(len(starts) - 1)
            some = order[starts[first] : starts[last]]
            if len(some) == len(rows):
                some = np.arange(len(rows))  # all at once, in their own order
            taken = torch.from_numpy(rows[some])
            x = self._x[taken] if other is None else torch.from_numpy(np.asarray(other[some], np.float32))
            found = self._gradients(split, x, taken, len(some) / len(rows))
            added += len(some)
            if total is None:
                total = found
            else:
                for sum_, more in zip(total, found, strict=True):
                    sum_.add_(more)
        if total is None:
            raise NothingFits
        divisor = self.protection.divisor(len(rows)) if self._clipped is not None else added / len(rows)
        if divisor != 1.0:
            for sum_ in total:
                sum_.mul_(1.0 / divisor)
        return total

    def _gradients(
        self, split: list[torch.Tensor], x: torch.Tensor, rows: torch.Tensor, share: float
    ) -> list[torch.Tensor]:
        """Return `share` x the gradient of the rows' mean loss, or the sum of the clipped gradients of their units."""
        x, y = x.to(self._device), self._y[rows].to(self._device)
        with self._lent(split):
            self._module.train()
            if self._clipped is not None:
                units = None
                if self._persons is not None:
                    units = numbered_persons(self._persons[rows], len(rows), self.protection).to(self._device)
                return [_flat(each) for each in self._clipped(x, y, units=units)]
            loss = batch_loss(self._module(x), y)
            if loss.requires_grad:  # otherwise the answer depends on no parameter
                (loss if share == 1.0 else loss * share).backward()  # type: ignore[no-untyped-call] # torch's
            found = [parameter.grad for parameter in self._parameters]
        return [
            # A parameter that was not used has no gradient; it gets noise like all others.
            torch.zeros(shape.numel()) if gradient is None else _flat(gradient)
            for gradient, shape in zip(found, self._shapes, strict=True)
        ]

    def test_error(self, parameters: NDArray[Any]) -> float:
        """Return the share of wrong test rows, or the mean squared error."""
        pieces = self._pieces(self._usable(parameters))
        with self._at_work, self._lent(pieces):
            return mean_error(self._module, self._test_x, self._test_y)


def _flat(gradient: torch.Tensor) -> torch.Tensor:
    return (gradient.to_dense() if gradient.is_sparse else gradient).reshape(-1).cpu()
