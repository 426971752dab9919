"""Runs of a neural network: the same walk, one update at a time with PyTorch; a GPU takes a few runs side by side.

The first weights of run `number`, which counts from 0, are those of real nodes whose `simulation.seed` is larger by
`number`. The first run begins where the nodes of the same run file do, and every run elsewhere. Noise, batches and the
path come from the run's own streams (`Setup.streams`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from queue import SimpleQueue
from typing import TYPE_CHECKING

import numpy as np

from .._arrays import times_before
from ..learning import Batches, NeuralModel, require_torch
from .setup import Hops, Interrupted, Learned, Setup

if TYPE_CHECKING:
    import torch

    from ..learning import NeuralToken

_SIDE_BY_SIDE = 3


class NeuralRuns:
    """The network and the data on their device, shared by all runs of a setup (a CUDA graph is recorded once)."""

    def __init__(self, setup: Setup) -> None:
        model = setup.model
        assert isinstance(model, NeuralModel)
        require_torch(model.name)
        from ..learning import (
            Hardware,
            NeuralToken,
            choose_device,
            maker,
            rows_for,
            usable_module,
        )

        device = choose_device(model.device)
        x, y = rows_for(model, setup.data.features, setup.data.labels, "training")
        test_x, test_y = rows_for(model, setup.test_x, setup.test_y, "test")
        self._make = maker(model)
        # As numbers, also where all are whole shades of grey: bytes are rounded in another way, and every single image
        # would decide whether there can be bytes.
        x, y, self._test = _laid_out(x.to(device)), y.to(device), (_laid_out(test_x.to(device)), test_y.to(device))
        # A function's module may do what no graph can record, and draw from the generator that all threads share. It is
        # computed one operation after the other and one run after the other, in single precision, as at a node.
        self._own = model.is_function
        batch = _rows_of_all_updates(setup)
        hardware = Hardware(device=device, batch=batch) if self._own else Hardware.fastest(device, batch)
        #: How many runs go on at once. One run's small layers leave most of a GPU idle; a CPU is busy with one.
        self.parallel = _SIDE_BY_SIDE if device.type == "cuda" and not self._own else 1
        self._device = device
        self._tokens: SimpleQueue[NeuralToken] = SimpleQueue()
        for _ in range(self.parallel):
            token = NeuralToken(
                model,
                usable_module(model, x, setup.run.simulation.seed),
                x,
                y,
                protection=setup.protection,
                hardware=hardware,
            )
            token.prepare()  # here, one after another: compiling is not made for several threads
            self._tokens.put(token)

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU draws the noise."""
        return self._device.type == "cuda"

    def run(
        self, setup: Setup, number: int, rng: np.random.Generator, hops: Hops, stopped: Callable[[], bool]
    ) -> Learned:
        """Walk the token along a path; losses are not computed (nan).

        A walk of minutes looks at every hop whether it is `stopped`.
        """
        import torch

        from ..learning import drawing

        token, seed = self._tokens.get(), int(rng.integers(2**31))
        # The module of a function may draw from torch's own generators.
        drawn = drawing(self._device, seed) if self._own else nullcontext()
        try:
            with torch.cuda.stream(token.stream), drawn:  # nothing happens where there is no stream
                return self._walk(token, setup, number, rng, hops, stopped, seed)
        finally:
            self._tokens.put(token)

    def _walk(
        self,
        token: NeuralToken,
        setup: Setup,
        number: int,
        rng: np.random.Generator,
        hops: Hops,
        stopped: Callable[[], bool],
        seed: int,
    ) -> Learned:
        import torch

        # PyTorch's generator begins with 32 bits on a CPU: few enough to try them all.
        noise_of = rng if setup.secret and not self.on_gpu else None
        token.restart(self._make, setup.run.simulation.seed + number, noise_seed=seed, noise=noise_of)
        noise = setup.protection.noise_std(setup.model, setup.noise_multiplier)
        sizes = setup.step_sizes.first(setup.hops)
        start = setup.data.start
        sizes_and_parts = zip(setup.data.sizes, setup.parts, strict=True)
        batches = [Batches(int(rows), setup.protection, rng, parts=parts) for rows, parts in sizes_and_parts]
        turns = times_before(hops.path)
        errors, updates, done = [], [], 0
        for hop, node in enumerate(hops.path):
            if stopped():
                raise Interrupted(f"run {number} was stopped at hop {hop}")
            if hop % setup.run.simulation.evaluate_every == 0:
                errors.append(token.error(*self._test))
                updates.append(done)
            if not hops.updated[hop]:
                continue
            rows = int(start[node]) + batches[node].take(int(turns[hop]))
            if len(hops.fewer) and hops.fewer[hop, 0] < len(rows):
                most, begin = hops.fewer[hop]
                rows = rows[(begin + np.arange(most)) % len(rows)]
            whose = None if setup.data.persons is None else torch.from_numpy(setup.data.persons[rows])
            token.update(torch.from_numpy(rows), whose, step_size=float(sizes[done]), noise_std=noise)
            done += 1
        errors.append(token.error(*self._test))
        updates.append(done)
        vector = token.parameters().astype(np.float64)
        return Learned(np.array(errors), np.full(len(errors), np.nan), np.array(updates, dtype=np.int64), vector)


def _rows_of_all_updates(setup: Setup) -> int | None:
    """Return how many rows an update takes, if that is the same for all of them; None if not."""
    protection, sizes, lateness = setup.protection, setup.data.sizes, setup.lateness
    if protection.unit != "node":  # a part that is not full is filled up with rows that do not count
        return max(len(part) for parts in setup.parts for part in parts)
    # Where a deadline may leave any number of rows, no graph can be recorded for a node's mean.
    if lateness.compute is not None and lateness.late == "fewer-rows":
        return None
    return protection.batch or (int(sizes.min()) if sizes.min() == sizes.max() else None)


def _laid_out(rows: torch.Tensor) -> torch.Tensor:
    """Return images as tokens keep them, so that none of them makes a copy of its own: pixel by pixel."""
    import torch

    return rows.contiguous(memory_format=torch.channels_last) if rows.dim() == 4 else rows
