"""The journal of a node as a file: what was written is still there after a crash, a kill -9 or a power cut.

The file is an SQLite database (write-ahead log, one fsync per entry). Row 0 says whose journal it is, each further row
is an entry, and each carries a SHA-256 over the row before it. Parameters are kept apart, once per content, and only
those that are still needed; a row has their SHA-256.

Beside it lies a small file, the witness. It is locked (flock) while the journal is open: unlike SQLite's own locks,
that holds before the first byte is read, and within one process, too; the kernel lifts it when the process dies. And it
has the number and digest of the newest entry, because SQLite takes a damaged or missing write-ahead log for the end of
the journal, and would forget the newest entries without a word. What nobody can tell is an old copy of both files.
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
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from ..errors import InvalidInput
from .journal import Entry, Gone, Heard, Kept, Memory, Over, Passing, Released
from .messages import Ballot, Copy, Kind, Token

__all__ = ["JournalBroken", "JournalError", "JournalFile", "JournalFull", "Release"]

_FORMAT = 1
_APPLICATION = 0x736B7267
_ROOT = b"skipring journal"
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
class Release:
    """One line of the ledger: an own update, when it was written down, and the SHA-256 of its parameters."""

    ballot: Ballot
    hop: int
    updates: int
    written: float
    parameters: str


class JournalFile:
    """The journal of one node in one run; `create` makes it, `open` goes on with it.

    It is used from one thread. After an error it refuses everything; the node is started anew from what is on disk.
    """

    def __init__(self, path: Path, witness: int, node: str, run_digest: str) -> None:
        self.path = path
        self._witness = witness
        self._failure: JournalError | None = None
        found = _load(path, _read_witness(path, witness), node, run_digest)
        self._memory, self._releases = found.memory, found.releases
        self._count, self._digest = found.count, found.digest
        self._stored, self._needed = found.stored, found.needed
        try:
            self._connection = _connect(path, "rw")
            try:
                _tune(self._connection)
                # What a failed fsync may have left in memory only is written to the disk again.
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                self._testify()
                os.fsync(witness)
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
        return self._memory

    def releases(self) -> Iterator[Release]:
        """Go through the ledger, the oldest release first."""
        self._require_sound()
        return iter(tuple(self._releases))

    def append(self, entry: Entry, written: float | None = None) -> None:
        """Write an entry; it is on disk when this returns. `written` is the time, now if it is not given."""
        self._require_sound()
        self._failure = JournalBroken(f"journal {self.path}: the last entry was interrupted")
        try:
            self._append(entry, time.time() if written is None else written)
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

    def _append(self, entry: Entry, written: float) -> None:
        memory, number, needed = self._memory.after(entry), self._count + 1, dict(self._needed)
        token, name = None, ""
        if isinstance(entry, Over):
            token = entry.token
            name = needed["outcome"] = self._name(token)
        elif isinstance(entry, Kept | Released):
            token = entry.copy.token
            name = needed["copy"] = self._name(token)
        body = _text({"entry": type(entry).__name__, "written": float(written), **_fields(entry, name)})
        digest = hashlib.sha256(self._digest + body.encode()).digest()
        stored = {kept: place for kept, place in self._stored.items() if kept in needed.values()}
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        for place in set(self._stored.values()) - set(stored.values()):  # first, so that the new ones take their room
            execute("DELETE FROM models WHERE entry = ?", (place,))
        if token is not None and name not in stored:
            execute("INSERT INTO models VALUES (?, ?)", (number, token.parameters))
            stored[name] = number
        execute("INSERT INTO entries VALUES (?, ?, ?)", (number, body, digest))
        execute("COMMIT")
        self._count, self._digest = number, digest
        self._testify()
        self._memory, self._stored, self._needed = memory, stored, needed
        if isinstance(entry, Released):
            self._releases.append(_release(json.loads(body)))

    def _name(self, token: Token) -> str:
        """Return the SHA-256 of the parameters; to compare them with the copy's is quicker than to compute it."""
        if token.parameters == self._memory.copy.token.parameters:
            return self._needed["copy"]
        return _sha(token.parameters)

    def _testify(self) -> None:
        _write_witness(self._witness, self._count, self._digest)


# Entries as text. The names of fields are those of the classes; a token's parameters are replaced by their SHA-256.


def _sha(parameters: bytes) -> str:
    return hashlib.sha256(parameters).hexdigest()


