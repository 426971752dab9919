"""The run that nodes are about to share: with nothing left open, and with what their owners have to be told of it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ...errors import InvalidInput
from ...privacy import Unit
from ...runs import RunFile, parse_run, read_run_file
from ..node import NodeBudget
from .agreed import (
    agreed_run,
    asked_budget,
    notes_on,
    require_data,
    run_text,
    why_nobody_skipped,
    without_shared_file,
)
from .agreed_order import in_whole_rounds, with_designed_order
from .agreed_values import quorum_of
from .run_mark import new_identity

_AS_ASKED = "The run as it was asked for; `skipring network new-run --add` makes it into one for other nodes."


@dataclass(frozen=True)
class AgreedNow:
    """The run that all nodes share, as it was asked for, what each is to keep, for what, and what nobody may expect."""

    text: str
    asked: str
    budget: NodeBudget
    unit: Unit
    notes: tuple[str, ...]


def agreed_now(
    path: Path | None,
    names: Sequence[str],
    members: str = "nodes",
    given: str = "",
    *,
    own_files: bool = False,
    rounds: bool = False,
) -> AgreedNow:
    """Leave nothing open in a run file, for these nodes: what follows from how many they are is chosen here.

    `members` is the option that says who they are, and `given` its value (default: their names). Where nodes have files
    of their own, the file of a simulation is left out, and its path with it. With `rounds`, the steps were asked for
    when there were other nodes: no more than that are taken, in whole rounds, and it is said.
    """
    # It will lie elsewhere: paths in it must not start at this folder.
    asked = parse_run({"data": {"name": "breast-cancer"}}) if path is None else read_run_file(path, whole_paths=True)
    asked = asked.walking()
    require_data(asked)
    identity = new_identity(datetime.now(UTC).date(), secrets.token_bytes(12))
    quorum_of(asked, names)
    nodes = len(names)
    fitting = in_whole_rounds(asked, nodes) if rounds else asked
    try:
        agreed = agreed_run(with_designed_order(fitting, nodes), nodes, identity)
    except InvalidInput as problem:
        if problem.parameter != "data.nodes" or asked.data.nodes is not None:
            raise
        raise InvalidInput.because(members, given or ",".join(names), problem.reason) from None
    agreed = without_shared_file(agreed) if own_files else agreed
    notes = _notes(asked, fitting, agreed, nodes)
    return AgreedNow(
        run_text(agreed), run_text(asked, _AS_ASKED), asked_budget(asked), asked.privacy.protects, tuple(notes)
    )


def _notes(asked: RunFile, fitting: RunFile, agreed: RunFile, nodes: int) -> list[str]:
    """Return what owners have to be told: of the run itself, and of what was chosen otherwise than they asked."""
    notes = list(notes_on(agreed, nodes))
    if asked.delay.law is not None and agreed.delay.timeout == "adaptive":
        notes.append(
            "nodes learn how long to wait, since delay.law is for simulations; delay.timeout says it in seconds"
        )
    if fitting.schedule.steps != asked.schedule.steps:
        notes.append(
            f"the run has {fitting.schedule.steps} steps in place of {asked.schedule.steps}: whole rounds of"
            f" {nodes} nodes, and no more than was asked for; a file with other steps can be given with --run"
        )
    if asked_budget(asked).epsilon is not None and (why := why_nobody_skipped(asked)):
        notes.append(
            f"the noise is that of a run in which nobody is skipped, since {why}: where others are, a node's budget is"
            " spent earlier, and it takes no further turns"
        )
    return notes


def own_file(folder: Path, name: str) -> Path:
    """Return a node's own file in a folder of such files."""
    from ...data import not_a_table  # only where nodes have files

    if not folder.is_dir():
        raise InvalidInput.because("data", folder, "is not a folder")
    found = [path for path in (folder / f"{name}.csv", folder / f"{name}.parquet") if path.is_file()]
    if not found:
        for other in sorted(folder.glob(f"{name}.*")):
            raise not_a_table("data", other, (".csv", ".parquet"))
        raise InvalidInput.because("data", folder, f"there is no {name}.csv, and no {name}.parquet, for node {name}")
    return found[0].absolute()
