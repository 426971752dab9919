"""The journal of a node as a file: what was written is still there after a crash, a kill -9 or a power cut.

The file is an SQLite database (write-ahead log, one fsync per entry). Row 0 says whose journal it is, each further row
is an entry, and each carries a SHA-256 over the row before it. Parameters are kept apart, once per content, and only
those that are still needed; a row has their SHA-256. Those that come as a `ModelFile` become files of a folder beside
the journal: on the disk before the row that speaks of them, and deleted after the row that no longer needs them.

Beside it lies a small file, the witness. It is locked (flock) while the journal is open: unlike SQLite's own locks,
that holds before the first byte is read, and within one process, too; the kernel lifts it when the process dies. And it
has the number and digest of the newest entry, because SQLite takes a damaged or missing write-ahead log for the end of
the journal, and would forget the newest entries without a word. What nobody can tell is an old copy of all files.

`read_journal` looks at a journal without the lock, also while its node runs.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType

from ..errors import InvalidInput
from ._entries import (
    Release,
    ballot_from,
    copy_fields,
    copy_from,
    dated_entry,
    entry_fields,
    entry_from,
    entry_text,
    release_from,
    token_in,
)
from .journal import Entry, Kept, Memory, Over, Released
from .messages import Place, Token
from .model_file import ModelFile, ModelFolder, Parameters, digest_of, sync_folder

__all__ = [
    "JournalBroken",
    "JournalError",
    "JournalFile",
    "JournalFull",
    "JournalReading",
    "Release",
    "read_journal",
]

_FORMAT = 2
_APPLICATION = 0x736B7267
_ROOT = b"skipring journal"
_ATTEMPTS = 50
_TABLES = (
    "CREATE TABLE entries (number INTEGER PRIMARY KEY, body TEXT NOT NULL, digest BLOB NOT NULL)",
    "CREATE TABLE models (entry INTEGER PRIMARY KEY, parameters BLOB NOT NULL)",
)


class JournalError(Exception):
    """The journal cannot be written: the node must stop, because what is not recorded must not be released."""


class JournalFull(JournalError):
    """There is no room on the disk."""


class JournalBroken(JournalError):
    """The disk, or something else, failed."""


@dataclass(frozen=True)
class JournalReading:
    """A journal as it was at one moment. Models in files may be gone soon, if the node is running."""

    node: str
    run_digest: str
    memory: Memory
    releases: tuple[Release, ...]
    entries: tuple[tuple[float, Entry], ...]  # the oldest first, and when they were written


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
        found = _load(path, _read_witness(path, witness), node, run_digest)
        # The ledger grows in a list of its own: to make a new tuple for each release takes longer and longer.
        self._memory, self._ledger, self._releases = found.memory, found.ledger, found.releases
        self._whole: Memory | None = None
        self._count, self._digest = found.count, found.digest
        self._stored, self._files, self._needed = found.stored, found.files, found.needed
        self._folder = _folder(path)
        try:
            self._connection = _connect(path, "rw")
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
            raise _failure(path, error) from error

    @classmethod
    def create(cls, path: str | Path, *, node: str, run_digest: str, blank: Memory) -> JournalFile:
        """Make a new journal, which must not exist yet; `blank` is what every node knows before the run."""
        path = Path(path).resolve()
        if blank != Memory(blank.promised, blank.copy):
            raise InvalidInput("blank", "a memory with entries", "what a node knows before the run")
        if not path.parent.is_dir():
            raise InvalidInput.because("journal", path, "its folder does not exist")
        _require_nothing(path)
        witness = _lock(path, os.O_CREAT)
        try:
            _require_nothing(path)
            if (_read_witness(path, witness) or (0, ""))[0] > 0:
                raise InvalidInput.because("journal", path, "is missing, but its witness knows of entries in it")
            if _folder(path).models() - {digest_of(blank.copy.token.parameters)}:
                reason = f"is missing, but {path.name}-models has models; if nobody needs them, delete the folder"
                raise InvalidInput.because("journal", path, reason)
            try:
                _build(path, witness, node, run_digest, blank)
            except (sqlite3.Error, OSError) as error:
                raise _failure(path, error) from error
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
        witness = _lock(path, 0)
        try:
            return cls(path, witness, node, run_digest)
        except BaseException:
            os.close(witness)
            raise

    @property
    def memory(self) -> Memory:
        """What the entries add up to."""
        self._require_sound()
        if self._whole is None:
            self._whole = replace(self._memory, ledger=tuple(self._ledger))
        return self._whole

    @property
    def models(self) -> Path:
        """The folder of models that are kept in files; a `ModelWriter` for this journal writes into it."""
        return self._folder.path

    def releases(self) -> Iterator[Release]:
        """Go through the ledger, the oldest release first."""
        self._require_sound()
        return iter(tuple(self._releases))

    def entries(self) -> Iterator[tuple[float, Entry]]:
        """Go through all entries, the oldest first, each with the time it was written.

        Parameters that are no longer kept are empty.
        """
        self._require_sound()
        return self._entries(self._count)

    def append(self, *entries: Entry, written: float | None = None) -> None:
        """Write entries, all or none of them; they are on disk when this returns. `written` is the time, or now."""
        self._require_sound()
        self._failure = JournalBroken(f"journal {self.path}: the last entry was interrupted")
        try:
            self._append(entries, time.time() if written is None else written)
        except (sqlite3.Error, OSError, ArithmeticError, AttributeError, TypeError, ValueError) as error:
            self._failure = _failure(self.path, error)
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
        memory = self._memory.after(entry)
        execute = self._connection.execute
        for place in set(self._stored.values()) - set(stored.values()):  # first, so that the new ones take their room
            execute("DELETE FROM models WHERE entry = ?", (place,))
        if token is not None and name not in stored and name not in files:
            execute("INSERT INTO models VALUES (?, ?)", (number, token.parameters))
            stored[name] = number
        execute("INSERT INTO entries VALUES (?, ?, ?)", (number, body, digest))
        self._count, self._digest = number, digest
        if memory.ledger:
            self._ledger.extend(memory.ledger)
            memory = replace(memory, ledger=())
        self._memory, self._whole = memory, None
        self._stored, self._files, self._needed = stored, files, needed
        if isinstance(entry, Released):
            self._releases.append(release_from(json.loads(body)))

    def _name(self, token: Token) -> str:
        """Return the SHA-256 of the parameters; to compare them with the copy's is quicker than to compute it."""
        if token.parameters == self._memory.copy.token.parameters:
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
        return Over(token, entry.ballot)

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
            raise _failure(self.path, error) from error

    def _testify(self) -> None:
        _write_witness(self._witness, self._count, self._digest)


