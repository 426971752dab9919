"""The account of an order that all know before the run, where nobody is skipped."""

from __future__ import annotations

import numpy as np

from .._arrays import Floats
from ..schedules import KnownOrder
from ._step_sizes import falls
from .record import PlannedRun
from .transcript import Transcript, TranscriptAccountant


class _PassedOn(TranscriptAccountant):
    """Nobody is skipped, but each observer looks at its turns and passes the token on unchanged.

    Updates are numbered without the observer's, so later step sizes are larger. What it learns falls with each update
    that it makes (docs/privacy.md, "Orders by design"), so no other behaviour tells it more. Its own updates stay in
    the chain, alone between two looks of its own, where they tell nothing about others.
    """

    def _rows(self, first: int, last: int) -> Floats:
        """Return mu^2 for observers first..last-1 (rows) and all targets."""
        looks, start = self.transcript.looks()
        out = np.empty((last - first, self.transcript.nodes))
        for place, observer in enumerate(range(first, last)):
            counted = self._updaters != observer
            steps = 1.0 / np.sqrt(1.0 + np.cumsum(counted) - counted)
            out[place] = self._of_nodes(self._looked(looks, start, observer, observer + 1, steps))[0]
            out[place, observer] = 0.0
        return out


def exact_account(run: PlannedRun, order: KnownOrder, parts: int) -> TranscriptAccountant:
    """Return the account of a run in which nobody is skipped; one release has mu = 1, so that mu^2 is the leakage."""
    path = order.whole_path
    numbers = np.arange(1.0, len(path) + 1.0)
    account = TranscriptAccountant if run.outside or not falls(run.step_size) else _PassedOn
    return account(
        Transcript(
            nodes=run.nodes,
            offered=path,
            updated=np.ones(len(path), dtype=np.bool_),
            step_sizes=1.0 / np.sqrt(numbers) if falls(run.step_size) else 1.0,
            noise_multiplier=2.0,
            against="outsider" if run.outside else "node",
            parts=parts,
            protects=run.protects,
            closing=len(order.closing),
        )
    )
