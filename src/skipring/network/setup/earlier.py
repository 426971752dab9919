"""Earlier runs of a node, which `skipring network new-run` puts away: where they are, and how to read them."""

from __future__ import annotations

from pathlib import Path

from ..._command import command
from ...errors import InvalidInput
from ..node import NodeConfig, read_node_config

#: The folder of earlier runs, beside the journal.
RUNS = "runs"
#: The node's settings as they were in an earlier run. It is not called node.toml: nobody is to start a node with it.
SETTINGS = "settings.toml"
#: How many earlier runs are named; more would hide what is said of them.
_NAMED = 4


def files_of(folder: Path) -> tuple[NodeConfig, Path]:
    """Return the settings of a node's folder, or of an earlier run of a node, and where its roster is.

    Relative paths in the settings start at the node's folder, also those of an earlier run; its journal and its run
    file are beside them.
    """
    if (folder / "node.toml").is_file():
        return read_node_config(folder / "node.toml"), folder / "roster.toml"
    where = folder.absolute()
    home = where.parent.parent
    kept = where / SETTINGS
    if not kept.is_file() and where.parent.name == RUNS and (where / "run.toml").is_file():
        kept = home / "node.toml"  # it was put away by a version that did not keep the settings
    if not kept.is_file():
        raise InvalidInput.because("DIR", folder, "is not the folder of a node: there is no node.toml in it")
    config = read_node_config(kept, start=home)
    here = {"journal": where / config.journal.name, "run": where / "run.toml"}
    return config.model_copy(update=here), where / "roster.toml"


def why_no_journal(folder: Path, config: NodeConfig) -> str:
    """Say of a node without a journal whether it has run before, and where that is told of."""
    runs = config.journal.parent / RUNS
    found = sorted(runs.glob(f"*/{config.journal.name}"), key=lambda path: (path.stat().st_mtime, path))
    earlier = [path.parent.name for path in found]
    if not earlier:
        return "has no journal: the node has not run yet, and given nothing away"
    shown = folder / RUNS if folder.absolute() == runs.parent else runs
    names = ", ".join(earlier[-_NAMED:]) + (f" and {len(earlier) - _NAMED} before" if len(earlier) > _NAMED else "")
    which = f" {shown} has {names}; for the last:" if len(earlier) > 1 else ""
    told = f"; all together: {command('node', 'ledger', folder)}" if config.budget.ledger is not None else ""
    return (
        f"no update in this run yet, but the node has taken part before, and what it gave away then stays given away:"
        f"{which} {command('node', 'privacy', shown / earlier[-1])}{told}"
    )
