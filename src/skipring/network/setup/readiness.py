"""Whether a node would start: what `skipring node run` reads before it begins is read, and nothing is begun."""

from __future__ import annotations

from pathlib import Path

from ...errors import InvalidInput
from ...runs import no_noise, read_run_file
from ..node import read_node_config
from ..storage import ModelFile
from ..transport import read_roster
from .agreed import has_own_files
from .agreed_values import quorum_of, require_network_run
from .load import load_node, require_journal, terms_of

__all__ = ["run_notes", "why_not_started"]


def why_not_started(folder: str | Path, *, elsewhere: bool = False) -> str:
    """Say why a node would not start with its run, data, model and journal; nothing if it would.

    With `elsewhere`, nodes that bring files of their own need not have said yet where they are: the folder is that of
    whoever prepares the network.
    """
    path = Path(folder) / "node.toml"
    try:
        config = read_node_config(path)
        if elsewhere and config.data.path is None and config.run is not None:
            run, roster = read_run_file(config.run), read_roster(path.with_name("roster.toml"))
            if has_own_files(run):
                require_network_run(run, len(roster))
                quorum_of(run, roster.names)
                terms_of(run, config.run, roster, roster.index(config.name), parts=1)
                return ""
        setup = load_node(path)
        if isinstance(setup.initial.parameters, ModelFile):
            setup.initial.parameters.discard()
        require_journal(setup)
    except InvalidInput as problem:
        return str(problem)
    return ""


def run_notes(folder: str | Path) -> tuple[str, ...]:
    """Return what anybody who looks at a network's folder, or a node's, has to be told of its run."""
    path = Path(folder) / "run.toml"
    try:
        silent = no_noise(read_run_file(path)) if path.is_file() else None
    except InvalidInput:  # what is wrong with it is said elsewhere
        silent = None
    return () if silent is None else (silent,)
