"""Runs of linear models with few features: compiled loops, which go through a batch row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..learning import LinearModel
from .layout import LaidOut, laid_out
from .setup import Hops, Learned, Setup


class CompiledRuns:
    """What all runs of a linear model share, in the layout that compiled functions want.

    Setups that differ in length, step sizes or noise alone share it, too: those are in a run's `rule`.
    """

    #: Whether a GPU draws the noise.
    on_gpu = False

    def __init__(self, setup: Setup) -> None:
        from ..learning import _compiled as compiled  # numba is loaded only where it is needed

        model = setup.model
        assert isinstance(model, LinearModel)
        rows, protection = laid_out(setup), setup.protection
        longest = int(np.diff(rows.start).max())
        batch = protection.batch or longest if protection.unit == "node" else longest
        self.rows = compiled.examples_of(model, rows.x, rows.y, rows.start, batch, rows.first)
        self.model = compiled.compiled_model(model, self.rows.x)
        self.test = compiled.tests_of(model, setup.test_x, setup.test_y)
        self.layout = LaidOut(self.rows.x, self.rows.y, self.rows.start, self.rows.first)

    def rule(self, setup: Setup) -> Any:
        """Return what an update does with a gradient."""
        from ..learning import _compiled as compiled

        assert isinstance(setup.model, LinearModel)
        sizes = setup.step_sizes.first(setup.hops)
        return compiled.update_rule(setup.model, setup.protection, sizes, setup.noise_multiplier)

    def metrics(self, setup: Setup) -> Any:
        """Return where a run writes its errors, losses and numbers of updates."""
        from ..learning import _compiled as compiled

        points = len(setup.points)
        every = setup.run.simulation.evaluate_every
        return compiled.RunMetrics(every, np.empty(points), np.empty(points), np.empty(points, np.int64))

    def run(
        self, setup: Setup, number: int, rng: np.random.Generator, hops: Hops, stopped: Callable[[], bool]
    ) -> Learned:
        """Walk the token along a path, which takes too little time to be stopped."""
        from ..learning import _compiled as compiled
        from ._kernel import WALK

        model = setup.model
        assert isinstance(model, LinearModel)
        metrics, w = self.metrics(setup), np.zeros(model.parameters)
        room = compiled.scratch_for(model, self.rows, self.test)
        parts = self.layout.parts_of(hops.path, setup.closing)
        how = self.model, self.rows, self.rule(setup), parts, hops.updated, hops.fewer, self.test
        WALK(rng, *how, room, w, metrics)
        return Learned(metrics.errors, metrics.losses, metrics.updates, w)
