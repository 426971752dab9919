"""The next run of a network's folder, or of one node's: with the same people, or with others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import InvalidInput, given_as
from ...runs import read_run_file
from ..transport import Roster, parse_joining, read_roster
from .agreeing import AgreedNow, agreed_now, own_file
from .authority import has_authority
from .checks import is_node_folder
from .folders import ASKED, NewSettings
from .members import NextMembers, all_have_files, begin_with_others, members_of
from .new_run import begin_new_run


@dataclass(frozen=True, kw_only=True)
class Begun:
    """Another run that is ready to begin.

    `put_away` is where the last run is now, `update` what owners elsewhere are sent, if they can be.
    """

    folder: str
    put_away: tuple[str, ...]
    notes: tuple[str, ...] = ()
    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    update: str | None


def next_run(
    folder: Path,
    *,
    run: Path | None = None,
    add: Sequence[str] = (),
    remove: Sequence[str] = (),
    data: Path | None = None,
    days: int | None = None,
) -> Begun:
    """Begin another run (default: the same again); `add` and `remove` say who joins and leaves, as people write it."""
    for option, given in (("data", data), ("days", days)):
        if given is not None and not add:
            raise InvalidInput.because(option, given, "is for those who join; say who does with --add")
    if is_node_folder(folder):
        if add or remove:
            reason = "is for the network's folder; a node takes who joins and leaves with skipring node update"
            raise InvalidInput.because("add" if add else "remove", ", ".join(add or remove), reason)
        return _for_one_node(folder, run)
    roster = read_roster(folder / "roster.toml")
    leaving = [name.strip() for given in remove for name in given.split(",")]
    members = members_of(folder, parse_joining(add, roster), leaving)
    files = None if data is None else {name: own_file(data, name) for name in members.joining}
    with given_as("FILE" if run is None else "run", instead_of="FILE"):
        who = ("remove", ", ".join(leaving)) if leaving else ("add", ", ".join(add))
        now = _agreed(folder, run, members, who, roster)
    if members.changed:
        kept = begin_with_others(
            folder,
            now.text,
            members,
            asked=now.asked,
            days=365 if days is None else days,
            settings=NewSettings(budget=now.budget, data=files or {}),
        )
    else:
        kept = begin_new_run(folder, now.text, None if run is None else now.asked)
    return Begun(
        folder=str(folder),
        put_away=tuple(map(str, kept)),
        notes=now.notes,
        joined=tuple(members.joining),
        left=members.leaving,
        update=str(folder / "update.json") if has_authority(folder) else None,
    )


def _for_one_node(folder: Path, run: Path | None) -> Begun:
    """Let one node take the run that all nodes were given."""
    if run is None:
        raise InvalidInput.because("run", "missing", "for one node, give the run.toml that all nodes were given")
    with given_as("run", instead_of="FILE"):
        identity = read_run_file(run).network.identity
    if identity is None:
        reason = "has no network.identity; `skipring network new-run` writes one for all nodes"
        raise InvalidInput.because("run", run, reason)
    kept = begin_new_run(folder, run.read_text(encoding="utf-8"))
    return Begun(folder=str(folder), put_away=tuple(map(str, kept)), update=None)


def _agreed(folder: Path, run: Path | None, members: NextMembers, who: tuple[str, str], roster: Roster) -> AgreedNow:
    """Return the run for those who take part in it; with others than before, from the run as it was asked for."""
    own = all_have_files(folder, members)
    if not members.changed:
        return agreed_now(folder / "run.toml" if run is None else run, roster.names, own_files=own)
    rounds = run is None and _in_rounds(folder, len(roster))
    path = _asked(folder) if run is None else run
    return agreed_now(path, members.names, *who, own_files=own, rounds=rounds)


def _asked(folder: Path) -> Path:
    """Return the run as it was asked for; without it nobody knows what noise, steps and order were chosen for."""
    path = folder / ASKED
    if not path.is_file():
        reason = (
            f"noise, steps and order of {folder / 'run.toml'} were chosen for the nodes before, and there is no {ASKED}"
            " beside it: give the run file that was asked for"
        )
        raise InvalidInput.because("run", "missing", reason)
    return path


def _in_rounds(folder: Path, nodes: int) -> bool:
    """Say whether the last run was one of whole rounds."""
    steps = read_run_file(folder / "run.toml").schedule.steps
    return steps is not None and steps % nodes == 0
