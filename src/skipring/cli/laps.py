"""What laps cost before they happen: `skipring laps`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._json import to_json
from ..errors import InvalidInput, require_non_negative
from . import _options as options
from ._output import Json, print_json, print_rows
from ._protected import delta_note

if TYPE_CHECKING:
    from ..delays import Delay
    from ..privacy import PlannedLaps
    from ..schedules import Laps
    from ..timeouts import DeadlineChoice


@dataclass(frozen=True, kw_only=True)
class Sums:
    """Who adds to private sums, how often, and whom they protect."""

    nodes: Annotated[int, typer.Option(help="Number of nodes.")]
    number: Annotated[int, typer.Option("--laps", help="How many laps, which share the budget equally.")] = 5
    coalition: Annotated[
        int | None, typer.Option(help="How many nodes may put together what they know (default: a fifth).")
    ] = None
    least_nodes: Annotated[
        int | None,
        typer.Option(help="How many nodes a lap needs (default: more than half, and more than --coalition)."),
    ] = None
    protects: options.Protects = options.USUAL_UNIT
    units: Annotated[
        int | None, typer.Option(help="The most records or persons of a node: what is promised to a whole node.")
    ] = None
    delay: Annotated[
        str | None, typer.Option(metavar="LAW", help="How long a node takes: find the deadline of a lap, too.")
    ] = None
    hop_latency: options.HopLatency = 0.01


def laps(
    sums: Sums,
    delta: Annotated[float, typer.Option(help="The delta of all epsilons.")],
    epsilon: Annotated[float | None, typer.Option(help="Find the noise that keeps this epsilon.")] = None,
    noise_multiplier: Annotated[
        float | None,
        typer.Option(help="Find epsilon for this noise of a sum, over the most that one unit contributes."),
    ] = None,
    as_json: Json = False,
) -> None:
    """What private sums cost (laps): the noise for a budget, or epsilon for a noise; and how long to wait."""
    from ..delays import parse_delay
    from ..privacy import LapsAccountant

    run = _planned(sums, delta, epsilon, noise_multiplier)
    among, protects = run.among, run.protects
    promised = LapsAccountant(run).guarantee(delta, units=sums.units)
    warned = delta_note(protects, sums.units, run.nodes, delta)
    waited = None if sums.delay is None else deadline_of(parse_delay(sums.delay), sums.hop_latency, among)
    if as_json:
        print_json(to_json(promised) | _facts(run, waited) | ({"warning": warned[0]} if warned else {}))
        return
    least, most = (run.noise_multiplier / math.sqrt(each - among.withstood) for each in (run.nodes, among.needed))
    print_rows(
        [
            ("noise multiplier", run.noise_multiplier),
            *promised.rows(),
            ("laps", f"{run.laps}, of at least {among.needed} of {run.nodes} nodes"),
            ("noise of a sum, all nodes", f"{_beside_a_server(run):.3g} times that of a trusted server"),
            ("noise of one node's share", f"{least:.3g} to {most:.3g} times what one {protects} contributes"),
            *waiting(waited),
        ],
        " ".join([promised.sentence(), *(_alone(run)), *warned]),
    )


def _planned(sums: Sums, delta: float, epsilon: float | None, noise_multiplier: float | None) -> PlannedLaps:
    """Return the record of the laps, with the noise that was given, or that keeps a budget."""
    from ..privacy import LapsAccountant, PlannedLaps, Protected, calibrate
    from ..schedules import Laps

    if (epsilon is None) == (noise_multiplier is None):
        given = "missing" if epsilon is None else epsilon
        raise InvalidInput.because("epsilon", given, "give exactly one of --epsilon and --noise-multiplier")
    require_non_negative("hop_latency", sums.hop_latency)
    if sums.protects == "node":
        raise InvalidInput("protects", sums.protects, "record or person: laps add up what these contribute")
    run = PlannedLaps(
        among=Laps(nodes=sums.nodes, coalition=sums.coalition, least_nodes=sums.least_nodes),
        laps=sums.number,
        noise_multiplier=1.0 if noise_multiplier is None else noise_multiplier,
        unit=Protected(protects=sums.protects),  # type: ignore[arg-type] # it checks it
    )
    if epsilon is None:
        return run
    found = calibrate(lambda noise: LapsAccountant(replace(run, noise_multiplier=noise)), epsilon, delta)
    return replace(run, noise_multiplier=found)


def _beside_a_server(run: PlannedLaps) -> float:
    return math.sqrt(run.nodes / (run.nodes - run.withstood))


def _alone(run: PlannedLaps) -> list[str]:
    """Say so where a lap is a local release of each node."""
    if run.among.needed - run.withstood > 1:
        return []
    return ["With as few nodes as a lap may have, each hides its own contribution by itself: a sum gains nothing then."]


def deadline_of(delay: Delay, hop_latency: float, among: Laps) -> DeadlineChoice:
    """Return how long a lap waits to have the most contributions per time."""
    from ..timeouts import best_deadline

    require_non_negative("hop_latency", hop_latency)
    return best_deadline(delay, 2.0 * among.round_trips * hop_latency, among.nodes, among.needed)


def waiting(waited: DeadlineChoice | None) -> list[tuple[str, object]]:
    """Return what is said of a deadline, if there is one."""
    if waited is None:
        return []
    return [
        ("deadline", waited.deadline),
        ("left out by then", f"{100.0 * waited.skip_probability:.0f} % of the nodes"),
        ("time of a lap, sending included", waited.time),
    ]


def _facts(run: PlannedLaps, waited: DeadlineChoice | None) -> dict[str, Any]:
    known = {} if waited is None else {"deadline": to_json(waited)}
    return known | {
        "schedule": run.among.name,
        "nodes": run.nodes,
        "laps": run.laps,
        "coalition": run.withstood,
        "least_nodes": run.among.needed,
        "noise_multiplier": run.noise_multiplier,
        "noise_beside_a_server": _beside_a_server(run),
    }
