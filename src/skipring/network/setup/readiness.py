"""Whether a node would start: what `skipring node run` reads before it begins is read, and nothing is begun."""

from __future__ import annotations

from pathlib import Path

from ...errors import InvalidInput
from ...runs import no_noise, read_run_file
from ..storage import JournalError, ModelFile
from .agreed_values import agreement_of
from .load import load_node, require_journal
from .local import read_network

__all__ = ["differing_runs", "run_notes", "why_not_started"]


def why_not_started(folder: str | Path) -> str:
    """Say why a node would not start with its run, data, model, journal and ledger; nothing if it would."""
    try:
        setup = load_node(Path(folder) / "node.toml")
        if isinstance(setup.initial.parameters, ModelFile):
            setup.initial.parameters.discard()
        require_journal(setup)
        if setup.ledger is not None:
            setup.ledger.require()
    except (InvalidInput, JournalError) as problem:
        return str(problem)
    return ""


def differing_runs(folder: str | Path) -> dict[str, str]:
    """Say of the nodes of a network whose run file is not that of the network where it differs."""
    folder = Path(folder)
    path = folder / "run.toml"
    if not path.is_file():
        return {}
    roster, configs = read_network(folder)
    ours, found = agreement_of(read_run_file(path), roster, {}), {}
    for config in configs:
        theirs = ours if config.run is None else agreement_of(read_run_file(config.run), roster, {})
        if keys := ours.differing(theirs.marks):
            found[config.name] = f"run.toml differs from the network's: {ours.compared(theirs.shown(keys))}"
    return found


def run_notes(folder: str | Path) -> tuple[str, ...]:
    """Return what anybody who looks at a network's folder, or a node's, has to be told of its run."""
    path = Path(folder) / "run.toml"
    try:
        silent = no_noise(read_run_file(path)) if path.is_file() else None
    except InvalidInput:  # what is wrong with it is said elsewhere
        silent = None
    return () if silent is None else (silent,)
