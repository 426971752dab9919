"""The witness of a journal: a small file beside it, which knows how far it goes.

It is locked (flock) while the journal is open: unlike SQLite's own locks, that holds before the first byte is read, and
within one process, too. The kernel lifts it when the process dies. And it has the number and digest of the newest
entry. SQLite alone takes a damaged or missing write-ahead log for the end of the journal, and would forget the newest
entries without a word. What nobody can tell is an old copy of all files.
"""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path

from ...errors import InvalidInput
from ._journal_errors import JournalInUse, damaged


def lock_witness(path: Path, create: int) -> int:
    """Open and lock the witness of a journal; `create` is os.O_CREAT if there may be none yet."""
    try:
        witness = os.open(f"{path}-witness", os.O_RDWR | create, 0o600)
    except FileNotFoundError:
        raise damaged(path, f"its witness, {path.name}-witness, is missing") from None
    except OSError as error:
        raise InvalidInput.because("journal", path, f"its witness cannot be opened: {error.strerror}") from error
    try:
        fcntl.flock(witness, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(witness)
        if isinstance(error, BlockingIOError):
            raise JournalInUse.because("journal", path, "is in use by another process") from None
        raise InvalidInput.because("journal", path, "cannot be locked") from None
    return witness


def witness_text(path: Path) -> bytes:
    """Return what the witness says at this moment, without the lock."""
    try:
        with open(f"{path}-witness", "rb") as witness:
            return witness.read(200)
    except FileNotFoundError:
        raise damaged(path, f"its witness, {path.name}-witness, is missing") from None
    except OSError as error:
        raise InvalidInput.because("journal", path, f"its witness cannot be opened: {error.strerror}") from error


def read_witness(path: Path, witness: int) -> tuple[int, str] | None:
    """Return the number and digest that an open witness has; None if it is empty."""
    return parse_witness(path, os.pread(witness, 200, 0))


def parse_witness(path: Path, text: bytes) -> tuple[int, str] | None:
    """Return the number and digest in the text of a witness; None if it is empty."""
    found = re.fullmatch(rb"([0-9]{20}) ([0-9a-f]{64})\n", text)
    if text and found is None:
        raise damaged(path, "its witness is not what was written")
    return None if found is None else (int(found[1]), found[2].decode())


def write_witness(witness: int, count: int, digest: bytes) -> None:
    """Write the number and digest of the newest entry.

    Not synced with each entry: after a power cut an older witness is a weaker one, but not a false one.
    """
    os.pwrite(witness, f"{count:020d} {digest.hex()}\n".encode(), 0)