# The file.


@dataclass
class _Found:
    """What is in a journal. The memory has no ledger and no parameters while the entries are being read."""

    node: str
    run_digest: str
    memory: Memory
    digest: bytes  # of the newest row
    needed: dict[str, str]  # what for (initial, copy, outcome) -> SHA-256 of parameters
    ledger: list[Place] = field(default_factory=list)
    releases: list[Release] = field(default_factory=list)
    count: int = 0  # of entries; row 0 is none
    stored: dict[str, int] = field(default_factory=dict)  # SHA-256 of parameters -> the row that brought them
    files: dict[str, ModelFile] = field(default_factory=dict)  # SHA-256 of parameters -> their file
    models: dict[str, Parameters] = field(default_factory=dict)


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.as_uri()}?mode={mode}", uri=True, isolation_level=None)


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
        file = _folder(path).keep(parameters)
    copy = copy_fields(blank.copy, name, file)
    body = entry_text({"node": node, "run": run_digest, "promised": blank.promised, "copy": copy})
    digest = hashlib.sha256(_ROOT + body.encode()).digest()
    with closing(_connect(unfinished, "rw")) as connection:
        _tune(connection)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(f"PRAGMA application_id={_APPLICATION}")
        connection.execute(f"PRAGMA user_version={_FORMAT}")
        for table in _TABLES:
            connection.execute(table)
        connection.execute("INSERT INTO entries VALUES (0, ?, ?)", (body, digest))
        if file is None:
            connection.execute("INSERT INTO models VALUES (0, ?)", (parameters,))
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    _write_witness(witness, 0, digest)
    os.fsync(witness)
    unfinished.rename(path)
    sync_folder(path.parent)


