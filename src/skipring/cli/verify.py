"""Who has signed that a run ended with a model: `skipring network verify`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from .._json import to_json
from ._output import Json, print_json, tell

_ENDED_EARLY = 3  # an exit code: who only looks at whether it is 0 must not take half a run for a whole one


def network_verify(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The final model: model.npz or model.npy of a node.")],
    roster: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The nodes, as you know them (default: beside MODEL)."),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The votes (default: outcome.json beside MODEL).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check, offline, that a majority of the nodes have signed that their run ended with this model.

    Take the roster from a person you trust: it says whose signatures count. Exit code 1: they have not. Exit code 3:
    they have, but the run ended a round or more before its agreed last hop, and no majority asked for that.
    """
    from ..network import verify_outcome  # loaded when the command runs

    found = verify_outcome(model, roster, certificate)
    if as_json:
        print_json(to_json(found))
    elif found.problem is not None:
        tell(f"Not verified: {found.problem}.")
    else:
        tell(
            f"Verified: {', '.join(found.signed)} ({len(found.signed)} of {len(found.signed) + len(found.unsigned)})"
            f" have signed that their run ended with this model, after {found.updates} updates."
        )
        if found.asked:
            tell(f"It ended early at hop {found.last_hop} of {found.steps} by agreement of {', '.join(found.asked)}.")
        elif found.warning is None:
            tell(f"Its last update was at hop {found.last_hop}, the last one that was agreed on.")
        else:
            tell(f"Warning: {found.warning}.")
        tell(f"SHA-256 of its parameters: {found.model}")
    sys.exit(1 if found.problem is not None else _ENDED_EARLY if found.early else 0)
