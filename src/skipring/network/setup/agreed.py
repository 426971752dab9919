"""A run file with nothing left open, for all nodes to share: what each computed for itself might differ."""

from __future__ import annotations

import contextlib
import dataclasses
import math

import numpy as np

from ..._arrays import Floats
from ...errors import InvalidInput
from ...privacy import OwnTranscript, Transcript, TranscriptAccountant, calibrate, forecast, gdp_mu, planned_run
from ...runs import (
    FLOOR,
    Known,
    ResolvedRun,
    RunFile,
    SimulationSection,
    by_key,
    dataset_of,
    dealt_rows,
    delta_notes,
    epsilon_of,
    no_noise,
    not_covered,
    protection_of,
    require_own_scales,
    resolve,
    rows_notes,
    toml_value,
    turns_per_node,
    units_of_nodes,
    usual_batch,
)
from ...schedules import schedule_kind
from ...timeouts import skip_probability
from ..node import NodeBudget, require_shared_data
from .agreed_order import RunOrder, order_of, written_down
from .agreed_values import require_network_run

#: So much more noise than the budget asks for: what a node adds for rounding must not cost it its last update.
_SPARE = 1.0 + 1e-7
#: Beyond this number of hops times nodes a bound takes the place of each node's own account.
_MOST_COUNTED = 1_000_000


def agreed_run(run: RunFile, nodes: int, identity: str | None = None) -> RunFile:
    """Return the run with its steps, timeout, noise and model written down.

    Nodes learn how long to wait unless the file says it in seconds. Data is looked at only if the run file does not
    name a model, or how many rows an update takes where records or persons are protected. The `identity` tells this run
    from every other, also of the same people with the same file; see `new_identity`.
    """
    run = run.walking()
    require_network_run(run, nodes)
    run = _with_batch(run, nodes)
    known = Known()
    if run.model.name is None:
        classes = dataset_of(run).classes if run.table is None else run.table.classes
        # What the model is called follows from the labels; a bound of theirs must not. How many features an encoder
        # makes of the columns does not matter for it.
        known = Known(None, len(classes))
    resolved = resolved_run(run, nodes, known)
    if resolved.timeout is not None and run.delay.floor is not None:
        reason = 'only a timeout that is learned has a floor (delay.timeout = "adaptive")'
        raise InvalidInput.because("delay.floor", run.delay.floor, reason)
    delay: dict[str, object] = {"skip": None, "timeout": "adaptive", "floor": run.delay.floor or FLOOR}
    if resolved.timeout is not None:
        delay |= {"timeout": _finite(resolved.timeout), "floor": None}
    if (run.delay.law or "").startswith(("trace:", "empirical:")):
        delay["law"] = None  # what follows from it is written down; nodes need not have the file
    designed = written_down(run, nodes, resolved.steps)
    noise = {"epsilon": None, "delta": run.privacy.delta, "noise_multiplier": resolved.noise_multiplier}
    agreed = run.having(
        data={"nodes": nodes},
        model={} if resolved.model is None or run.model.name is not None else {"name": resolved.model.name},
        schedule={"name": run.schedule.name, "steps": resolved.steps, **designed},
        delay=delay,
        privacy={"protects": run.privacy.protects, **noise},
        network={} if identity is None else {"identity": identity},
    )
    return agreed.model_copy(update={"simulation": SimulationSection(seed=run.simulation.seed)})


def notes_on(run: RunFile, nodes: int) -> tuple[str, ...]:
    """Say of an agreed run that there is no noise, what no epsilon covers, and which rows go to waste.

    Of nodes' own files nothing is known; each node says of them what there is to say when it starts.
    """
    notes = [said for said in (no_noise(run), short_timeout(run)) if said is not None]
    if run.compute.law is not None:
        notes.append("compute.law is for simulations: nodes compute for as long as it takes them")
    if run.privacy.protects == "node":
        notes += delta_notes(run, nodes)
    if has_own_files(run):  # nobody knows how many rows there are
        return (*notes, *(delta_notes(run, nodes, at_least=True) if run.privacy.protects != "node" else ()))
    protection = protection_of(run)
    if protection is not None and protection.unit != "node":
        # How many rows each node has does not depend on their features, which may take minutes.
        plain = run.having(model={"features": "none"})
        with contextlib.suppress(InvalidInput):  # the data may be elsewhere; nodes say what is wrong with it
            owned = dealt_rows(plain, usual_nodes=nodes)[2]
            units, turns = units_of_nodes(owned, protection), turns_per_node(nodes, resolved_run(run, nodes).steps)
            notes += rows_notes(protection, max(units), turns) + delta_notes(run, sum(units))
    if (shared := not_covered(run)) is not None:
        notes.append(f"unless nodes have files of their own, {shared}")
    return tuple(notes)