def read_journal(path: str | Path, *, node: str | None = None, run_digest: str | None = None) -> JournalReading:
    """Read a journal as it is at this moment, without changing it and without being in its node's way.

    What is damaged, or is not the journal of that node and run (if they are given), is refused as `open` does.
    """
    path = Path(path).resolve()
    if not path.is_file():
        raise InvalidInput.because("journal", path, "does not exist")
    for attempt in range(_ATTEMPTS):
        # The witness first: the entries are never behind it. If it changes, the node is running, and a model may have
        # been deleted after the entries were read.
        witness = _witness_text(path)
        at_rest = not Path(f"{path}-wal").exists()
        bodies: list[bytes] = []
        try:
            known = _parse_witness(path, witness)
            found = _load(path, known, node, run_digest, mode="ro&immutable=1" if at_rest else "ro", bodies=bodies)
        except (InvalidInput, JournalError) as error:
            if witness != _witness_text(path) and attempt < _ATTEMPTS - 1:
                continue
            if isinstance(error, JournalError):
                raise InvalidInput.because("journal", path, f"cannot be read: {error.__cause__}") from error
            raise
        if at_rest and (Path(f"{path}-wal").exists() or witness != _witness_text(path)):
            continue  # the node was started: read anew, as one does while it runs
        memory = replace(found.memory, ledger=tuple(found.ledger))
        entries = tuple(dated_entry(body, found.models) for body in bodies)
        return JournalReading(found.node, found.run_digest, memory, tuple(found.releases), entries)
    raise InvalidInput.because("journal", path, "cannot be read: its node is started again and again")


def _witness_text(path: Path) -> bytes:
    try:
        with open(f"{path}-witness", "rb") as witness:
            return witness.read(200)
    except FileNotFoundError:
        raise _damaged(path, f"its witness, {path.name}-witness, is missing") from None
    except OSError as error:
        raise InvalidInput.because("journal", path, f"its witness cannot be opened: {error.strerror}") from error


def _load(
    path: Path,
    witness: tuple[int, str] | None,
    node: str | None,
    run_digest: str | None,
    mode: str = "ro",
    bodies: list[bytes] | None = None,
) -> _Found:
    """Read and check everything, without changing a byte of a journal that is refused."""
    if witness is None:
        raise _damaged(path, "its witness is empty")
    try:
        with ExitStack() as stack:
            connection = stack.enter_context(closing(_connect(path, mode)))
            connection.text_factory = bytes
            connection.execute("BEGIN")  # all of it as it is at one moment, which is now
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            opened = stack.enter_context(_folder(path).opened())  # before a node that runs deletes the newest
            _require_format(path, connection)
            found = _replayed(path, connection, witness, node, run_digest, bodies)
            connection.close()  # so that the log can be shortened while models are read
            for name, file in found.files.items():
                if name not in opened or not file.is_in(opened[name]):
                    raise _damaged(path, f"the parameters of a model, {file.path.name}, are missing or changed")
        return found
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise _damaged(path, "an entry makes no sense") from error
    except sqlite3.Error as error:
        if _code(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}:
            raise _failure(path, error) from error
        raise _damaged(path, str(error)) from error
    except OSError as error:
        raise _failure(path, error) from error


def _require_format(path: Path, connection: sqlite3.Connection) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != _APPLICATION:
        raise InvalidInput.because("journal", path, "is not a journal of skipring, or damaged")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != _FORMAT:
        raise InvalidInput.because("journal", path, f"has format {version}; this skipring reads format {_FORMAT}")
    tables = [row[0] for row in connection.execute("SELECT sql FROM sqlite_master ORDER BY name")]
    if tables != [table.encode() for table in _TABLES]:
        raise _damaged(path, "its tables are not those of a journal")
    if connection.execute("PRAGMA integrity_check").fetchall() != [(b"ok",)]:
        raise _damaged(path, "SQLite finds a page that is not in order")


