"""The journal of a node as a file: what was written is still there after a crash, a kill -9 or a power cut.

The file is an SQLite database (write-ahead log, one fsync per row). Row 0 says whose journal it is, each further row
has the entries that were written at once, and each carries a SHA-256 over the row before it. Of a token a row has what
is new on it (`_entries`), so that rows do not grow with the run. Parameters are kept apart, once per content, and only
those that are still needed; a row has their SHA-256. Those that come as a `ModelFile` become files of a folder beside
the journal. They are on the disk before the row that speaks of them, and deleted after the row that no longer needs
them.

Now and then a row comes with what all rows up to it add up to (`_summary`), in the same transaction, so that one is
never there without the other. Only the newest such sum is kept. A start goes on from it.

Beside it lies a small file, the witness (`_witness`), which knows the newest entry, and is locked while the journal is
open. How all of it is read back, and checked, is in `journal_reading`.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from ..._writing import sync_folder
from ...errors import InvalidInput
from ..protocol import Account, Entry, Kept, Memory, Over, Parameters, Release, Released, Token
from ._entries import Line, Row, lines_in, token_in
from ._journal_errors import JournalBroken, JournalError, JournalUnusable, failure
from ._summary import Summary, now_needed
from ._witness import lock_witness, read_witness, write_witness
from .journal_reading import (
    APPLICATION,
    FORMAT,
    ROOT,
    TABLES,
    connect,
    first_row,
    folder_of,
    read_all,
    release_in,
    resumed,
)
from .model_file import ModelFile, digest_of

#: A start adds up at most `_ROWS` rows anew, of `_ROW_BYTES` on average: where there are many nodes, rows are longer,
#: and to add one up takes longer, too. Once a sum has become large, there may be more: one for each `_BYTES_PER_ROW` of
#: it.
_ROWS, _ROW_BYTES, _BYTES_PER_ROW = 1000, 400, 5000


class JournalFile:
    """The journal of one node in one run; `create` makes it, `open` goes on with it.

    It is used from one thread. After an error it refuses everything; the node is started anew from what is on disk.
    Models are written into its folder `models` after it was opened: what lies there before, and is not needed, is
    taken for the leavings of a crash. After `sum_after` rows it writes down what they add up to.
    """

    def __init__(self, path: Path, witness: int, node: str, run_digest: str, sum_after: int = _ROWS) -> None:
        self.path, self._sum_after = path, sum_after
        self._witness = witness
        self._failure: JournalError | None = None
        found = read_all(path, read_witness(path, witness), node, run_digest)
        self._fold, self._first = found.fold, found.first
        self._count, self._digest = found.count, found.digest
        self._summed, self._state_size, self._since = found.summed, found.state_size, found.since
        self._stored, self._files, self._needed = found.stored, found.files, found.needed
        self._folder = folder_of(path)
        try:
            self._connection = connect(path, "rw")
            try:
                _tune(self._connection)
                self._connection.text_factory = bytes  # as in `load`: a row is its bytes, whatever SQLite calls them
                # What a failed fsync may have left in memory only is written to the disk again.
                _, log, written = self._connection.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
                if written != log:
                    raise OSError("another process has been reading an older state of it for seconds")
                self._testify()
                os.fsync(witness)
                self._folder.tidy(self._files)
            except BaseException:
                self._connection.close()
                raise
        except (sqlite3.Error, OSError) as error:
            raise failure(path, error) from error

    @classmethod
    def create(
        cls, path: str | Path, *, node: str, run_digest: str, blank: Memory, sum_after: int = _ROWS
    ) -> JournalFile:
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
            return cls(path, witness, node, run_digest, sum_after)
        except BaseException:
            os.close(witness)
            raise

    @classmethod
    def open(cls, path: str | Path, *, node: str, run_digest: str, sum_after: int = _ROWS) -> JournalFile:
        """Open the journal of a node and a run, or refuse it if it is not that, is in use, or is damaged."""
        path = Path(path).resolve()
        if not path.is_file():
            raise InvalidInput.because("journal", path, "does not exist")
        witness = lock_witness(path, 0)
        try:
            return cls(path, witness, node, run_digest, sum_after)
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
        return (release for release in map(release_in, self._lines(0, self._first)) if release is not None)

    def entries(self) -> Iterator[tuple[float, Entry]]:
        """Go through all entries, the oldest first, each with the time it was written.

        Parameters that are no longer kept are empty.
        """
        self._require_sound()
        return ((line.written, line.entry) for line in self._lines(0, self._first))

    def follow(self, account: Account) -> None:
        """Tell an account of all entries so far, and from now on of each that is written.

        If its state is among what was written down last, it goes on from there. It is told before entries are on disk.
        An entry that it refuses is not written, and none after it.
        """
        self._require_sound()
        after, base, summary = 0, self._first, self._summary()
        if summary is not None and resumed(account, summary):
            after, base = self._summed, summary.memory.copy.token
        self._fold.follow(account, (line.entry for line in self._lines(after, base)))

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
        files, row, fresh = set(self._files), Row(float(written)), dict[str, Parameters]()
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        for entry in entries:
            self._put(entry, row, fresh)
            files |= self._files.keys()
        self._store(fresh)
        state = None
        if self._is_time_for_a_sum(row):
            state = Summary(self._fold.memory, self._needed, self._fold.states()).packed()
            execute("DELETE FROM states")
            execute("INSERT INTO states VALUES (?, ?)", (self._count + 1, state))
        body = row.content(state)
        digest = hashlib.sha256(self._digest + body).digest()
        execute("INSERT INTO entries VALUES (?, ?, ?)", (self._count + 1, body, digest))
        execute("COMMIT")
        self._count, self._digest, self._since = self._count + 1, digest, self._since + len(body)
        if state is not None:
            self._summed, self._state_size, self._since = self._count, len(state), 0
        self._testify()
        for gone in files - self._files.keys():
            self._folder.drop(gone)

    def _is_time_for_a_sum(self, row: Row) -> bool:
        rows = max(self._sum_after, self._state_size // _BYTES_PER_ROW)
        return self._count + 1 - self._summed >= rows or self._since + len(row) >= rows * _ROW_BYTES

    def _put(self, entry: Entry, row: Row, fresh: dict[str, Parameters]) -> None:
        """Add an entry to what will be committed; if that fails, this object refuses everything."""
        token, base = token_in(entry), self._fold.memory.copy.token
        if token is None:
            row.add(entry, base)
            self._fold.add(entry)
            return
        name = self._name(token)
        file = self._files.get(name)
        if not isinstance(token.parameters, ModelFile):
            fresh[name] = token.parameters
        elif file is None:
            file = self._folder.model(name, token.parameters.size)
        size = None if file is None else file.size
        row.add(entry, base, name, size)
        if isinstance(token.parameters, ModelFile):
            assert file is not None
            entry = self._with_file(entry, token, token.parameters, file)
        self._fold.add(entry)
        self._needed = now_needed(self._needed, "outcome" if isinstance(entry, Over) else "copy", name, size)
        files = self._files if file is None else {**self._files, name: file}
        kept = {each for each, _ in self._needed.values()}
        self._files = {each: its for each, its in files.items() if each in kept}

    def _store(self, fresh: Mapping[str, Parameters]) -> None:
        """Keep those models that are needed, and are in no file; no others."""
        needed = {name for name, size in self._needed.values() if size is None}
        stored = {name: at for name, at in self._stored.items() if name in needed}
        for place in set(self._stored.values()) - set(stored.values()):  # first, so that the new ones take their room
            self._connection.execute("DELETE FROM models WHERE entry = ?", (place,))
        for name in sorted(needed - stored.keys()):
            stored[name] = max(self._count, *stored.values(), 0) + 1
            self._connection.execute("INSERT INTO models VALUES (?, ?)", (stored[name], fresh[name]))
        self._stored = stored

    def _name(self, token: Token) -> str:
        """Return the SHA-256 of the parameters; to compare them with the copy's is quicker than to compute it."""
        if token.parameters == self._fold.newest:
            return self._needed["copy"][0]
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

    def _lines(self, after: int, base: Token) -> Iterator[Line]:
        """Go through the entries that there are now, from the row after one on; `base` is the newest token up to it."""
        count, page = self._count, 1000
        models: dict[str, Parameters] = dict(self._files)
        for name, place in self._stored.items():
            models[name] = self._read("SELECT parameters FROM models WHERE entry = ?", place)[0][0]
        return self._pages(range(after + 1, count + 1, page), count, base, models)

    def _pages(self, pages: range, count: int, base: Token, models: Mapping[str, Parameters]) -> Iterator[Line]:
        query = "SELECT body FROM entries WHERE number BETWEEN ? AND ? ORDER BY number"
        for first in pages:
            self._require_sound()
            for (body,) in self._read(query, first, min(count, first + pages.step - 1)):
                read = lines_in(body, base, models)
                base = read.base
                yield from read.lines

    def _summary(self) -> Summary | None:
        """Return what was written down last, if this version can read it."""
        found = self._read("SELECT state FROM states")
        return Summary.unpacked(found[0][0]) if found else None

    def _read(self, query: str, *values: int) -> list[Any]:
        try:
            return self._connection.execute(query, values).fetchall()
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
    body = first_row(node, run_digest, blank, name, None if file is None else file.size)
    digest = hashlib.sha256(ROOT + body).digest()
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
