"""What a node's process ends with: one table, for the process, all that start one, and the documents."""

from __future__ import annotations

from enum import IntEnum

from ...errors import InvalidInput
from ..node import OldJournal
from ..storage import JournalInUse, JournalUnusable
from ..transport import AddressInUse


class ExitCode(IntEnum):
    """How `skipring node run` ends; what a signal or the system ends has another code, and may be started again."""

    #: The run is over, or the node was told to stop.
    DONE = 0
    #: It could not go on for now: the disk is full or fails, a port or the journal is in use, or there is a bug. A
    #: supervisor should start it again.
    FOR_NOW = 1
    #: Settings, keys, run file or data are wrong.
    SETTINGS = 2
    #: The journal is damaged, of another run, or an old copy: this node takes no further part in this run. Or so is
    #: the ledger of all its runs: it takes no part in any before the right one is back.
    JOURNAL = 3


def exit_code_of(problem: Exception) -> ExitCode:
    """Return what a node ends with that cannot go on for this reason."""
    if isinstance(problem, JournalUnusable | OldJournal):  # a LedgerUnusable is the first
        return ExitCode.JOURNAL
    if isinstance(problem, InvalidInput) and not isinstance(problem, JournalInUse | AddressInUse):
        return ExitCode.SETTINGS
    return ExitCode.FOR_NOW
