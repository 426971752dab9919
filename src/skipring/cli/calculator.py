"""What a run costs: `skipring timeout`, `privacy`, `noise` and `error`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._json import to_json
from ..errors import InvalidInput, require_non_negative
from . import _options as options
from ._laps import colluders, laps_rows, planned_laps
from ._output import Json, print_json, print_rows, sentence
from ._protected import Protected, delta_note, protected, same_parts

if TYPE_CHECKING:
    from ..delays import Delay
    from ..privacy import Guarantee, PlannedLaps, PlannedRun, RunAccountant

# Commands load the rooms they need when they run: `skipring timeout` must not wait for the accountants.


def timeout(
    delay: options.Delay,
    quorum: options.Quorum,
    hop_latency: options.HopLatency = 0.01,
    skip: Annotated[
        float | None,
        typer.Option(help="Find the timeout for this skip probability instead of the one with most updates."),
    ] = None,
    ready: options.Ready = None,
    nodes: Annotated[int | None, typer.Option(help="Laps, and --ready kept or ahead: number of nodes.")] = None,
    schedule: Annotated[
        str | None, typer.Option(metavar="NAME", help="laps: the deadline of a lap, with the most rows per time.")
    ] = None,
    as_json: Json = False,
) -> None:
    """How long to wait for a node: the timeout with the least time between updates; or a deadline of laps."""
    from ..delays import parse_delay

    law = parse_delay(delay)
    if schedule == options.LAPS:
        for name, given in (("skip", skip), ("ready", ready)):
            if given is not None:
                raise InvalidInput.because(name, given, "is for the timeout of a token; laps have a deadline")
        _deadline(law, hop_latency, nodes, quorum, as_json=as_json)
        return
    if schedule is not None:
        raise InvalidInput("schedule", schedule, "laps; a token's timeout is the same on all others")
    quorum.require_none("a token's timeout")
    if ready not in (None, "fresh"):
        _timeout_ready(law, hop_latency, skip, str(ready), nodes, as_json)
        return
    if nodes is not None:
        raise InvalidInput.because("nodes", nodes, "does not matter where nodes begin anew; say --ready kept or ahead")
    _timeout_fresh(law, hop_latency, skip, as_json=as_json)


def _timeout_fresh(law: Delay, hop_latency: float, skip: float | None, *, as_json: bool) -> None:
    from ..timeouts import choose_timeout, skip_probability, time_between_updates, timeout_for_skip

    if skip is None:
        choice = choose_timeout(law, hop_latency)
        chosen, skipped, between = choice.timeout, choice.skip_probability, choice.time_between_updates
    else:
        chosen = timeout_for_skip(law, skip)
        skipped, between = skip_probability(law, chosen), time_between_updates(law, chosen, hop_latency)
    if as_json:
        print_json(
            {
                "timeout": chosen,
                "skip_probability": skipped,
                "time_between_updates": between,
                "delay": str(law),
                "hop_latency": hop_latency,
            }
        )
        return
    why = "the least time between updates (Lemma 2)" if skip is None else f"skip probability {skip:g}"
    print_rows(
        [
            ("timeout", chosen),
            ("skip probability", skipped),
            ("time between updates", between),
        ],
        f"For delays {law}, hop latency {hop_latency:g}: {why}."
        + (" Never skip: waiting for everyone is at least as good." if skip is None and chosen == float("inf") else ""),
    )


def _deadline(law: Delay, hop_latency: float, nodes: int | None, quorum: options.Quorum, *, as_json: bool) -> None:
    from ..schedules import Laps
    from ..timeouts import best_deadline

    if nodes is None:
        raise InvalidInput.because("nodes", "missing", "how many there are decides who is waited for")
    require_non_negative("hop_latency", hop_latency)
    among = Laps(nodes=nodes, coalition=quorum.coalition, least_nodes=quorum.least_nodes)
    choice = best_deadline(law, among.sending(hop_latency), nodes, among.needed)
    if as_json:
        print_json(to_json(choice) | {"delay": str(law), "hop_latency": hop_latency, "nodes": nodes})
        return
    print_rows(
        [
            ("deadline", choice.deadline),
            ("left out by then", f"{100.0 * choice.skip_probability:.0f} % of the nodes"),
            ("time of a lap, sending included", choice.time),
        ],
        f"For delays {law}, hop latency {hop_latency:g}, laps of at least {among.needed} of {nodes} nodes: the most"
        " rows per time (of deadlines within 0.1 % of it the longest).",
    )


def _timeout_ready(
    law: Delay, hop_latency: float, skip: float | None, ready: str, nodes: int | None, as_json: bool
) -> None:
    from ..timeouts import choose_timeout, choose_timeout_ready

    if skip is not None:
        raise InvalidInput.because("skip", skip, "is for nodes that begin anew; leave it or --ready out")
    if nodes is None:
        raise InvalidInput.because("nodes", "missing", f"how long a round takes decides who is ready {ready}")
    choice = choose_timeout_ready(law, hop_latency, nodes, ready)  # type: ignore[arg-type] # it checks it
    anew = choose_timeout(law, hop_latency)
    if as_json:
        print_json(
            {
                "timeout": choice.timeout,
                "skip_probability": choice.skip_probability,
                "time_between_updates": choice.time_between_updates,
                "delay": str(law),
                "hop_latency": hop_latency,
                "ready": ready,
                "nodes": nodes,
                "time_between_updates_fresh": anew.time_between_updates,
            }
        )
        return
    print_rows(
        [
            ("timeout", choice.timeout),
            ("skip probability", choice.skip_probability),
            ("time between updates", choice.time_between_updates),
            ("the same, fresh (Lemma 2)", anew.time_between_updates),
        ],
        f"For delays {law}, hop latency {hop_latency:g}, {nodes} nodes, ready {ready}: the least time between updates"
        " (of timeouts within 0.1 % of it the longest), in the limit of large rings.",
    )


def privacy(
    hops: options.Hops,
    noise_multiplier: options.NoiseMultiplier,
    *,
    delta: Annotated[float | None, typer.Option(help="Find epsilon for this delta.")] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Find delta for this epsilon; with --delta, how many laps keep the budget.")
    ] = None,
    sums: options.Sums,
    asked: options.Account,
    as_json: Json = False,
) -> None:
    """What others can learn about a node's data in a run: epsilon for a delta, or delta for an epsilon."""
    from ..privacy import PlannedLaps, most_laps, promise

    run, who = _planned(hops, sums, asked, noise_multiplier)
    if delta is not None and epsilon is not None and isinstance(run, PlannedLaps) and sums.laps is None:
        run, epsilon = replace(run, laps=most_laps(run, epsilon, delta)), None
    if (delta is None) == (epsilon is None):
        given = "missing" if delta is None else delta
        raise InvalidInput.because("delta", given, "give exactly one of --delta and --epsilon")
    account = _accountant(asked, run, 1e-6 if delta is None else delta)
    small = account.delta(epsilon if epsilon is not None else 0.0) if delta is None else delta
    if epsilon is not None and not small < 1.0:
        reason = f"there is too little noise: no delta below 1 goes with epsilon {epsilon:g}"
        raise InvalidInput.because("noise_multiplier", noise_multiplier, reason)
    found, facts = promise(account, small, units=who.units, epsilon=epsilon), account.facts
    rows: list[tuple[str, object]] = [*found.rows()]
    if not isinstance(run, PlannedLaps):
        rows += [("schedule", f"{run.schedule}, {run.nodes} nodes, {run.steps} steps, skip {run.skip:g}")]
    rows += [("noise multiplier", noise_multiplier)]
    _say(found, run, who, facts, rows, as_json=as_json)


