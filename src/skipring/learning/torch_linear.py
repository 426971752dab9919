"""Updates of a linear model with PyTorch, for a GPU: a twin of `reference` in single precision, for wide models.

It is for simulations: noise may be finer than the numbers that it is added to, so no epsilon of a real run rests on it.
A row of thousands of features is work for a matrix library. The rows lie on the device once; an update takes a range of
them, or some by their numbers, and nobody waits for the device before metrics are asked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .._arrays import AnyInts, Floats
from .linear import LinearModel
from .torch_update import project_

Labelled = tuple[Floats, NDArray[Any]]
_TEST_CHUNK = 4096


class LinearToken:
    """A linear model and all rows, on a device, for simulations only: nothing that it computes is to be released.

    It adds up a batch, and its noise, in single precision, in an order that the device chooses. So one record may move
    a sum by more than its share. Nodes use `LinearLearner`, in double precision. See `skipring.learning.reference` for
    what an update is.
    """

    def __init__(self, model: LinearModel, train: Labelled, test: Labelled, *, device: torch.device) -> None:
        self._model, self._device = model, device
        (self._x, self._y), self._test = self._rows(*train), self._rows(*test)
        # Squares of what is shorter vanish: such a row is taken to be as long as that, which clips it all the more.
        self._norms = torch.linalg.vector_norm(self._x, dim=1).clamp(min=1e-18)
        self._shape = (model.loss.scores(model.classes), model.features)
        self._w = torch.zeros(self._shape, device=device)
        self._noise, self._std = torch.Generator(device), 0.0

    def _rows(self, x: NDArray[Any], y: NDArray[Any]) -> tuple[torch.Tensor, torch.Tensor]:
        kind = np.float32 if len(self._model.shape) == 1 else np.int64
        # A copy where rows are mapped from a file, which torch must not write to, and does not.
        rows = torch.from_numpy(np.require(x, np.float32, ["C", "W"])).to(self._device)
        return rows, torch.from_numpy(np.asarray(y, kind)).to(self._device)

    def begin(self, seed: int, noise_std: float) -> LinearToken:
        """Begin again at 0, with fresh noise of this deviation."""
        self._w.zero_()
        self._noise.manual_seed(seed)
        self._std = noise_std
        return self

    def update(self, rows: slice | AnyInts, divisor: int, step_size: float) -> None:
        """Take one step: the sum of the rows' clipped gradients over `divisor`, noise, ridge and projection."""
        chosen = rows if isinstance(rows, slice) else torch.from_numpy(rows)
        gradient = self._gradient(self._x[chosen], self._y[chosen], self._norms[chosen]).div_(divisor)
        self._step(gradient, step_size, self._model.ridge)

    def close(self, step_size: float) -> None:
        """Add the noise of an update and nothing else, and project."""
        self._step(torch.zeros_like(self._w), step_size, 0.0)

    def _step(self, gradient: torch.Tensor, step_size: float, ridge: float) -> None:
        if self._std > 0.0:
            gradient.add_(torch.randn(self._shape, generator=self._noise, device=self._device), alpha=self._std)
        self._w.mul_(1.0 - step_size * ridge).sub_(gradient, alpha=step_size)
        project_(self._w.view(-1), self._model.radius)

    def _gradient(self, x: torch.Tensor, y: torch.Tensor, norms: torch.Tensor) -> torch.Tensor:
        model = self._model
        slopes = model.loss.slopes(self._scores(x), y, norms, model.gradient_bound)
        return slopes.reshape(len(x), self._shape[0]).T @ x

    def _scores(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of rows; one of each row without a dimension of its own."""
        return (x @ self._w.T).reshape(len(x), *self._model.shape[:-1])

    def metrics(self) -> tuple[float, float]:
        """Return test error and mean loss."""
        rows = len(self._test[1])
        wrong = torch.zeros((), dtype=torch.float64, device=self._device)
        loss = torch.zeros_like(wrong)
        for start in range(0, rows, _TEST_CHUNK):
            x, y = (part[start : start + _TEST_CHUNK] for part in self._test)
            scores = self._scores(x).double()
            wrong += self._model.loss.errors(scores, y).sum()
            loss += self._model.loss.values(scores, y).sum()
        return float(wrong) / rows, float(loss) / rows

    def parameters(self) -> NDArray[np.float64]:
        """Return a copy of the parameters, one vector."""
        return self._w.double().cpu().numpy().ravel()
