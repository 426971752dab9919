"""What goes wrong with a journal: it is damaged, and refused; or it cannot be written, and its node must stop."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

from ...errors import InvalidInput


class JournalUnusable(InvalidInput):
    """The journal is damaged, of another run, or an old copy: its node must not go on with it, now or later."""


class JournalInUse(InvalidInput):
    """Another process has the journal open: its node can be started once that has ended."""


class JournalError(Exception):
    """The journal cannot be written: the node must stop, because what is not recorded must not be released."""


class JournalFull(JournalError):
    """There is no room on the disk."""


class JournalBroken(JournalError):
    """The disk, or something else, failed."""


def damaged(path: Path, why: str) -> JournalUnusable:
    """Return the refusal of a journal that is not what was written."""
    return JournalUnusable("journal", path, f"is damaged: {why}", must_be=False)


def code_of(error: BaseException) -> int:
    """Return SQLite's primary code of an error; 0 if it is not SQLite's."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def failure(path: Path, error: BaseException) -> JournalError:
    """Return why a journal cannot be written, for an error of SQLite or of the disk."""
    no_room = isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}
    if no_room or code_of(error) == sqlite3.SQLITE_FULL:
        return JournalFull(f"journal {path}: the disk is full; nothing more is recorded, so nothing may be released")
    return JournalBroken(f"journal {path}: cannot be written ({error}); nothing may be released")
