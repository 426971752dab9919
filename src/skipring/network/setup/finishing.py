"""Asking for a run to end: an owner's node signs the wish as soon as it runs, and a majority of them ends the run."""

from __future__ import annotations

from ..._writing import write_file, writing
from ...errors import InvalidInput
from ...runs import read_run_file
from ..node import FINISH, NodeConfig
from .local import node_result
from .run_mark import require_identity


def ask_to_finish(config: NodeConfig) -> bool:
    """Ask for the run of a node to end; return whether there was something to ask: False if the run is over there.

    The node takes it up within a second, or when it is started again. It cannot be taken back.
    """
    if config.run is None:
        raise InvalidInput.because("DIR", config.journal.parent, f"the settings of {config.name} say no run")
    identity = require_identity(read_run_file(config.run).network.identity, config.run)
    known = node_result(config.journal.parent)
    if known is not None and known.over:
        return False
    if not config.journal.exists():
        reason = f"{config.name} has not begun a run that could end"
        raise InvalidInput.because("DIR", config.journal.parent, reason)
    with writing("DIR", config.journal.parent):
        write_file(config.journal.parent / FINISH, f"{identity}\n", mode=0o600)
    return True