def _text(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _token_fields(token: Token, name: str) -> dict[str, Any]:
    return {"updates": token.updates, "chain": token.chain.hex(), "parameters": name}


def _copy_fields(copy: Copy, name: str) -> dict[str, Any]:
    return {"ballot": copy.ballot, "hop": copy.hop, "kind": copy.kind.name, "token": _token_fields(copy.token, name)}


def _fields(entry: Entry, name: str) -> dict[str, Any]:
    if isinstance(entry, Heard):
        return {"ballot": entry.ballot}
    if isinstance(entry, Kept):
        return {"copy": _copy_fields(entry.copy, name), "sender": entry.sender}
    if isinstance(entry, Released):
        return {"copy": _copy_fields(entry.copy, name)}
    if isinstance(entry, Passing | Gone):
        return {"ballot": entry.ballot, "hop": entry.hop}
    return {"token": _token_fields(entry.token, name)}


def _ballot(numbers: list[int]) -> Ballot:
    number, node = numbers
    return number, node


def _token(fields: Mapping[str, Any], models: Mapping[str, bytes]) -> Token:
    return Token(fields["updates"], models.get(fields["parameters"], b""), bytes.fromhex(fields["chain"]))


def _copy(fields: Mapping[str, Any], models: Mapping[str, bytes]) -> Copy:
    token = _token(fields["token"], models)
    return Copy(_ballot(fields["ballot"]), fields["hop"], Kind[fields["kind"]], token)


def _entry(fields: Mapping[str, Any], models: Mapping[str, bytes]) -> Entry:
    kind = fields["entry"]
    if kind == "Heard":
        return Heard(_ballot(fields["ballot"]))
    if kind == "Kept":
        return Kept(_copy(fields["copy"], models), fields["sender"])
    if kind == "Released":
        return Released(_copy(fields["copy"], models))
    if kind in {"Passing", "Gone"}:
        return (Passing if kind == "Passing" else Gone)(_ballot(fields["ballot"]), fields["hop"])
    if kind == "Over":
        return Over(_token(fields["token"], models))
    raise ValueError(f"an entry of kind {kind}")


def _release(fields: Mapping[str, Any]) -> Release:
    copy, token = fields["copy"], fields["copy"]["token"]
    return Release(_ballot(copy["ballot"]), copy["hop"], token["updates"], fields["written"], token["parameters"])


# The file.


@dataclass
class _Found:
    memory: Memory
    releases: list[Release]
    count: int  # of entries; row 0 is none
    digest: bytes  # of the newest row
    stored: dict[str, int]  # SHA-256 of parameters -> the row that brought them
    needed: dict[str, str]  # what for (initial, copy, outcome) -> SHA-256 of parameters


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
    name = _sha(blank.copy.token.parameters)
    copy = _copy_fields(blank.copy, name)
    body = _text({"node": node, "run": run_digest, "promised": blank.promised, "copy": copy})
    digest = hashlib.sha256(_ROOT + body.encode()).digest()
    with closing(_connect(unfinished, "rw")) as connection:
        _tune(connection)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(f"PRAGMA application_id={_APPLICATION}")
        connection.execute(f"PRAGMA user_version={_FORMAT}")
        for table in _TABLES:
            connection.execute(table)
        connection.execute("INSERT INTO entries VALUES (0, ?, ?)", (body, digest))
        connection.execute("INSERT INTO models VALUES (0, ?)", (blank.copy.token.parameters,))
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    _write_witness(witness, 0, digest)
    os.fsync(witness)
    unfinished.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _load(path: Path, witness: tuple[int, str] | None, node: str, run_digest: str) -> _Found:
    """Read and check everything, without changing a byte of a journal that is refused."""
    if witness is None:
        raise _damaged(path, "its witness is empty")
    try:
        with closing(_connect(path, "ro")) as connection:
            connection.text_factory = bytes
            _require_format(path, connection)
            return _replayed(path, connection, witness, node, run_digest)
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise _damaged(path, "an entry makes no sense") from error
    except sqlite3.Error as error:
        if _code(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}:
            raise _failure(path, error) from error
        raise _damaged(path, str(error)) from error


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
    path: Path, connection: sqlite3.Connection, witness: tuple[int, str], node: str, run_digest: str
) -> _Found:
    models: dict[str, bytes] = {}
    stored: dict[str, int] = {}
    for place, parameters in connection.execute("SELECT entry, parameters FROM models ORDER BY entry"):
        name = _sha(parameters)
        models[name], stored[name] = parameters, place
    rows = connection.execute("SELECT number, body, digest FROM entries ORDER BY number")
    digest, witnessed, found = _ROOT, False, None
    for count, (number, body, given) in enumerate(rows):
        digest = hashlib.sha256(digest + body).digest()
        if number != count or given != digest:
            raise _damaged(path, f"row {count} is missing or not what was written")
        witnessed |= witness == (count, digest.hex())
        fields = json.loads(body)
        if found is None:
            if (fields["node"], fields["run"]) != (node, run_digest):
                whose = f"is of node {fields['node']} in run {fields['run']}, not of node {node} in run {run_digest}"
                raise InvalidInput.because("journal", path, whose)
            memory = Memory(_ballot(fields["promised"]), _copy(fields["copy"], models))
            name = fields["copy"]["token"]["parameters"]
            found = _Found(memory, [], 0, digest, stored, {"initial": name, "copy": name})
            continue
        found.memory, found.count, found.digest = found.memory.after(_entry(fields, models)), count, digest
        if fields["entry"] == "Over":
            found.needed["outcome"] = fields["token"]["parameters"]
        elif "copy" in fields:
            found.needed["copy"] = fields["copy"]["token"]["parameters"]
        if fields["entry"] == "Released":
            found.releases.append(_release(fields))
    if found is None or not witnessed:
        raise _damaged(path, f"entries up to number {witness[0]} were written, and the newest are missing")
    if set(found.needed.values()) != set(stored) or len(stored) != len(set(stored.values())):
        raise _damaged(path, "the parameters of a model are missing or not what was written")
    return found


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
    text = os.pread(witness, 200, 0)
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
