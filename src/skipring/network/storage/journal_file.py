"""The journal of a node as a file: what was written is still there after a crash, a kill -9 or a power cut.

The file is an SQLite database (write-ahead log, one fsync per entry). Row 0 says whose journal it is, each further row
is an entry, and each carries a SHA-256 over the row before it. Parameters are kept apart, once per content, and only
those that are still needed; a row has their SHA-256. Those that come as a `ModelFile` become files of a folder beside
the journal: on the disk before the row that speaks of them, and deleted after the row that no longer needs them.

Beside it lies a small file, the witness (`_witness`), which knows the newest entry, and is locked while the journal is
open. How all of it is read back, and checked, is in `journal_reading`.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from ...errors import InvalidInput
from ..protocol import Account, Entry, Kept, Memory, Over, Parameters, Release, Released, Token
from ._entries import copy_fields, dated_entry, entry_fields, entry_text, token_in
from ._journal_errors import JournalBroken, JournalError, JournalFull, JournalUnusable, failure
from ._witness import lock_witness, read_witness, write_witness
from .journal_reading import APPLICATION, FORMAT, ROOT, TABLES, JournalReading, connect, folder_of, load, read_journal
from .model_file import ModelFile, digest_of, sync_folder

__all__ = [
    "JournalBroken",
    "JournalError",
    "JournalFile",
    "JournalFull",
    "JournalReading",
    "read_journal",
]


class JournalFile:
    """The journal of one node in one run; `create` makes it, `open` goes on with it.

    It is used from one thread. After an error it refuses everything; the node is started anew from what is on disk.
    Models are written into its folder `models` after it was opened: what lies there before, and is not needed, is
    taken for the leavings of a crash.
    """

    def __init__(self, path: Path, witness: int, node: str, run_digest: str) -> None:
        self.path = path
        self._witness = witness
        self._failure: JournalError | None = None
        found = load(path, read_witness(path, witness), node, run_digest)
        self._fold = found.fold
        self._count, self._digest = found.count, found.digest
        self._stored, self._files, self._needed = found.stored, found.files, found.needed
        self._folder = folder_of(path)
        try:
            self._connection = connect(path, "rw")
            try:
                _tune(self._connection)
                # What a failed fsync may have left in memory only is written to the disk again.
                _, log, written = self._connection.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
                if written != log:
                    raise OSError("somebody has been reading an older state of it for seconds")
                self._testify()
                os.fsync(witness)
                self._folder.tidy(self._files)
            except BaseException:
                self._connection.close()
                raise
        except (sqlite3.Error, OSError) as error:
            raise failure(path, error) from error

    @classmethod
    def create(cls, path: str | Path, *, node: str, run_digest: str, blank: Memory) -> JournalFile:
        """Make a new journal, which must not exist yet; `blank` is what every node knows before the run."""
        path = Path(path).resolve()
        if blank != Memory(blank.promised, blank.copy):
            raise InvalidInput("blank", "a memory with entries", "what a node knows before the run")
        if not path.parent.is_dir():
            raise InvalidInput.because("journal", path, "its folder does not exist")
        _require_nothing(path)
        witness = lock_witness(path, os.O_CREAT)
        try:
            _require_nothing(path)
            if (read_witness(path, witness) or (0, ""))[0] > 0:
                raise JournalUnusable.because("journal", path, "is missing, but its witness knows of entries in it")
            if folder_of(path).models() - {digest_of(blank.copy.token.parameters)}:
                reason = f"is missing, but {path.name}-models has models; if nobody needs them, delete the folder"
                raise InvalidInput.because("journal", path, reason)
            try:
                _build(path, witness, node, run_digest, blank)
            except (sqlite3.Error, OSError) as error:
                raise failure(path, error) from error
            return cls(path, witness, node, run_digest)
        except BaseException:
            os.close(witness)
            raise

    @classmethod
    def open(cls, path: str | Path, *, node: str, run_digest: str) -> JournalFile:
        """Open the journal of a node and a run, or refuse it if it is not that, is in use, or is damaged."""
        path = Path(path).resolve()
        if not path.is_file():
            raise InvalidInput.because("journal", path, "does not exist")
        witness = lock_witness(path, 0)
        try:
            return cls(path, witness, node, run_digest)
        except BaseException:
            os.close(witness)
            raise

    @property
    def memory(self) -> Memory:
        """What the entries add up to."""
        self._require_sound()
        return self._fold.memory

    @property
    def models(self) -> Path:
        """The folder of models that are kept in files; a `ModelWriter` for this journal writes into it."""
        return self._folder.path

    def releases(self) -> Iterator[Release]:
        """Go through the ledger, the oldest release first."""
        self._require_sound()
        return iter(tuple(self._fold.releases))

    def entries(self) -> Iterator[tuple[float, Entry]]:
        """Go through all entries, the oldest first, each with the time it was written.

        Parameters that are no longer kept are empty.
        """
        self._require_sound()
        return self._entries(self._count)

    def follow(self, account: Account) -> None:
        """Tell an account of all entries so far, and from now on of each that is written.

        It is told before they are on disk. An entry that it refuses is not written, and none after it.
        """
        self._require_sound()
        self._fold.follow(account, (entry for _, entry in self._entries(self._count)))

    def append(self, *entries: Entry, written: float | None = None) -> None:
        """Write entries, all or none of them; they are on disk when this returns. `written` is the time, or now."""
        self._require_sound()
        self._failure = JournalBroken(f"journal {self.path}: the last entry was interrupted")
        try:
            self._append(entries, time.time() if written is None else written)
        except InvalidInput:
            raise  # an account has refused what was to be written, and says why
        except (sqlite3.Error, OSError, ArithmeticError, AttributeError, TypeError, ValueError) as error:
            self._failure = failure(self.path, error)
            raise self._failure from error
        self._failure = None

    def close(self) -> None:
        """Close the file, so that another process may open it."""
        if self._witness < 0:
            return
        self._failure = self._failure or JournalBroken(f"journal {self.path}: is closed")
        try:
            self._connection.close()
        finally:
            os.close(self._witness)
            self._witness = -1

    def __enter__(self) -> JournalFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _require_sound(self) -> None:
        if self._failure is not None:
            raise type(self._failure)(*self._failure.args)

    def _append(self, entries: Sequence[Entry], written: float) -> None:
        files = set(self._files)
        self._connection.execute("BEGIN IMMEDIATE")
        for entry in entries:
            self._put(entry, written)
            files |= self._files.keys()
        self._connection.execute("COMMIT")
        self._testify()
        for gone in files - self._files.keys():
            self._folder.drop(gone)

    def _put(self, entry: Entry, written: float) -> None:
        """Add an entry to what will be committed; if that fails, this object refuses everything."""
        number, token, name = self._count + 1, token_in(entry), ""
        needed, stored, files = self._needed, self._stored, self._files
        if token is not None:
            name = self._name(token)
            needed = {**needed, "outcome" if isinstance(entry, Over) else "copy": name}
            files = {kept: file for kept, file in files.items() if kept in needed.values()}
            if isinstance(token.parameters, ModelFile) and name not in files:
                files[name] = self._folder.model(name, token.parameters.size)
            stored = {kept: at for kept, at in stored.items() if kept in needed.values() and kept not in files}
        fields = entry_fields(entry, name, files.get(name))
        body = entry_text({"entry": type(entry).__name__, "written": float(written), **fields})
        digest = hashlib.sha256(self._digest + body.encode()).digest()
        if token is not None and isinstance(token.parameters, ModelFile):
            entry = self._with_file(entry, token, token.parameters, files[name])
        self._fold.add(entry, written=float(written), parameters=name)
        execute = self._connection.execute
        for place in set(self._stored.values()) - set(stored.values()):  # first, so that the new ones take their room
            execute("DELETE FROM models WHERE entry = ?", (place,))
        if token is not None and name not in stored and name not in files:
            execute("INSERT INTO models VALUES (?, ?)", (number, token.parameters))
            stored[name] = number
        execute("INSERT INTO entries VALUES (?, ?, ?)", (number, body, digest))
        self._count, self._digest = number, digest
        self._stored, self._files, self._needed = stored, files, needed

    def _name(self, token: Token) -> str:
        """Return the SHA-256 of the parameters; to compare them with the copy's is quicker than to compute it."""
        if token.parameters == self._fold.newest:
            return self._needed["copy"]
        return digest_of(token.parameters)

    def _with_file(self, entry: Entry, token: Token, given: ModelFile, file: ModelFile) -> Entry:
        """Take a model into the folder, and return the entry with the file that the journal has from now on."""
        if file.digest in self._files:
            self._folder.merge(given, file)
        else:
            self._folder.keep(given)
        token = replace(token, parameters=file)
        if isinstance(entry, Kept | Released):
            return replace(entry, copy=replace(entry.copy, token=token))
        assert isinstance(entry, Over)
        return replace(entry, token=token)

    def _entries(self, count: int) -> Iterator[tuple[float, Entry]]:
        models: dict[str, Parameters] = dict(self._files)
        page = 1000
        try:
            for name, place in self._stored.items():
                query = "SELECT parameters FROM models WHERE entry = ?"
                (models[name],) = self._connection.execute(query, (place,)).fetchone()
            for first in range(1, count + 1, page):
                self._require_sound()
                query = "SELECT body FROM entries WHERE number BETWEEN ? AND ? ORDER BY number"
                rows = self._connection.execute(query, (first, min(count, first + page - 1))).fetchall()
                yield from (dated_entry(body, models) for (body,) in rows)
        except sqlite3.Error as error:
            raise failure(self.path, error) from error

    def _testify(self) -> None:
        write_witness(self._witness, self._count, self._digest)


