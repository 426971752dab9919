"""Laps in the calculators: what options say of them, and what is shown of their noise and of how long they wait."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from ..errors import InvalidInput, require_integer
from . import _options as options

if TYPE_CHECKING:
    from ..privacy import PlannedLaps
    from ._protected import Protected

#: Options about an account that laps have, too; whose losses are not convex does not matter to them.
_OF_LAPS = ("method", "delta_prime", "against", "observers", "convex", *options.ROWS)


def planned_laps(
    hops: options.Hops, sums: options.Sums, asked: options.Account, who: Protected, noise_multiplier: float
) -> PlannedLaps:
    """Return the record of laps that options describe; refuse what only a token has."""
    from .. import privacy
    from ..schedules import Laps

    for name, why in (("steps", "counts the hops of a token; say --laps"), ("skip", "late nodes cost laps no privacy")):
        if (given := getattr(hops, name)) is not None:
            raise InvalidInput.because(name, given, why)
    for field in dataclasses.fields(asked):
        if field.name not in _OF_LAPS and (given := getattr(asked, field.name)) != field.default:
            raise InvalidInput.because(field.name, given, "is for schedules with a token, and laps have none")
    if who.unit == "node":
        raise InvalidInput("protects", who.unit, "record or person: laps add up what these contribute")
    return privacy.PlannedLaps(
        among=Laps(nodes=hops.nodes, coalition=sums.coalition, least_nodes=sums.least_nodes),
        laps=Laps.usual if sums.laps is None else sums.laps,
        noise_multiplier=noise_multiplier,
        extra=sums.extra or 0,
        floor=sums.floor or 0.0,
        unit=privacy.Protected(protects=who.unit, parts=(who.parts,)),
    )


def colluders(asked: options.Account, nodes: int) -> int | None:
    """Return how many nodes look at laps together; 0 is an outsider, and None as many as they withstand."""
    if asked.against == "outsider":
        if asked.observers is not None:
            raise InvalidInput.because("observers", asked.observers, "an outsider is none of the nodes")
        return 0
    if asked.against != "node":
        reason = "who is late sees as much of a lap as others; say node or outsider"
        raise InvalidInput.because("against", asked.against, reason)
    if asked.observers is not None:
        require_integer("observers", asked.observers, 1, nodes - 1)
    return asked.observers


def laps_rows(run: PlannedLaps) -> list[tuple[str, object]]:
    """Return what a table says of laps and their noise."""
    among, noise = run.among, run.noise_multiplier
    least, most = (max(noise / math.sqrt(p - run.withstood), run.floor) for p in (run.nodes, among.needed))
    return [
        (among.name, f"{run.laps}, of at least {among.needed} of {run.nodes} nodes"),
        ("noise of a sum, all nodes", f"{run.noise_beside_a_server:.3g} times that of a trusted server"),
        ("noise of one node's share", f"{least:.3g} to {most:.3g} times what one {run.protects} contributes"),
    ]
