"""What a run that hides records or persons promises for all data of a node: mostly nothing, which must be visible."""

from __future__ import annotations

from ..privacy import PlannedRun, StatedEpsilon, forecast, whole_node
from .setup import Setup


def node_epsilon(setup: Setup, run: PlannedRun, delta: float) -> StatedEpsilon | None:
    """Return what holds for all data of a node, where less than that is protected."""
    if setup.protection.unit == "node":
        return None
    node = whole_node(run, setup.most_units)
    if node is None:
        return StatedEpsilon(refused="there is far too little noise for it")
    return StatedEpsilon(epsilon=forecast(node).epsilon(delta))
