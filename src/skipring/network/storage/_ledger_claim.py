"""Who counts with a ledger: for each node of a run one process, since two copies of a node would be counted as one.

Each of two copies of a node's folder has a journal of its own, whose lock says nothing about the other. So a process
that takes part holds a lock (flock) on a small file beside the ledger, which is named after run and node. The kernel
lifts it when the process dies; the file is removed by who has held it, or by the next one.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import weakref
from pathlib import Path

from ..._json import json_text
from ...errors import InvalidInput
from ._journal_errors import JournalInUse


class LedgerInUse(JournalInUse):
    """Another process takes part in the same run as the same node: this one can be started once that has ended."""


class LedgerClaim:
    """Held by the process that takes part in a run as a node, until `release` or until it is forgotten.

    Parameters
    ----------
    ledger : the path of the ledger.
    run, node : the run's identity, and the node's name.
    """

    def __init__(self, ledger: Path, run: str, node: str) -> None:
        real = ledger.resolve()
        name = hashlib.sha256(json_text([run, node]).encode()).hexdigest()[:12]
        self._path = real.with_name(f"{real.name}-{name}.lock")
        try:
            file = self._locked()
        except BlockingIOError:
            reason = f"another process takes part in this run as {node}, perhaps from a copy of its folder"
            raise LedgerInUse.because("budget.ledger", ledger, reason) from None
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            reason = "its folder may not be written to, and a node that runs keeps a lock there"
            raise InvalidInput.because("budget.ledger", ledger, reason) from None
        self._close = weakref.finalize(self, os.close, file)

    def _locked(self) -> int:
        while True:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._is_there(file):
                    return file
            except BaseException:
                os.close(file)
                raise
            os.close(file)

    def _is_there(self, file: int) -> bool:
        """Say whether a file that was locked is still the one with that name: who had it may have just removed it."""
        try:
            return os.path.samestat(os.fstat(file), os.stat(self._path))
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Let another process take part."""
        if self._close.alive:
            with contextlib.suppress(OSError):  # else it stays there, and is of no harm
                self._path.unlink()  # before the lock is lifted, so that it is nobody else's
            self._close()
