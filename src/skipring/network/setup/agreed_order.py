"""The order of a run that all nodes agree on: drawn from its seed, or designed for its nodes and length."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from ...errors import InvalidInput
from ...runs import RunFile, designed_ring_of
from ...schedules import DesignedRing, KnownOrder, schedule_kind, usual_search
from ..protocol import agreed_path


@dataclass(frozen=True)
class RunOrder:
    """The node of each hop of a run, and how many of the last hops add noise alone.

    Parameters
    ----------
    path : the node of each hop, the closing ones included.
    closing : how many hops at the end carry no data.
    """

    path: tuple[int, ...]
    closing: int = 0

    @property
    def digest(self) -> str:
        """SHA-256 of it, so that all nodes can see that they have found the same."""
        return hashlib.sha256(np.asarray((self.closing, *self.path), dtype="<u4").tobytes()).hexdigest()

    def known(self, nodes: int) -> KnownOrder | None:
        """Return it as forecasts take it; None if it is not one of whole rounds."""
        steps = len(self.path) - self.closing
        try:
            return KnownOrder(nodes, self.path[:steps], self.path[steps:])
        except InvalidInput:
            return None


def order_of(run: RunFile, nodes: int, steps: int) -> RunOrder:
    """Return the order of a run of `steps`, drawn from the run's seed, or designed with it.

    A design is looked for with sums, products and quotients alone, so that it, too, is the same on every machine. That
    all nodes have found the same one is part of what they agree on.
    """
    if run.schedule.name == DesignedRing.name:
        order = designed_ring_of(run, nodes, steps).order(steps)
        return RunOrder(tuple(order.whole_path.tolist()), len(order.closing))
    seed = f"skipring order {run.simulation.seed}".encode()
    return RunOrder(tuple(agreed_path(run.schedule.name, nodes, steps, seed)))


def with_designed_order(run: RunFile, nodes: int) -> RunFile:
    """Return the run with an order by design, where its file names no schedule and there is such an order.

    With two nodes there is one order only, and a design is of whole rounds.
    """
    if "name" in run.schedule.model_fields_set or nodes < 3:
        return run
    if run.schedule.steps is not None and run.schedule.steps % nodes:
        return run
    return run.having(schedule={"name": DesignedRing.name})


def in_whole_rounds(run: RunFile, nodes: int) -> RunFile:
    """Return the run with as many steps as whole rounds of `nodes` have, and no more than were asked for.

    One round is the least. A walk has no rounds, and steps that are not given follow from the number of nodes.
    """
    steps = run.schedule.steps
    if steps is None or steps % schedule_kind(run.schedule.name).unit(nodes) == 0:
        return run
    whole = max(steps // nodes, 1) * nodes
    return run.having(schedule={"steps": whole})


def written_down(run: RunFile, nodes: int, steps: int) -> dict[str, int]:
    """Return what decides a designed order, beside its seed, with nothing left open; nothing where none is designed."""
    if run.schedule.name != DesignedRing.name:
        return {}
    ring = designed_ring_of(run, nodes, steps)
    return {"closing": ring.closing, "search": usual_search(nodes) if ring.search is None else ring.search}
