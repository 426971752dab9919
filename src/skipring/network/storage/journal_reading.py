"""Reading a journal: all that is in it, checked, without changing a byte of it.

`JournalFile` reads its own when it is opened. `sum_journal` and `read_journal` look at one without the lock, also while
its node runs. Each row is checked; what they add up to is taken from where it was last written down (`Summary`), and
from the rows after it.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ...errors import InvalidInput
from ..protocol import (
    Account,
    Copy,
    Entry,
    Fold,
    Kept,
    Kind,
    Memory,
    Over,
    Parameters,
    Release,
    Released,
    Resumable,
    Token,
)
from ._entries import Line, lines_in, sum_of
from ._journal_errors import JournalError, JournalUnusable, code_of, damaged, failure
from ._summary import Summary, now_needed
from ._witness import parse_witness, witness_text
from .model_file import ModelFile, ModelFolder, digest_of

# What the file is; `journal_file` makes it so.
FORMAT = 4
APPLICATION = 0x736B7267
ROOT = b"skipring journal"
TABLES = (
    "CREATE TABLE entries (number INTEGER PRIMARY KEY, body BLOB NOT NULL, digest BLOB NOT NULL)",
    "CREATE TABLE models (entry INTEGER PRIMARY KEY, parameters BLOB NOT NULL)",
    "CREATE TABLE states (entry INTEGER PRIMARY KEY, state BLOB NOT NULL)",
)
_ATTEMPTS = 50


@dataclass(frozen=True)
class JournalSum:
    """What a journal added up to at one moment. Models in files may be gone soon, if the node is running."""

    node: str
    run_digest: str
    memory: Memory


@dataclass(frozen=True)
class JournalReading(JournalSum):
    """A journal as it was at one moment, with all of its entries: for those who look at each, since they are many."""

    releases: tuple[Release, ...]
    entries: tuple[tuple[float, Entry], ...]  # the oldest first, and when they were written


@dataclass
class Found:
    """What is in a journal. The fold has no parameters while the rows are being read."""

    node: str
    run_digest: str
    first: Token  # of the copy that every node begins with, without parameters
    fold: Fold
    needed: dict[str, tuple[str, int | None]]
    digest: bytes = b""  # of the newest row
    count: int = 0  # of rows after the first one, which has no entries
    summed: int = 0  # the newest row that `states` goes up to
    state_size: int = 0  # of that sum
    since: int = 0  # how many bytes the rows have that came after it
    stored: dict[str, int] = field(default_factory=dict)  # SHA-256 of parameters -> the number they are stored under
    files: dict[str, ModelFile] = field(default_factory=dict)  # SHA-256 of parameters -> their file
    models: dict[str, Parameters] = field(default_factory=dict)
    rows: list[bytes] = field(default_factory=list)  # all of them, if they are asked for

    def take(self, row: bytes) -> None:
        """Add up a row."""
        for line in lines_in(row, self.fold.memory.copy.token, {}).lines:
            self.fold.add(line.entry)
            if isinstance(line.entry, Kept | Released | Over):
                use = "outcome" if isinstance(line.entry, Over) else "copy"
                self.needed = now_needed(self.needed, use, line.parameters, line.file)

    def lines(self) -> Iterator[Line]:
        """Go through all entries; those whose parameters are still there have them."""
        base = self.first
        for row in self.rows:
            read = lines_in(row, base, self.models)
            base = read.base
            yield from read.lines


#: Makes the account that a journal's entries are told to, given what the journal says of its run.
MakeAccount = Callable[[str], Account]
_Read = TypeVar("_Read", bound=JournalSum)


def sum_journal(
    path: str | Path, *, node: str | None = None, run_digest: str | None = None, account: MakeAccount | None = None
) -> JournalSum:
    """Return what a journal adds up to at this moment, without changing it and without being in its node's way.

    What is damaged, or is not the journal of that node and run (if they are given), is refused as `open` does. The
    `account` that is made is told of all entries; it is made once more if the file has changed meanwhile.
    """

    def found(path: Path, witness: tuple[int, str] | None, mode: str) -> JournalSum:
        all_of_it = read_all(path, witness, node, run_digest, mode=mode, account=account)
        return JournalSum(all_of_it.node, all_of_it.run_digest, all_of_it.fold.memory)

    return _at_one_moment(path, found)


def read_journal(path: str | Path, *, node: str | None = None, run_digest: str | None = None) -> JournalReading:
    """Read a journal as `sum_journal` does, with all of its entries, which must have room in memory."""

    def found(path: Path, witness: tuple[int, str] | None, mode: str) -> JournalReading:
        all_of_it = read_all(path, witness, node, run_digest, mode=mode, keep=True)
        lines = tuple(all_of_it.lines())
        releases = tuple(line for line in map(release_in, lines) if line is not None)
        entries = tuple((line.written, line.entry) for line in lines)
        return JournalReading(all_of_it.node, all_of_it.run_digest, all_of_it.fold.memory, releases, entries)

    return _at_one_moment(path, found)


def _at_one_moment(path: str | Path, read: Callable[[Path, tuple[int, str] | None, str], _Read]) -> _Read:
    path = Path(path).resolve()
    if not path.is_file():
        raise InvalidInput.because("journal", path, "does not exist")
    for attempt in range(_ATTEMPTS):
        # The witness first: the rows are never behind it. If it changes, the node is running, and a model may have
        # been deleted after the rows were read.
        witness = witness_text(path)
        at_rest = not Path(f"{path}-wal").exists()
        try:
            found = read(path, parse_witness(path, witness), "ro&immutable=1" if at_rest else "ro")
        except (InvalidInput, JournalError) as error:
            if witness != witness_text(path) and attempt < _ATTEMPTS - 1:
                continue
            if isinstance(error, JournalError):
                raise InvalidInput.because("journal", path, f"cannot be read: {error.__cause__}") from error
            raise
        if at_rest and (Path(f"{path}-wal").exists() or witness != witness_text(path)):
            continue  # the node was started: read anew, as one does while it runs
        return found
    raise InvalidInput.because("journal", path, "cannot be read: its node is started again and again")


def release_in(line: Line) -> Release | None:
    """Return the release that an entry is, if it is one."""
    if not isinstance(line.entry, Released):
        return None
    copy = line.entry.copy
    return Release(copy.ballot, copy.hop, copy.token.updates, line.written, line.parameters)


def read_all(
    path: Path,
    witness: tuple[int, str] | None,
    node: str | None,
    run_digest: str | None,
    mode: str = "ro",
    *,
    keep: bool = False,
    account: MakeAccount | None = None,
) -> Found:
    """Read and check everything, without changing a byte of a journal that is refused; `keep` all rows, if asked."""
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
            found = _added_up(path, connection, witness, (node, run_digest), keep, account)
            _take_models(path, connection, found)
            connection.close()  # so that the log can be shortened while models are read
            for name, file in found.files.items():
                if name not in opened or not file.is_in(opened[name]):
                    raise damaged(path, f"the parameters of a model, {file.path.name}, are missing or changed")
        return found
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
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


def _added_up(
    path: Path,
    connection: sqlite3.Connection,
    witness: tuple[int, str],
    whose: tuple[str | None, str | None],
    keep: bool,
    account: MakeAccount | None,
) -> Found:
    """Check all rows, and add up those that were not added up before they were written."""
    summed, state = _sum_in(path, connection)
    rows = connection.execute("SELECT number, body, digest FROM entries ORDER BY number")
    digest, count, begin, found = ROOT, -1, 0, None
    witnessed, (witness_at, witness_digest) = False, witness
    sha256 = hashlib.sha256
    for count, (number, body, given) in enumerate(rows):
        digest = sha256(digest + body).digest()
        if number != count or given != digest:
            raise damaged(path, f"row {count} is missing or not what was written")
        if count == witness_at:
            witnessed = digest.hex() == witness_digest
        if found is None:
            found, begin = _begun(path, json.loads(body), whose, summed, state, account)
            continue
        if keep:
            found.rows.append(body)
        if count > summed:
            found.since += len(body)
            if sum_of(body) is not None:
                raise damaged(path, f"what the rows up to {count} add up to is missing")
        if count > begin:
            found.take(body)
    if found is None or not witnessed:
        raise damaged(path, f"entries up to number {witness_at} were written, and the newest are missing")
    found.count, found.digest, found.summed, found.state_size = count, digest, summed, len(state)
    return found


def _sum_in(path: Path, connection: sqlite3.Connection) -> tuple[int, bytes]:
    """Return what the rows up to one add up to, as it was written down, if it was; that row has its SHA-256."""
    states = connection.execute("SELECT entry, state FROM states").fetchall()
    if not states:
        return 0, b""
    (summed, state), *more = states
    row = connection.execute("SELECT body FROM entries WHERE number = ?", (summed,)).fetchone()
    if more or not summed or row is None or sum_of(row[0]) != hashlib.sha256(state).digest():
        raise damaged(path, f"what the rows up to {summed} add up to is not what was written")
    return summed, state


def _begun(
    path: Path,
    fields: dict[str, Any],
    whose: tuple[str | None, str | None],
    summed: int,
    state: bytes,
    account: MakeAccount | None,
) -> tuple[Found, int]:
    """Return what is known from the first row, or from the sum, and the row up to which that is all."""
    is_of = fields["node"], fields["run"]
    wanted = is_of[0] if whose[0] is None else whose[0], is_of[1] if whose[1] is None else whose[1]
    if is_of != wanted:
        text = "is of node {} in run {}, not of node {} in run {}".format(*is_of, *wanted)
        raise JournalUnusable.because("journal", path, text)
    number, node = fields["promised"]
    copy = _first_copy(fields["copy"])
    name, size = fields["copy"]["parameters"], fields["copy"].get("file")
    needed = {"initial": (name, size), "copy": (name, size)}
    memory, begin = Memory((number, node), copy), 0
    accounts = [] if account is None else [account(is_of[1])]
    summary = Summary.unpacked(state) if summed else None
    if summary is not None and all(resumed(each, summary) for each in accounts):
        memory, needed, begin = summary.memory, dict(summary.needed), summed
    return Found(*is_of, copy.token, Fold(memory, *accounts), needed), begin


def resumed(account: Account, summary: Summary) -> bool:
    """Let an account go on from a sum, if its state is there; say whether it was."""
    return isinstance(account, Resumable) and any(account.resume(state) for state in summary.accounts)


def _take_models(path: Path, connection: sqlite3.Connection, found: Found) -> None:
    """Take the parameters that are still needed, and see that they are all there, and no others."""
    models: dict[str, Parameters] = {}
    for place, parameters in connection.execute("SELECT entry, parameters FROM models ORDER BY entry"):
        name = digest_of(parameters)
        models[name], found.stored[name] = parameters, place
    for name, size in found.needed.values():
        if size is not None:
            models[name] = found.files[name] = folder_of(path).model(name, size)
    in_rows = {name for name, _ in found.needed.values()} - found.files.keys()
    if in_rows != found.stored.keys() or len(found.stored) != len(set(found.stored.values())):
        raise damaged(path, "the parameters of a model are missing or not what was written")
    found.models = models
    outcome = found.needed.get("outcome")
    found.fold.refill(models[found.needed["copy"][0]], None if outcome is None else models[outcome[0]])


def first_row(node: str, run_digest: str, blank: Memory, name: str, size: int | None) -> bytes:
    """Return the first row of a journal: whose it is, and what every node knows before the run."""
    copy, token = blank.copy, blank.copy.token
    fields: dict[str, Any] = {
        "ballot": copy.ballot,
        "hop": copy.hop,
        "kind": copy.kind.name,
        "updates": token.updates,
        "chain": token.chain.hex(),
        "stamps": [(signer, stamp.hex()) for signer, stamp in token.stamps],
        "parameters": name,
    }
    if size is not None:
        fields["file"] = size
    row = {"node": node, "run": run_digest, "promised": blank.promised, "copy": fields}
    return json.dumps(row, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _first_copy(fields: dict[str, Any]) -> Copy:
    number, node = fields["ballot"]
    stamps = tuple((signer, bytes.fromhex(stamp)) for signer, stamp in fields["stamps"])
    token = Token(fields["updates"], b"", bytes.fromhex(fields["chain"]), stamps)
    return Copy((number, node), fields["hop"], Kind[fields["kind"]], token)


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Connect to the file of a journal; transactions are begun by hand."""
    return sqlite3.connect(f"{path.as_uri()}?mode={mode}", uri=True, isolation_level=None)


def folder_of(path: Path) -> ModelFolder:
    """Return the folder of a journal's models that are kept in files."""
    return ModelFolder(path.with_name(f"{path.name}-models"))
