"""Runs of a neural network: the same walk, one update at a time with PyTorch; a GPU takes a few runs side by side."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInput
from ..learning.networks import NeuralModel

if TYPE_CHECKING:
    from .setup import Setup

__all__ = ["NeuralRuns"]

Floats = NDArray[np.floating[Any]]
_SIDE_BY_SIDE = 3


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
        self._test = (
            self._images(setup.test_x, model).to(device),
            torch.as_tensor(setup.test_y, dtype=torch.int64).to(device),
        )
        images = self._images(setup.data.features, model).to(device)
        labels = torch.as_tensor(np.asarray(setup.data.labels), dtype=torch.int64).to(device)
        #: How many runs go on at once. One run's small layers leave most of a GPU idle; a CPU is busy with one.
        self.parallel = _SIDE_BY_SIDE if device.startswith("cuda") else 1
        self._tokens: SimpleQueue[Any] = SimpleQueue()
        for _ in range(self.parallel):
            token = NeuralToken(
                self._make(),
                cross_entropy,
                images,
                labels,
                batch=self._batch,
                gradient_bound=model.clip,
                diameter=model.diameter,
                device=device,
            )
            token.prepare()  # here, one after another: compiling is not made for several threads
            self._tokens.put(token)

    def _images(self, rows: Floats, model: NeuralModel) -> Any:
        """Return rows in [0, 1], pixel by pixel, as images with the colours first: bytes, or numbers in [-1, 1]."""
        colours, height, width = model.image_shape
        values = np.asarray(rows, dtype=np.float32).reshape(-1, height, width, colours)
        images = np.ascontiguousarray(values.transpose(0, 3, 1, 2))
        grey = np.rint(255.0 * images)
        if np.abs(255.0 * images - grey).max(initial=0.0) < 1e-3 and 0.0 <= grey.min() <= grey.max() <= 255.0:
            return self._torch.from_numpy(grey.astype(np.uint8))  # a quarter of the memory to gather from
        return self._torch.from_numpy(2.0 * images - 1.0)

    def run(
        self, setup: Setup, rng: np.random.Generator, path: NDArray[np.integer[Any]], ready: NDArray[np.bool_]
    ) -> tuple[Floats, Floats, NDArray[np.int64], Floats]:
        """Walk the token along a path; return test errors, losses (not computed: nan), updates and the last model."""
        token = self._tokens.get()
        try:
            with self._torch.cuda.stream(token.stream):  # nothing happens where there is none
                return self._walk(token, setup, rng, path, ready)
        finally:
            self._tokens.put(token)

    def _walk(
        self,
        token: Any,
        setup: Setup,
        rng: np.random.Generator,
        path: NDArray[np.integer[Any]],
        ready: NDArray[np.bool_],
    ) -> tuple[Floats, Floats, NDArray[np.int64], Floats]:
        torch = self._torch
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