def noise(
    hops: options.Hops,
    epsilon: Annotated[float, typer.Option(help="The privacy budget.")],
    delta: Annotated[float, typer.Option(help="The privacy budget.")],
    sums: options.Sums,
    asked: options.Account,
    as_json: Json = False,
) -> None:
    """The least noise that keeps a privacy budget."""
    from ..privacy import PlannedLaps, calibrate, promise

    run, who = _planned(hops, sums, asked, 1.0)
    # What a floor adds to shares comes on top: by itself it might keep the budget, and then no noise would be found.
    bare = replace(run, floor=0.0) if isinstance(run, PlannedLaps) else run
    run = run.with_noise(calibrate(_accountant(asked, bare, delta).with_noise, epsilon, delta))
    found = promise(_accountant(asked, run, delta), delta, units=who.units, epsilon=epsilon)
    _say(found, run, who, {}, [("noise multiplier", run.noise_multiplier), *found.rows()], as_json=as_json)


def error(
    hops: options.Hops,
    noise_multiplier: options.NoiseMultiplier,
    dimension: Annotated[int, typer.Option(help="Number of the model's parameters.")],
    diameter: Annotated[float, typer.Option(help="Diameter of the set the parameters are kept in.")],
    gradient_bound: Annotated[float, typer.Option(help="Largest norm of a node's gradient, k.")],
    learning_rate: Annotated[float, typer.Option(help="Step size of the first update.")],
    as_json: Json = False,
) -> None:
    """How far from the best model a run is expected to end (Theorem 1: a planning curve, not a guarantee)."""
    from ..convergence import Problem, error_bound

    hops.require_token()
    problem = Problem(
        noise_multiplier=noise_multiplier,
        dimension=dimension,
        diameter=diameter,
        gradient_bound=gradient_bound,
        learning_rate=learning_rate,
    )
    bound = error_bound(problem, **vars(hops))
    if as_json:
        print_json({"bound": bound, **to_json(hops), **to_json(problem)})
        return
    words = f"{hops.schedule}, {hops.nodes} nodes, {hops.steps} steps, skip probability {hops.skip:g}"
    print_rows(
        [("error bound", bound), ("schedule", words)],
        "Expected excess loss of the last model (Theorem 1). Use it to compare plans: its proof has a gap, and any"
        f" model is within gradient bound x diameter = {problem.largest_error:g} of the best.",
    )