def has_own_files(run: RunFile) -> bool:
    """Say whether a run file is for nodes with files of their own: it says what nobody can look up."""
    return run.model.classes is not None or run.model.columns is not None or run.model.label_bound is not None


def short_timeout(run: RunFile) -> str | None:
    """Say so where real nodes are to wait for less than any that learns it would; None where they are not.

    A timeout that suits a simulation's law skips real nodes that would have been ready soon.
    """
    timeout = run.delay.timeout
    if not isinstance(timeout, float) or timeout >= FLOOR:
        return None
    return (
        f"nodes wait for each other no longer than delay.timeout = {timeout:.4g} s, and nodes that learn it wait at"
        f' least {FLOOR:g} s: many turns may be skipped; say "adaptive", or more seconds'
    )


def without_shared_file(run: RunFile) -> RunFile:
    """Return a run for nodes that all have files of their own: where the file of a simulation is, is nobody's business.

    Nodes do not agree on it, and other owners would see a path of the machine where the run was prepared.
    """
    if run.data.path is None or not has_own_files(run):
        return run
    return run.having(data={"path": None})


def require_data(run: RunFile) -> None:
    """Refuse a run of which nobody has said what nodes learn from: a data set, a file, or files of their own."""
    if not has_own_files(run):
        require_shared_data(run)


def _with_batch(run: RunFile, nodes: int) -> RunFile:
    """Return the run with the batch that all agree on: if it is not given, the rows of the largest node.

    How many rows a node has is public where nodes share a data set. Where each has a file of its own nobody knows.
    """
    own_files = has_own_files(run)
    if run.privacy.protects == "person" and run.data.person is None:
        reason = "persons are protected: say which column of each node's file tells whose a row is"
        raise InvalidInput.because("data.person", "missing", reason)
    if own_files:
        require_own_scales(run)
    if run.privacy.protects == "node" or run.learning.batch is not None:
        return run
    if own_files:
        reason = (
            f"a {run.privacy.protects} is protected, and nodes have files of their own: "
            "say how many rows an update takes at most, such as the rows of a typical node"
        )
        raise InvalidInput.because("learning.batch", "missing", reason)
    most = usual_batch(run, dealt_rows(run, usual_nodes=nodes)[2])
    return run.having(learning={"batch": most})


@by_key()
def resolved_run(run: RunFile, nodes: int, known: Known | None = None) -> ResolvedRun:
    """Return what a run file comes to between real nodes; all of it follows from the file, unless it names no model."""
    resolved = resolve(run, known or Known(), nodes, learns_timeouts=True)
    if resolved.epsilon is None:
        return resolved
    return dataclasses.replace(resolved, noise_multiplier=_noise(resolved, resolved.epsilon))


def asked_budget(run: RunFile) -> NodeBudget:
    """Return what each node of a run is to keep; nothing if the run file gives the noise itself.

    The noise is chosen for it, but how many are skipped is known only afterwards, and a node that others do not hide
    gives away more. So what holds is what each node refuses.
    """
    epsilon = epsilon_of(run)
    return NodeBudget() if epsilon is None else NodeBudget(epsilon=epsilon, delta=run.privacy.delta)


def _finite(timeout: float) -> float:
    if not 0.0 < timeout < math.inf:
        raise InvalidInput.because(
            "delay.timeout", timeout, 'a node that died would be waited for without end; give a time, or "adaptive"'
        )
    return timeout


def why_nobody_skipped(run: RunFile) -> str:
    """Say why the noise of a run is chosen as if nobody were skipped; nothing if skips are independent, and known.

    Nodes keep what they have ready, or get ready ahead, unless the run file says otherwise. Of such nodes, who is
    skipped at one turn says something about the next.
    """
    if run.delay.law is None or not isinstance(run.delay.timeout, float):
        return "how many will be skipped is not known"
    if (run.delay.ready or "ahead") != "fresh" or run.compute.law is not None:
        return 'who is skipped depends on who was before (delay.ready is not "fresh")'
    return ""


