"""What a run costs: `skipring timeout`, `privacy`, `noise` and `error`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._json import to_json
from ..errors import InvalidInput
from . import _options as options
from ._output import Json, print_json, print_rows
from ._protected import Protected, delta_note, protected, same_parts

if TYPE_CHECKING:
    from ..delays import Delay
    from ..privacy import Guarantee, PlannedRun, RunAccountant

# Commands load the rooms they need when they run: `skipring timeout` must not wait for the accountants.


def timeout(
    delay: options.Delay,
    hop_latency: options.HopLatency = 0.01,
    skip: Annotated[
        float | None,
        typer.Option(help="Find the timeout for this skip probability instead of the one with most updates."),
    ] = None,
    ready: options.Ready = None,
    nodes: Annotated[
        int | None, typer.Option(help="With --ready kept or ahead, and for laps: number of nodes.")
    ] = None,
    schedule: Annotated[
        str | None, typer.Option(help="laps: how long all are waited for at once, for the most rows per time.")
    ] = None,
    as_json: Json = False,
) -> None:
    """How long to wait for a node: the timeout with the least time between updates."""
    from ..delays import parse_delay
    from ..timeouts import choose_timeout, skip_probability, time_between_updates, timeout_for_skip

    law = parse_delay(delay)
    if schedule is not None:
        _deadline(law, hop_latency, nodes, schedule, {"skip": skip, "ready": ready}, as_json)
        return
    if ready not in (None, "fresh"):
        _timeout_ready(law, hop_latency, skip, str(ready), nodes, as_json)
        return
    if nodes is not None:
        raise InvalidInput.because("nodes", nodes, "does not matter where nodes begin anew; say --ready kept or ahead")
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


def _deadline(
    law: Delay, hop_latency: float, nodes: int | None, schedule: str, others: dict[str, object], as_json: bool
) -> None:
    """Show how long a lap waits."""
    from ..schedules import Laps
    from .laps import deadline_of, waiting

    if schedule != Laps.name:
        raise InvalidInput("schedule", schedule, f"{Laps.name}; on a walk the timeout is the same for each schedule")
    for name, given in others.items():
        if given not in (None, "fresh"):
            raise InvalidInput.because(name, given, "is for the walk; for laps leave it out")
    if nodes is None:
        raise InvalidInput.because("nodes", "missing", "the slowest of them decides how long a lap takes")
    among = Laps(nodes=nodes)
    choice = deadline_of(law, hop_latency, among)
    if as_json:
        print_json(to_json(choice) | {"delay": str(law), "hop_latency": hop_latency, "nodes": nodes})
        return
    why = "the most contributions per time (of deadlines within 0.1 % of it the longest)"
    said = f"A lap of fewer than {among.needed} nodes is void; `skipring laps` changes how many it needs."
    print_rows(waiting(choice), f"For delays {law}, hop latency {hop_latency:g}, {nodes} nodes: {why}. {said}")


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
    epsilon: Annotated[float | None, typer.Option(help="Find delta for this epsilon.")] = None,
    asked: options.Account,
    as_json: Json = False,
) -> None:
    """What others can learn about a node's data in a run: epsilon for a delta, or delta for an epsilon."""
    from ..privacy import promise

    if (delta is None) == (epsilon is None):
        given = "missing" if delta is None else delta
        raise InvalidInput.because("delta", given, "give exactly one of --delta and --epsilon")
    run, who = _planned(hops, asked, noise_multiplier)
    account = _accountant(asked, run, 1e-6 if delta is None else delta)
    small = account.delta(epsilon if epsilon is not None else 0.0) if delta is None else delta
    found, facts = promise(account, small, units=who.units, epsilon=epsilon), account.facts
    shown = [("schedule", f"{hops.schedule}, {hops.nodes} nodes, {hops.steps} steps, skip {hops.skip:g}")]
    _say(found, run, who, facts, [*found.rows(), *shown, ("noise multiplier", noise_multiplier)], as_json=as_json)


def noise(
    hops: options.Hops,
    epsilon: Annotated[float, typer.Option(help="The privacy budget.")],
    delta: Annotated[float, typer.Option(help="The privacy budget.")],
    asked: options.Account,
    as_json: Json = False,
) -> None:
    """The least noise that keeps a privacy budget."""
    from ..privacy import calibrate, promise

    run, who = _planned(hops, asked, 1.0)
    account = _accountant(asked, run, delta)
    run = run.with_noise(calibrate(account.with_noise, epsilon, delta))
    found = promise(account.with_noise(run.noise_multiplier), delta, units=who.units, epsilon=epsilon)
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


def _accountant(asked: options.Account, run: PlannedRun, delta: float) -> RunAccountant:
    """Return the accountant that was asked for; where rows were given, it refuses them."""
    from ..privacy import accountant

    try:
        return accountant(asked.method, run, delta=delta, delta_prime=asked.delta_prime)
    except InvalidInput as problem:
        if problem.parameter == "parts" and asked.rows is not None:
            raise InvalidInput.because("rows", asked.rows, problem.reason) from None
        raise


def _planned(hops: options.Hops, asked: options.Account, noise_multiplier: float) -> tuple[PlannedRun, Protected]:
    """Return the record of a run, which checks every value and names what is allowed, and whom it protects."""
    from ..privacy import planned_run

    who = protected(asked)
    said = {name: value for name, value in vars(asked).items() if name not in options.BESIDE_THE_RUN}
    run = planned_run(**vars(hops), **said | {"protects": who.unit}, noise_multiplier=noise_multiplier, parts=who.parts)
    return run, who


def _facts(run: PlannedRun) -> dict[str, Any]:
    """Return what JSON says of a run; how many parts it has, and who looks, is said elsewhere."""
    found = run.keywords
    del found["parts"], found["against"]
    return {"target_skip": found["skip"]} | found


def _say(
    found: Guarantee,
    run: PlannedRun,
    who: Protected,
    facts: dict[str, Any],
    rows: Sequence[tuple[str, object]],
    *,
    as_json: bool,
) -> None:
    """Print a guarantee, what it rests on, and what noise it asks for."""
    from ..privacy import AMPLIFIED

    warned = delta_note(who.unit, who.of_a_node, run.nodes, found.delta)
    if as_json:
        facts = facts | who.facts(run.noise_multiplier) | _facts(run) | ({"warning": warned[0]} if warned else {})
        print_json(to_json(found) | facts)
        return
    other_losses = ["For any other loss say --non-convex."] if AMPLIFIED in found.assumptions else []
    notes = [found.sentence(), *other_losses, *same_parts(run), who.noise_note(run.noise_multiplier), *warned]
    print_rows([*rows, *who.update_rows], " ".join(notes))