def _accountant(asked: options.Account, run: PlannedRun | PlannedLaps, delta: float) -> RunAccountant:
    """Return the accountant that was asked for; where rows were given, it refuses them."""
    from ..privacy import LapsAccountant, accountant

    try:
        found = accountant(asked.method, run, delta=delta, delta_prime=asked.delta_prime)
    except InvalidInput as problem:
        if problem.parameter == "parts" and asked.rows is not None:
            raise InvalidInput.because("rows", asked.rows, problem.reason) from None
        raise
    return LapsAccountant(found.laps, colluders(asked, run.nodes)) if isinstance(found, LapsAccountant) else found


def _planned(
    hops: options.Hops, sums: options.Sums, asked: options.Account, noise_multiplier: float
) -> tuple[PlannedRun | PlannedLaps, Protected]:
    """Return the record of a run, which checks every value and names what is allowed, and whom it protects."""
    from ..privacy import planned_run

    who = protected(asked)
    if hops.schedule == options.LAPS:
        return planned_laps(hops, sums, asked, who, noise_multiplier), who
    sums.require_none(hops.schedule)
    hops.require_token()
    said = {name: value for name, value in vars(asked).items() if name not in options.BESIDE_THE_RUN}
    run = planned_run(**vars(hops), **said | {"protects": who.unit}, noise_multiplier=noise_multiplier, parts=who.parts)
    return run, who


def _say(
    found: Guarantee,
    run: PlannedRun | PlannedLaps,
    who: Protected,
    facts: dict[str, Any],
    rows: Sequence[tuple[str, object]],
    *,
    as_json: bool,
) -> None:
    """Print a guarantee, what it rests on, and what noise it asks for."""
    from ..privacy import AMPLIFIED, PlannedRun

    warned = delta_note(who.unit, who.of_a_node, run.nodes, found.delta)
    if as_json:
        told = run.keywords
        if isinstance(run, PlannedRun):  # how many parts it has, and who looks, is said elsewhere
            del told["parts"], told["against"]
            told = {"target_skip": told["skip"]} | told
        facts = facts | who.facts(run.noise_multiplier) | told | ({"warning": warned[0]} if warned else {})
        print_json(to_json(found) | facts)
        return
    notes = [found.sentence()]
    if isinstance(run, PlannedRun):
        rows = [*rows, *who.update_rows]
        notes += ["For any other loss say --non-convex."] if AMPLIFIED in found.assumptions else []
        notes += [*same_parts(run), who.noise_note(run.noise_multiplier)]
    else:
        rows = [*rows, *laps_rows(run)]
        notes += [] if run.among.alone is None else [sentence(run.among.alone)]
    print_rows(rows, " ".join([*notes, *warned]))