def _noise(resolved: ResolvedRun, epsilon: float) -> float:
    """Return the noise with which every pair of nodes keeps an epsilon, in the order that is agreed on.

    If the timeout is fixed, delays have a law and nodes begin anew at each turn, it is what that order asks for.
    It is for a node that is always ready while others are skipped: how quick a node is, is its own affair. Else nobody
    knows how many are skipped: then it is the least with which no pair exceeds the budget if every hop is an update.
    Where others are skipped, a node gives away more with each update, and the budget in its settings is spent earlier.
    """
    run, sizes = resolved.run, resolved.step_sizes
    order = order_of(run, resolved.nodes, resolved.steps)
    if not why_nobody_skipped(run) and resolved.timeout is not None and sizes.law != "own":
        kind = schedule_kind(run.schedule.name)
        planned = planned_run(
            schedule=run.schedule.name,  # the record refuses one that it does not know
            nodes=resolved.nodes,
            steps=resolved.steps,
            skip=skip_probability(resolved.delay, resolved.timeout),
            target_skip=0.0,
            noise_multiplier=1.0,
            convex=resolved.convex,
            step_size=sizes.law,
            # How many parts a node's rows rotate through is its own affair: one is the worst.
            protects=run.privacy.protects,
            closing=order.closing if kind.order_is_known else None,
            order_seed=run.simulation.seed if kind.order_is_known else None,
            search=run.schedule.search if kind.order_is_known else None,
            order=order.known(resolved.nodes) if kind.is_drawn_in_rounds() else None,
        )
        noise = calibrate(forecast(planned).with_noise, epsilon, run.privacy.delta)
        return max(noise, _noise_if_all_take_part(resolved, order, epsilon))
    return _noise_if_all_take_part(resolved, order, epsilon)


def _noise_if_all_take_part(resolved: ResolvedRun, order: RunOrder, epsilon: float) -> float:
    """Return the least noise with which no node has to refuse a turn for its budget's sake, if nobody is skipped.

    A node counts each update as if all looked right after it: that nobody adds noise any more is nothing that it can
    rule out. So this is above the noise with which the budget is kept once the run is over.
    """
    hops, sizes = len(order.path), resolved.step_sizes.first(len(order.path))
    one = 2.0**2  # mu^2 of a release, with noise multiplier 1
    falling = resolved.step_sizes.law != "own" and schedule_kind(resolved.run.schedule.name).has_rounds()
    if (resolved.nodes * hops > _MOST_COUNTED and falling) or not resolved.convex:
        loud = Transcript(
            nodes=resolved.nodes,
            offered=np.array(order.path),
            updated=np.ones(hops, dtype=bool),
            step_sizes=sizes,
            noise_multiplier=1.0,
            convex=resolved.convex,
            closing=order.closing,
        )
        # Between two looks of one observer a node of a ring has two turns at most.
        worst = TranscriptAccountant(loud).worst().mu ** 2 + (2.0 * one if resolved.convex else 0.0)
    else:
        worst = max(_right_after_an_update(resolved.nodes, node, order, sizes) for node in range(resolved.nodes))
    # mu is inversely proportional to the noise.
    return math.sqrt(worst) / gdp_mu(epsilon, resolved.run.privacy.delta) * _SPARE


def _right_after_an_update(nodes: int, node: int, order: RunOrder, sizes: Floats) -> float:
    """Return the largest mu^2 of a node right after an update of its own, for the observer who knows most."""
    account, largest = OwnTranscript(nodes, node), 0.0
    for whose, size in zip(order.path[: len(order.path) - order.closing], sizes, strict=False):
        account.update(whose, step_size=float(size), noise_multiplier=1.0)
        if whose == node:
            largest = max(largest, float(account.mu2_by_observer(0).max()))
    return largest


_AGREED = "The run that all nodes agreed on: the same file at every node, byte for byte or not, value for value."


def run_text(run: RunFile, head: str = _AGREED) -> str:
    """Return a run as the text of its file: the values that were given, and no others."""
    lines = [f"# {head}"]
    for section, keys in run.model_dump(mode="json", exclude_unset=True).items():
        tables, head = (keys, f"[[{section}]]") if isinstance(keys, list) else ([keys], f"[{section}]")
        for table in tables:
            lines += ["", head]
            lines += [f"{key} = {toml_value(value)}" for key, value in table.items() if value is not None]
    return "\n".join(lines) + "\n"
