"""Which values of a run file, a roster and a model all nodes must agree on, and which runs real nodes can follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..._version import __version__
from ...errors import InvalidInput
from ...schedules import RIVALS, SCHEDULES
from ..transport import PROTOCOL, Agreement

if TYPE_CHECKING:
    from ...runs import RunFile
    from ..transport import Roster

#: A node's own affair: where its files and its processor are, and what only a simulation knows.
_OWN = {
    "data": ("path", "node"),
    "model": ("device",),
    "delay": ("law", "hop_latency", "skip", "patient_every", "ready"),
    "compute": ("law", "late"),
    "privacy": ("epsilon", "delta"),
    "simulation": ("runs", "evaluate_every", "record_path"),
    "network": ("latency",),
}
_NOT_HERE = ("stragglers", *RIVALS)
#: More hops than this have a chain that is too long to be sent with every token.
MOST_STEPS = 10_000_000


def agreement_of(run: RunFile, roster: Roster, resolved: Mapping[str, Any]) -> Agreement:
    """Return what nodes with this run file, roster and model agree on.

    `resolved` has what the run file leaves open: the number of steps, the timeout, the model's type and size.
    """
    values: dict[str, Any] = {"protocol": PROTOCOL, "version": __version__, "roster": roster.digest}
    # All keys, also those that a dump leaves out as long as they are not given: who has the default must know its name.
    for section, part in run:
        if section == "column":
            # Their order is that of what a model sees; what each of them means has a key of its own, to be named.
            values["column"] = None if part is None else [entry["name"] for entry in part]
            values |= {f"column.{entry['name']}": entry for entry in part or ()}
        elif section not in _NOT_HERE:
            keys = [key for key in type(part).model_fields if key not in _OWN.get(section, ())]
            values |= {f"{section}.{key}": getattr(part, key) for key in keys}
    return Agreement(values | dict(resolved))


def require_network_run(run: RunFile, nodes: int) -> None:
    """Refuse a run file that real nodes cannot follow, in one line."""
    refused: list[tuple[str, object, str]] = []
    if run.schedule.steps is not None and not 1 <= run.schedule.steps <= MOST_STEPS:
        refused.append(("schedule.steps", run.schedule.steps, f"must be from 1 to {MOST_STEPS}"))
    if run.walking().schedule.name in RIVALS:
        passing = ", ".join(SCHEDULES)
        reason = f"has no token to pass between nodes; take one of {passing}"
        refused.append(("schedule.name", run.schedule.name, reason))
    if run.data.nodes not in (None, nodes):
        refused.append(("data.nodes", run.data.nodes, f"the roster has {nodes} nodes"))
    if run.delay.patient_every is not None:
        refused.append(("delay.patient_every", run.delay.patient_every, "is for simulations"))
    if run.network.latency is not None:
        refused.append(("network.latency", run.network.latency, "is for simulations; real hops take their time"))
    if run.stragglers != type(run.stragglers)():
        refused.append(("stragglers", "", "the section is for simulations; real nodes are late by themselves"))
    for key, given, reason in refused:
        raise InvalidInput.because(key, given, reason)


def quorum_of(run: RunFile, names: Sequence[str]) -> tuple[int, frozenset[int]]:
    """Return how many of these nodes must answer for the run to go on, and which; refuse what can never be."""
    asked, majority = run.network.quorum, len(names) // 2 + 1
    if asked is None:
        return majority, frozenset()
    if isinstance(asked, int):
        if not majority <= asked <= len(names):
            reason = f"must be from {majority}, a majority, to {len(names)}, all nodes; or a list of names"
            raise InvalidInput.because("network.quorum", asked, reason)
        return asked, frozenset()
    if not asked:
        raise InvalidInput("network.quorum", asked, "a number of nodes, or a list with the name of one at least")
    for name in asked:
        if name not in names:
            raise InvalidInput.because("network.quorum", name, f"is none of the nodes: {', '.join(names)}")
    return majority, frozenset(names.index(name) for name in asked)