def _replayed(
    path: Path,
    connection: sqlite3.Connection,
    witness: tuple[int, str],
    node: str | None,
    run_digest: str | None,
    bodies: list[bytes] | None,
) -> _Found:
    models: dict[str, Parameters] = {}
    stored: dict[str, int] = {}
    for place, parameters in connection.execute("SELECT entry, parameters FROM models ORDER BY entry"):
        name = digest_of(parameters)
        models[name], stored[name] = parameters, place
    rows = connection.execute("SELECT number, body, digest FROM entries ORDER BY number")
    digest, witnessed, found = _ROOT, False, None
    sizes: dict[str, int | None] = {}  # of those in files; where the same bytes were elsewhere before does not matter
    for count, (number, body, given) in enumerate(rows):
        digest = hashlib.sha256(digest + body).digest()
        if number != count or given != digest:
            raise _damaged(path, f"row {count} is missing or not what was written")
        witnessed |= witness == (count, digest.hex())
        fields = json.loads(body)
        token = fields["copy"]["token"] if "copy" in fields else fields.get("token")
        if token is not None:
            sizes[token["parameters"]] = token.get("file")
        if found is None:
            is_of = fields["node"], fields["run"]
            wanted = is_of[0] if node is None else node, is_of[1] if run_digest is None else run_digest
            if is_of != wanted:
                whose = "is of node {} in run {}, not of node {} in run {}".format(*is_of, *wanted)
                raise InvalidInput.because("journal", path, whose)
            memory = Memory(ballot_from(fields["promised"]), copy_from(fields["copy"], {}))
            name = token["parameters"]
            found = _Found(fields["node"], fields["run"], memory, digest, {"initial": name, "copy": name})
            continue
        if bodies is not None:
            bodies.append(body)
        memory = found.memory.after(entry_from(fields, {}))
        if memory.ledger:
            found.ledger.extend(memory.ledger)
            memory = replace(memory, ledger=())
        found.memory, found.count, found.digest = memory, count, digest
        if fields["entry"] == "Over":
            found.needed["outcome"] = token["parameters"]
        elif "copy" in fields:
            found.needed["copy"] = token["parameters"]
        if fields["entry"] == "Released":
            found.releases.append(release_from(fields))
    if found is None or not witnessed:
        raise _damaged(path, f"entries up to number {witness[0]} were written, and the newest are missing")
    for name in found.needed.values():
        size = sizes[name]
        if size is not None:
            models[name] = found.files[name] = _folder(path).model(name, size)
    in_rows = set(found.needed.values()) - found.files.keys()
    if in_rows != stored.keys() or len(stored) != len(set(stored.values())):
        raise _damaged(path, "the parameters of a model are missing or not what was written")
    found.stored, found.models = stored, models
    copy, outcome = found.memory.copy, found.memory.outcome
    copy = replace(copy, token=replace(copy.token, parameters=models[found.needed["copy"]]))
    if outcome is not None:
        outcome = replace(outcome, parameters=models[found.needed["outcome"]])
    found.memory = replace(found.memory, copy=copy, outcome=outcome)
    return found


def _folder(path: Path) -> ModelFolder:
    return ModelFolder(path.with_name(f"{path.name}-models"))


def _require_nothing(path: Path) -> None:
    if path.exists() or Path(f"{path}-wal").exists():
        raise InvalidInput.because("journal", path, "exists already")


def _lock(path: Path, create: int) -> int:
    try:
        witness = os.open(f"{path}-witness", os.O_RDWR | create, 0o600)
    except FileNotFoundError:
        raise _damaged(path, f"its witness, {path.name}-witness, is missing") from None
    except OSError as error:
        raise InvalidInput.because("journal", path, f"its witness cannot be opened: {error.strerror}") from error
    try:
        fcntl.flock(witness, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(witness)
        reason = "is in use by another process" if isinstance(error, BlockingIOError) else "cannot be locked"
        raise InvalidInput.because("journal", path, reason) from None
    return witness


def _read_witness(path: Path, witness: int) -> tuple[int, str] | None:
    return _parse_witness(path, os.pread(witness, 200, 0))


def _parse_witness(path: Path, text: bytes) -> tuple[int, str] | None:
    found = re.fullmatch(rb"([0-9]{20}) ([0-9a-f]{64})\n", text)
    if text and found is None:
        raise _damaged(path, "its witness is not what was written")
    return None if found is None else (int(found[1]), found[2].decode())


def _write_witness(witness: int, count: int, digest: bytes) -> None:
    """Not synced with each entry: after a power cut an older witness is a weaker one, but not a false one."""
    os.pwrite(witness, f"{count:020d} {digest.hex()}\n".encode(), 0)


def _damaged(path: Path, why: str) -> InvalidInput:
    return InvalidInput.because("journal", path, f"is damaged: {why}")


def _code(error: BaseException) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _failure(path: Path, error: BaseException) -> JournalError:
    no_room = isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}
    if no_room or _code(error) == sqlite3.SQLITE_FULL:
        return JournalFull(f"journal {path}: the disk is full; nothing more is recorded, so nothing may be released")
    return JournalBroken(f"journal {path}: cannot be written ({error}); nothing may be released")
