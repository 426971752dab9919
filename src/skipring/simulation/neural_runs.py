"""Runs of a neural network: the same walk, one update at a time with PyTorch; runs come one after another."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInput
from ..learning.networks import NeuralModel

if TYPE_CHECKING:
    from .engine import Setup

__all__ = ["NeuralRuns"]

Floats = NDArray[np.floating[Any]]


class NeuralRuns:
    """The network and the data on their device, shared by all runs of a setup (a CUDA graph is recorded once)."""

    def __init__(self, setup: Setup) -> None:
        try:
            import torch as imported  # an optional dependency
            from torch.nn.functional import cross_entropy
        except ImportError:
            raise InvalidInput.because("model", "cnn", "needs PyTorch: pip install skipring[torch]") from None
        from ..learning.neural import NeuralToken, paper_cnn

        model = setup.model
        assert isinstance(model, NeuralModel)
        torch: Any = imported  # parts of it carry no types
        self._torch = torch
        device = model.device
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        elif device.startswith("cuda") and not torch.cuda.is_available():
            raise InvalidInput.because("model.device", device, "there is no GPU that PyTorch can use")
        self._batch = setup.batch if setup.batch is not None else int(setup.data.sizes.min())
        if setup.batch is None and int(setup.data.sizes.max()) != self._batch:
            raise InvalidInput.because("batch", "missing", "nodes have different numbers of rows; give a batch")
        self._make: Callable[[], Any] = partial(paper_cnn, model.network)
        self._test = (self._images(setup.test_x, model), torch.as_tensor(setup.test_y, dtype=torch.int64))
        self._token = NeuralToken(
            self._make(),
            cross_entropy,
            self._images(setup.data.features, model),
            torch.as_tensor(np.asarray(setup.data.labels), dtype=torch.int64),
            batch=self._batch,
            gradient_bound=model.clip,
            diameter=model.diameter,
            device=device,
        )

    def _images(self, rows: Floats, model: NeuralModel) -> Any:
        """Return rows in [0, 1], pixel by pixel, as images in [-1, 1] with the colours first."""
        colours, height, width = model.image_shape
        images = np.asarray(rows, dtype=np.float32).reshape(-1, height, width, colours)
        return self._torch.from_numpy(2.0 * np.ascontiguousarray(images.transpose(0, 3, 1, 2)) - 1.0)

    def run(
        self, setup: Setup, rng: np.random.Generator, path: NDArray[np.integer[Any]], ready: NDArray[np.bool_]
    ) -> tuple[Floats, Floats, NDArray[np.int64], Floats]:
        """Walk the token along a path; return test errors, losses (not computed: nan), updates and the last model."""
        torch, token = self._torch, self._token
        token.restart(self._make, int(rng.integers(2**31)))
        noise = setup.noise_multiplier * setup.model.gradient_bound
        sizes = setup.step_sizes.first(setup.steps)
        start = setup.data.start
        errors, updates, done = [], [], 0
        for hop, node in enumerate(path):
            if hop % setup.evaluate_every == 0:
                errors.append(token.error(*self._test))
                updates.append(done)
            if not ready[hop]:
                continue
            low, high = int(start[node]), int(start[node + 1])
            rows = low + rng.permutation(high - low)[: self._batch]
            token.update(torch.from_numpy(rows), step_size=float(sizes[done]), noise_std=noise)
            done += 1
        errors.append(token.error(*self._test))
        updates.append(done)
        vector = token.vector.detach().cpu().numpy().astype(np.float64)
        return np.array(errors), np.full(len(errors), np.nan), np.array(updates, dtype=np.int64), vector