def _tune(connection: sqlite3.Connection) -> None:
    """See to it that an entry is on the disk itself, in one fsync, and that the log does not stay large."""
    (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
    if mode != "wal":
        raise OSError("the file system has no write-ahead log for SQLite")
    for pragma in ("synchronous=FULL", "fullfsync=ON", "journal_size_limit=1048576"):
        connection.execute(f"PRAGMA {pragma}").fetchall()


def _build(path: Path, witness: int, node: str, run_digest: str, blank: Memory) -> None:
    """Make the file under another name, so that one with the right name is always whole."""
    unfinished = path.with_name(f"{path.name}-new")
    for suffix in ("", "-wal", "-shm", "-journal"):
        Path(f"{unfinished}{suffix}").unlink(missing_ok=True)
    os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL, 0o600))
    parameters, name, file = blank.copy.token.parameters, digest_of(blank.copy.token.parameters), None
    if isinstance(parameters, ModelFile):
        file = folder_of(path).keep(parameters)
    copy = copy_fields(blank.copy, name, file)
    body = entry_text({"node": node, "run": run_digest, "promised": blank.promised, "copy": copy})
    digest = hashlib.sha256(ROOT + body.encode()).digest()
    with closing(connect(unfinished, "rw")) as connection:
        _tune(connection)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(f"PRAGMA application_id={APPLICATION}")
        connection.execute(f"PRAGMA user_version={FORMAT}")
        for table in TABLES:
            connection.execute(table)
        connection.execute("INSERT INTO entries VALUES (0, ?, ?)", (body, digest))
        if file is None:
            connection.execute("INSERT INTO models VALUES (0, ?)", (parameters,))
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    write_witness(witness, 0, digest)
    os.fsync(witness)
    unfinished.rename(path)
    sync_folder(path.parent)


def _require_nothing(path: Path) -> None:
    if path.exists() or Path(f"{path}-wal").exists():
        raise InvalidInput.because("journal", path, "exists already")
