"""All that can be looked at before nodes start: files, runs, data, models, and where they write and listen."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ...errors import InvalidInput
from ..node import NO_ROWS
from .checks import Checked, check_network, check_node, is_node_folder
from .places import Around, around_node, is_here, place_problems
from .readiness import budget_notes, differing_runs, run_notes, why_not_started


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What was found in a network's folder, or in that of one node.

    `alone` says that it is one node's; `around` has what each node that is here has to do with its machine.
    """

    alone: bool
    checked: tuple[Checked, ...]
    around: Mapping[str, Around]
    notes: tuple[str, ...]

    @property
    def problems(self) -> list[tuple[str, str]]:
        """What is wrong, and with whom."""
        return [(one.name, problem) for one in self.checked for problem in one.problems]

    @property
    def days_left(self) -> int | None:
        """How long the first certificate to end still holds."""
        return min((one.days_left for one in self.checked if one.days_left is not None), default=None)

    @property
    def only_rows_missing(self) -> bool:
        """Whether nothing is wrong but that nodes have not said where their rows are, which only owners know."""
        return bool(self.problems) and all(problem.endswith(NO_ROWS) for _, problem in self.problems)


def seen_before_a_start(folder: Path) -> Seen:
    """Look at a folder as a start would: what passes, starts. Nothing is begun; files are written and removed again."""
    if not folder.is_dir():
        raise InvalidInput.because("DIR", folder, "is not a folder")
    alone = is_node_folder(folder)
    checked = [check_node(folder)] if alone else list(check_network(folder))
    places = [folder if alone else folder / one.name for one in checked]
    for number, (one, place) in enumerate(zip(checked, places, strict=True)):
        if not one.problems and is_node_folder(place):
            reason = why_not_started(place)
            tried = place_problems(place) if (alone or is_here(place)) and not reason else ()
            checked[number] = replace(one, problems=(reason,) if reason else tried)
    if not alone:
        with contextlib.suppress(InvalidInput):  # what cannot be read is said of its node
            differing = differing_runs(folder)
            # Where a node has problems already, they are why it differs.
            checked = [
                replace(one, problems=(differing[one.name],)) if one.name in differing and not one.problems else one
                for one in checked
            ]
    around = {one.name: around_node(place) for one, place in zip(checked, places, strict=True) if is_node_folder(place)}
    notes = run_notes(folder)
    if not any(one.problems for one in checked):
        notes += budget_notes(folder)
    return Seen(alone=alone, checked=tuple(checked), around=around, notes=notes)
