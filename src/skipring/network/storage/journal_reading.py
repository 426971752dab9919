"""Reading a journal: all that is in it, checked, without changing a byte of it.

`JournalFile` reads its own when it is opened. `read_journal` looks at one without the lock, also while its node runs.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import InvalidInput
from ..protocol import Entry, Fold, Memory, Parameters, Release
from ._entries import ballot_from, copy_from, dated_entry, entry_from
from ._journal_errors import JournalError, JournalUnusable, code_of, damaged, failure
from ._witness import parse_witness, witness_text
from .model_file import ModelFile, ModelFolder, digest_of

__all__ = [
    "APPLICATION",
    "FORMAT",
    "ROOT",
    "TABLES",
    "Found",
    "JournalReading",
    "connect",
    "folder_of",
    "load",
    "read_journal",
]

# What the file is; `journal_file` makes it so.
FORMAT = 3
APPLICATION = 0x736B7267
ROOT = b"skipring journal"
TABLES = (
    "CREATE TABLE entries (number INTEGER PRIMARY KEY, body TEXT NOT NULL, digest BLOB NOT NULL)",
    "CREATE TABLE models (entry INTEGER PRIMARY KEY, parameters BLOB NOT NULL)",
)
_ATTEMPTS = 50


@dataclass(frozen=True)
class JournalReading:
    """A journal as it was at one moment. Models in files may be gone soon, if the node is running."""

    node: str
    run_digest: str
    memory: Memory
    releases: tuple[Release, ...]
    entries: tuple[tuple[float, Entry], ...]  # the oldest first, and when they were written


@dataclass
class Found:
    """What is in a journal. The fold has no parameters while the entries are being read."""

    node: str
    run_digest: str
    fold: Fold
    digest: bytes  # of the newest row
    needed: dict[str, str]  # what for (initial, copy, outcome) -> SHA-256 of parameters
    count: int = 0  # of entries; row 0 is none
    stored: dict[str, int] = field(default_factory=dict)  # SHA-256 of parameters -> the row that brought them
    files: dict[str, ModelFile] = field(default_factory=dict)  # SHA-256 of parameters -> their file
    models: dict[str, Parameters] = field(default_factory=dict)


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
        witness = witness_text(path)
        at_rest = not Path(f"{path}-wal").exists()
        bodies: list[bytes] = []
        try:
            known = parse_witness(path, witness)
            found = load(path, known, node, run_digest, mode="ro&immutable=1" if at_rest else "ro", bodies=bodies)
        except (InvalidInput, JournalError) as error:
            if witness != witness_text(path) and attempt < _ATTEMPTS - 1:
                continue
            if isinstance(error, JournalError):
                raise InvalidInput.because("journal", path, f"cannot be read: {error.__cause__}") from error
            raise
        if at_rest and (Path(f"{path}-wal").exists() or witness != witness_text(path)):
            continue  # the node was started: read anew, as one does while it runs
        entries = tuple(dated_entry(body, found.models) for body in bodies)
        return JournalReading(found.node, found.run_digest, found.fold.memory, tuple(found.fold.releases), entries)
    raise InvalidInput.because("journal", path, "cannot be read: its node is started again and again")


def load(
    path: Path,
    witness: tuple[int, str] | None,
    node: str | None,
    run_digest: str | None,
    mode: str = "ro",
    bodies: list[bytes] | None = None,
) -> Found:
    """Read and check everything, without changing a byte of a journal that is refused."""
    if witness is None:
        raise damaged(path, "its witness is empty")
    try:
        with ExitStack() as stack:
            connection = stack.enter_context(closing(connect(path, mode)))
            connection.text_factory = bytes
            connection.execute("BEGIN")  # all of it as it is at one moment, which is now
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            opened = stack.enter_context(folder_of(path).opened())  # before a node that runs deletes the newest
            _require_format(path, connection)
            found = _replayed(path, connection, witness, node, run_digest, bodies)
            connection.close()  # so that the log can be shortened while models are read
            for name, file in found.files.items():
                if name not in opened or not file.is_in(opened[name]):
                    raise damaged(path, f"the parameters of a model, {file.path.name}, are missing or changed")
        return found
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise damaged(path, "an entry makes no sense") from error
    except sqlite3.Error as error:
        if code_of(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}:
            raise failure(path, error) from error
        raise damaged(path, str(error)) from error
    except OSError as error:
        raise failure(path, error) from error


def _require_format(path: Path, connection: sqlite3.Connection) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION:
        raise JournalUnusable.because("journal", path, "is not a journal of skipring, or damaged")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != FORMAT:
        raise JournalUnusable.because("journal", path, f"has format {version}; this skipring reads format {FORMAT}")
    tables = [row[0] for row in connection.execute("SELECT sql FROM sqlite_master ORDER BY name")]
    if tables != [table.encode() for table in TABLES]:
        raise damaged(path, "its tables are not those of a journal")
    if connection.execute("PRAGMA integrity_check").fetchall() != [(b"ok",)]:
        raise damaged(path, "SQLite finds a page that is not in order")


def _replayed(
    path: Path,
    connection: sqlite3.Connection,
    witness: tuple[int, str],
    node: str | None,
    run_digest: str | None,
    bodies: list[bytes] | None,
) -> Found:
    models: dict[str, Parameters] = {}
    stored: dict[str, int] = {}
    for place, parameters in connection.execute("SELECT entry, parameters FROM models ORDER BY entry"):
        name = digest_of(parameters)
        models[name], stored[name] = parameters, place
    rows = connection.execute("SELECT number, body, digest FROM entries ORDER BY number")
    digest, witnessed, found = ROOT, False, None
    sizes: dict[str, int | None] = {}  # of those in files; where the same bytes were elsewhere before does not matter
    for count, (number, body, given) in enumerate(rows):
        digest = hashlib.sha256(digest + body).digest()
        if number != count or given != digest:
            raise damaged(path, f"row {count} is missing or not what was written")
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
                raise JournalUnusable.because("journal", path, whose)
            memory = Memory(ballot_from(fields["promised"]), copy_from(fields["copy"], {}))
            name = token["parameters"]
            found = Found(fields["node"], fields["run"], Fold(memory), digest, {"initial": name, "copy": name})
            continue
        if bodies is not None:
            bodies.append(body)
        name = "" if token is None else token["parameters"]
        found.fold.add(entry_from(fields, {}), written=fields["written"], parameters=name)
        found.count, found.digest = count, digest
        if fields["entry"] == "Over":
            found.needed["outcome"] = name
        elif "copy" in fields:
            found.needed["copy"] = name
    if found is None or not witnessed:
        raise damaged(path, f"entries up to number {witness[0]} were written, and the newest are missing")
    for name in found.needed.values():
        size = sizes[name]
        if size is not None:
            models[name] = found.files[name] = folder_of(path).model(name, size)
    in_rows = set(found.needed.values()) - found.files.keys()
    if in_rows != stored.keys() or len(stored) != len(set(stored.values())):
        raise damaged(path, "the parameters of a model are missing or not what was written")
    found.stored, found.models = stored, models
    outcome = found.needed.get("outcome")
    found.fold.refill(models[found.needed["copy"]], None if outcome is None else models[outcome])
    return found


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Connect to the file of a journal; transactions are begun by hand."""
    return sqlite3.connect(f"{path.as_uri()}?mode={mode}", uri=True, isolation_level=None)


def folder_of(path: Path) -> ModelFolder:
    """Return the folder of a journal's models that are kept in files."""
    return ModelFolder(path.with_name(f"{path.name}-models"))
