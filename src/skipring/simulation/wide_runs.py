"""Runs of linear models with many features: the same walk, each update a few matrix products.

Compiled loops go through a batch row by row, which is best as long as rows are short. From thousands of features on, a
matrix library is quicker: numpy's in double precision, or PyTorch's on a GPU in single precision, if there is one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import Floats
from ..learning import Batches, LinearModel, reference
from ..schedules import Schedule
from .layout import laid_out
from .setup import Hops, Interrupted, Learned, Setup

if TYPE_CHECKING:
    from ..learning import LinearToken

#: Numbers of a batch (rows x features x outputs) from which matrix products are quicker (benchmarks/wide.py).
_MANY = 1_000_000


def is_wide(setup: Setup) -> bool:
    """Say whether a run is quicker with matrix products."""
    model = setup.model
    if not isinstance(model, LinearModel) or not isinstance(setup.schedule, Schedule):
        return False
    batch = min(setup.protection.batch or int(setup.data.sizes.max()), int(setup.data.sizes.max()))
    return batch * model.parameters >= _MANY


class WideRuns:
    """The rows of a setup, part by part, shared by all of its runs; on a GPU one run goes on at a time."""

    def __init__(self, setup: Setup) -> None:
        model = setup.model
        assert isinstance(model, LinearModel)
        self._rows = self.layout = laid_out(setup)
        self._token: LinearToken | None = None
        self._lock = threading.Lock()
        if model.loss.on_device and (device := _gpu(setup.run.model.device)) is not None:
            from ..learning import LinearToken  # PyTorch is loaded only where it is needed

            rows, test = (self._rows.x, self._rows.y), (setup.test_x, setup.test_y)
            self._token = LinearToken(model, rows, test, device=device)
        else:
            self._norms = reference.row_norms(self._rows.x)

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU draws the noise."""
        return self._token is not None

    def run(
        self, setup: Setup, number: int, rng: np.random.Generator, hops: Hops, stopped: Callable[[], bool]
    ) -> Learned:
        """Walk the token along a path. A walk of minutes looks at every hop whether it is `stopped`."""
        if self._token is None:
            return self._walk(setup, number, rng, hops, stopped, _Plain(setup, self, rng))
        std = setup.protection.noise_std(setup.model, setup.noise_multiplier)
        with self._lock:
            return self._walk(setup, number, rng, hops, stopped, self._token.begin(int(rng.integers(2**31)), std))

    def _walk(
        self,
        setup: Setup,
        number: int,
        rng: np.random.Generator,
        hops: Hops,
        stopped: Callable[[], bool],
        steps: _Plain | LinearToken,
    ) -> Learned:
        rows, protection, fewer = self._rows, setup.protection, hops.fewer
        sizes = setup.step_sizes.first(setup.hops)
        drawn: dict[int, Batches] = {}
        metrics, updates, done = [], [], 0
        for hop, part in enumerate(rows.parts_of(hops.path, setup.closing)):
            if stopped():
                raise Interrupted(f"run {number} was stopped at hop {hop}")
            if hop % setup.run.simulation.evaluate_every == 0:
                metrics.append(steps.metrics())
                updates.append(done)
            if not hops.updated[hop]:
                continue
            if part < 0:
                steps.close(float(sizes[done]))
                done += 1
                continue
            low, high = int(rows.start[part]), int(rows.start[part + 1])
            taken: slice | NDArray[Any] = slice(low, high)
            if protection.unit == "node" and protection.batch is not None and protection.batch < high - low:
                batches = drawn.setdefault(int(part), Batches(high - low, protection, rng))
                taken = low + batches.take(0)
            if len(fewer) and fewer[hop, 0] < high - low:
                most, begin = fewer[hop]
                taken = low + (begin + np.arange(most)) % (high - low) if isinstance(taken, slice) else taken[:most]
            count = taken.stop - taken.start if isinstance(taken, slice) else len(taken)
            steps.update(taken, protection.divisor(count), float(sizes[done]))
            done += 1
        metrics.append(steps.metrics())
        updates.append(done)
        errors, losses = np.array(metrics).T
        return Learned(errors, losses, np.array(updates, dtype=np.int64), steps.parameters())


class _Plain:
    """A run in double precision, with numpy."""

    def __init__(self, setup: Setup, shared: WideRuns, rng: np.random.Generator) -> None:
        assert isinstance(setup.model, LinearModel)
        self._setup, self._model, self._rows, self._norms = setup, setup.model, shared._rows, shared._norms
        self._std = setup.protection.noise_std(setup.model, setup.noise_multiplier)
        self._rng = rng
        self._w: Floats = np.zeros(setup.model.parameters)

    def update(self, rows: slice | NDArray[Any], divisor: int, step_size: float) -> None:
        """Take one step."""
        x, y, norms = self._rows.x[rows], self._rows.y[rows], self._norms[rows]
        self._step(reference.gradient(self._model, self._w, x, y, divisor, norms), step_size, self._model.ridge)

    def close(self, step_size: float) -> None:
        """Add noise alone."""
        self._step(np.zeros_like(self._w), step_size, 0.0)

    def _step(self, gradient: Floats, step_size: float, ridge: float) -> None:
        if self._std > 0.0:
            gradient += self._std * self._rng.standard_normal(len(gradient))
        self._w = reference.stepped(self._model, self._w, gradient, step_size, ridge)

    def metrics(self) -> tuple[float, float]:
        """Return test error and mean loss."""
        x, y = self._setup.test_x, self._setup.test_y
        return reference.test_error(self._model, self._w, x, y), reference.mean_loss(self._model, self._w, x, y)

    def parameters(self) -> Floats:
        """Return the model."""
        return self._w


def _gpu(asked: str) -> Any:
    """Return the GPU that is meant; None if there is none, or none is wanted."""
    if asked == "cpu":
        return None
    try:
        from ..learning import choose_device  # PyTorch is an optional dependency
    except ImportError:
        return None
    device = choose_device(asked)
    return device if device.type == "cuda" else None
