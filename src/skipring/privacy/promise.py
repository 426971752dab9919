"""What a run promises before it happens: against another node, an outsider and all others, and for a whole node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from .accountant import Guarantee
from .calibrate import RunAccountant
from .forecast import Forecast, forecast
from .laps_accountant import LapsAccountant
from .orders import FixedRing
from .record import Members, Outsider, PlannedRun, whole_node


def promise(account: RunAccountant, delta: float, *, units: int | None = 1, epsilon: float | None = None) -> Guarantee:
    """Return what a run promises at a delta. A forecast also says what holds against others, and for a whole node.

    `units` is the most records or persons of an update, None where nobody said; `epsilon` one that is known to be kept.
    """
    if isinstance(account, LapsAccountant):
        return account.guarantee(delta, epsilon, units=units)
    first = account.guarantee(delta, epsilon)
    if not isinstance(account, Forecast) or delta >= 1.0:
        return first
    return replace(first, also=tuple(_further(account.run, first, units)))


def _further(run: PlannedRun, first: Guarantee, units: int | None) -> Iterator[Guarantee]:
    if isinstance(run.observer, Members):
        order = replace(run.order, distance=None, position=None) if isinstance(run.order, FixedRing) else run.order
        outsider = forecast(replace(run, order=order, observer=Outsider())).guarantee(first.delta)
        placed = isinstance(run.order, FixedRing) and run.order.position is not None
        if not placed and first.epsilon is not None and outsider.epsilon is not None:
            # Members are shown the final model as well, so what holds against them holds here.
            outsider = replace(outsider, epsilon=min(first.epsilon, outsider.epsilon))
        yield outsider
        if run.observer.observers < run.nodes - 1:
            yield forecast(replace(run, order=order, observer=Members(observers=run.nodes - 1))).guarantee(first.delta)
    if run.protects != "node":
        whole = None if units is None else whole_node(run, units)
        if whole is not None:
            yield forecast(whole).guarantee(first.delta)
            return
        reason = "how many rows an update has is not said" if units is None else "there is far too little noise for it"
        yield replace(first, protects="node", epsilon=None, refused=reason)
