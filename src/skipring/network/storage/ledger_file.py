"""The ledger of a data set: one file with what all runs have released of it, to which lines are only ever added.

Each line has a SHA-256 over the line before it and its own text. The first says that it is a ledger. One line opens the
account of a node in a run, and each further one says how much that account has come to. It says so in full, so that of
each account only the last line has to be understood; and in few bytes, since there are some for each update. Nothing is
rewritten, so that the file may be copied at any moment, and what one process adds no other can take back.

A writer holds a lock (flock) on the file, reads what others have added, and is done once its line is on the disk. A
line without its end was never confirmed: the next writer cuts it off. Everything else that is not what was written is
refused.

An old copy in place of the file is whole in itself. So each node keeps beside its settings how far the ledger went when
it last wrote to it (`ledger-....head`). A ledger that is shorter, or another one in its place, is refused.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import math
import os
import re
import secrets
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from dataclasses import fields as fields_of
from functools import cache
from pathlib import Path
from typing import Any

from ..._json import from_json, json_text
from ..._writing import sync_folder, write_file
from ...errors import InvalidInput
from ...privacy import Unit
from ._journal_errors import JournalError, JournalUnusable
from ._ledger_lines import Level, Now, Spent, level_in, now_in, text_of

_FORMAT = 1
_ROOT = b"skipring ledger"
_PATIENCE = 10.0
_HEAD = re.compile(rb"([0-9]{20}) ([0-9a-f]{64}) ([0-9a-f]{64})\n")
_HEAD_NAME = re.compile(r"ledger-.*\.head")
#: These stay until a path or a mode is changed. After all others (no descriptors, no memory, a failing disk) it may
#: help to start the node again.
_SETTINGS = {errno.EACCES, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR, errno.EPERM, errno.EROFS}


class LedgerUnusable(JournalUnusable):
    """The ledger is damaged, or an old copy: a node that counts with it would give away more than its owner wants."""


class LedgerBroken(JournalError):
    """The ledger cannot be written: the node must stop, because what is not counted must not be released."""


@dataclass(frozen=True, kw_only=True)
class LedgerRun:
    """What a ledger says of a node's part in a run, once: what it takes to read the numbers that follow.

    `run` is the run's identity, and `terms` a digest of all that decides the cost of an update. `delta` is the one at
    which the node tells its epsilon. `not_covered` is what no epsilon of that run counts; None if nothing.
    """

    run: str
    node: str
    terms: str
    unit: Unit
    relation: str
    noise_multiplier: float
    steps: int
    delta: float
    not_covered: str | None = None


@dataclass(frozen=True, kw_only=True)
class LedgerRecord:
    """What a node has released in a run so far: `mu2` knows the observer who knows most, `in_full` counts each release.

    These never fall, although an account may, once it is known who has looked after a release. But `mu2` may fall once,
    when the run is over and it has become certain what recoveries have cost (`settled`). `may_mu2` and `may_in_full`
    are what an update that is being made may bring them to. `told` is the account when the line was written, and `kept`
    what the journal was seen to have of it. That is written before anything is sent, but synced with the next line
    only, so that it may be missing once the machine has started anew (`boot`). `doubts` is how often something was
    proven that puts the account in doubt (a fork, updates that the journal has forgotten), or was taken back that had
    been certain. A journal that knows of fewer has lost one.
    """

    about: LedgerRun
    began: float
    updated: float
    releases: int = 0
    mu2: float = 0.0
    in_full: float = 0.0
    may_mu2: float = 0.0
    may_in_full: float = 0.0
    told: Spent = field(default_factory=Spent)
    kept: Spent = field(default_factory=Spent)
    boot: str = ""
    settled: bool = False
    doubts: int = 0


@dataclass(frozen=True)
class _Head:
    """How far a ledger went: its number of lines, the digest of the last, and of the first, by which it is known."""

    count: int
    digest: str
    root: str


class LedgerFile:
    """The ledger in a file; nothing is read or made before it is asked for.

    Parameters
    ----------
    path : of the ledger.
    heads : the folder in which a node remembers how far the ledger went; None for a reader who adds nothing.
    """

    def __init__(self, path: str | Path, heads: str | Path | None = None) -> None:
        self.path = Path(path).absolute()
        self._heads = None if heads is None else Path(heads)
        self._records: list[LedgerRecord] = []
        self._levels: dict[int, Level] = {}  # what each account has come to
        self._newest: dict[int, tuple[int, bytes, str]] = {}  # the last line of each of which more was not read yet
        self._boot = ""  # of the machine, as the last line about it says
        self._count, self._digest, self._root = 0, hashlib.sha256(_ROOT).digest(), ""
        self._end, self._last = 0, b""  # where the last line ends that was read, and its bytes
        self._due: dict[int, str] = {}  # digests of lines that a head remembers and that were not read yet

    # Looking.

    @property
    def lines(self) -> int:
        """How many lines were read."""
        return self._count

    @property
    def records(self) -> tuple[LedgerRecord, ...]:
        """All accounts as they were when the file was last read, the oldest first."""
        for place, (number, body, started) in self._newest.items():
            try:
                self._records[place] = _come_to(self._records[place], now_in(body, started))
            except (IndexError, TypeError, ValueError):
                raise self._damaged(number) from None
        self._newest.clear()
        return tuple(self._records)

    def read(self) -> tuple[LedgerRecord, ...]:
        """Read what was added since the last time; return all accounts."""
        try:
            file = os.open(self.path, os.O_RDONLY)
        except OSError as error:
            raise self._not_opened(error) from None
        try:
            self._catch_up(file)
        except OSError as error:
            raise self._not_opened(error) from error
        finally:
            os.close(file)
        return self.records

    def require(self) -> None:
        """Refuse a ledger that a node could not go on with; one that nobody has made yet is fine."""
        if self._exists():
            self.read()
            return
        if self.path.is_symlink():  # no ledger would ever be made through it
            reason = "is a link to a file that does not exist; name the ledger itself"
            raise InvalidInput.because("budget.ledger", self.path, reason)
        if not self.path.parent.is_dir():
            raise InvalidInput.because("budget.ledger", self.path, "its folder does not exist")
        self._require_not_known()

    def _exists(self) -> bool:
        try:
            os.stat(self.path)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._not_opened(error) from None
        return True

    # Writing.

    @contextlib.contextmanager
    def locked(self) -> Iterator[LedgerWriter]:
        """Hold the lock, having read what others have added; who is inside may add lines."""
        if not self._exists():
            self.require()
            self._create()
        try:
            file = os.open(self.path, os.O_RDWR | os.O_APPEND)
        except OSError as error:
            raise self._not_opened(error) from None
        try:
            self._lock(file)
            self._catch_up(file)
            if os.fstat(file).st_size > self._end:
                os.ftruncate(file, self._end)
            yield LedgerWriter(self, file)
        except OSError as error:
            raise self._failure(error) from error
        finally:
            os.close(file)

    def _lock(self, file: int) -> None:
        """Wait for the lock, which nobody holds for longer than a line takes; but not for a process that hangs."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    reason = f"another process has not let go of it for {_PATIENCE:g} s"
                    raise LedgerBroken(
                        f"ledger {self.path}: {reason}; what is not counted must not be released"
                    ) from None
                time.sleep(0.0005)

    def _create(self) -> None:
        """Make the file."""
        body = json_text({"ledger": _FORMAT, "made": time.time(), "id": secrets.token_hex(16)}).encode()
        try:
            with contextlib.suppress(FileExistsError):  # another node was quicker, and its ledger is as good
                write_file(self.path, _line(self._digest, body), mode=0o600, new=True)
            sync_folder(self.path.parent)
        except OSError as error:
            raise self._not_opened(error) from error

    def _failure(self, error: OSError) -> LedgerBroken:
        what = (
            "the disk is full" if error.errno in {errno.ENOSPC, errno.EDQUOT} else f"cannot be used ({error.strerror})"
        )
        return LedgerBroken(f"ledger {self.path}: {what}; what is not counted must not be released")

    def _not_opened(self, error: OSError) -> InvalidInput | LedgerBroken:
        if isinstance(error, FileNotFoundError):
            if self._known_head() is not None:
                return self._unusable("is missing, but this node has written to it; put the newest copy back")
            return InvalidInput.because("budget.ledger", self.path, "does not exist")
        if error.errno in _SETTINGS:
            reason = f"cannot be opened: {error.strerror}; the node must be allowed to write to its folder"
            return InvalidInput.because("budget.ledger", self.path, reason)
        return self._failure(error)

    # Reading back.

    def _catch_up(self, file: int) -> None:
        size = os.fstat(file).st_size
        if size < self._end or os.pread(file, len(self._last), self._end - len(self._last)) != self._last:
            raise self._unusable("is an old copy, or was changed, while this node was using it")
        if not self._count:
            self._due = self._remembered(os.pread(file, 64, 0))
        unfinished, at = b"", self._end
        while piece := os.pread(file, 1 << 20, at):
            at += len(piece)
            *whole, unfinished = (unfinished + piece).split(b"\n")
            for line in whole:
                self._take(line)
        if not self._count:
            raise self._damaged(1)
        late = min(self._due, default=0)
        if late:
            reason = f"is an old copy: it has {self._count} lines, and this node has seen {late}; put the newest back"
            raise self._unusable(reason)

    def _take(self, line: bytes) -> None:
        number, body = self._count + 1, line[65:]
        digest = hashlib.sha256(self._digest + body).digest()
        if line[:65] != digest.hex().encode() + b" ":
            raise self._damaged(number)
        if self._due and self._due.pop(number, digest.hex()) != digest.hex():
            raise self._unusable(f"is another one, or an old copy that was gone on with: line {number} has changed")
        try:
            if body.startswith(b"["):
                place, level, certain = level_in(body)
                self._rise(place, level, certain=certain)
                self._newest[place] = number, body, self._boot
            else:
                self._add_up(number, json.loads(body))
        except (KeyError, IndexError, TypeError, ValueError):
            raise self._damaged(number) from None
        if number == 1:
            self._root = digest.hex()
        self._count, self._digest = number, digest
        self._end += len(line) + 1
        self._last = line + b"\n"

    def _add_up(self, number: int, fields: dict[str, Any]) -> None:
        if number == 1:
            if fields["ledger"] != _FORMAT:
                raise ValueError("of another version")
        elif "about" in fields:
            at = float(fields["at"])
            about = from_json(LedgerRun, fields["about"], "about")
            self._levels[len(self._records)] = 0, 0.0, 0.0
            self._records.append(LedgerRecord(about=about, began=at, updated=at))
        elif "boot" in fields and "of" not in fields:
            self._boot = str(fields["boot"])
        else:  # a line as they were before they were short
            place, now = int(fields["of"]), from_json(Now, fields, "now")
            self._rise(place, now.level, certain=now.settled)
            self._records[place] = _come_to(self._records[place], now)
            self._newest.pop(place, None)

    def _rise(self, place: int, level: Level, *, certain: bool) -> None:
        """Take what an account has come to, unless that is less than before; mu^2 may be, once it is certain."""
        before = self._levels[place]
        if not (level[0] >= before[0] and level[1] >= (0.0 if certain else before[1]) and level[2] >= before[2]):
            raise ValueError("less was released than before")
        self._levels[place] = level

    def _damaged(self, number: int) -> LedgerUnusable:
        return self._unusable(f"is damaged: line {number} is not what was written")

    def _unusable(self, reason: str) -> LedgerUnusable:
        return LedgerUnusable("budget.ledger", self.path, reason, must_be=False)

    # What the node remembers of it.

    @property
    def _head_path(self) -> Path | None:
        name = hashlib.sha256(os.fsencode(self.path.resolve())).hexdigest()[:12]
        return None if self._heads is None else self._heads / f"ledger-{name}.head"

    def _known_head(self) -> _Head | None:
        return None if self._head_path is None else self._head(self._head_path)

    def _head(self, path: Path) -> _Head | None:
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in _SETTINGS:
                raise InvalidInput.because("budget.ledger", path, f"cannot be read: {error.strerror}") from None
            raise self._failure(error) from error
        found = _HEAD.fullmatch(text)
        if found is None and text:
            raise self._unusable(f"{path.name}, what this node remembers of it, is not what was written")
        return None if found is None else _Head(int(found[1]), found[2].decode(), found[3].decode())

    def _require_not_known(self) -> None:
        if self._known_head() is not None:
            raise self._not_opened(FileNotFoundError())

    def _remembered(self, text: bytes) -> dict[int, str]:
        """Return what lines must be, by the heads of this place and of this ledger at another place."""
        if self._heads is None:
            return {}
        root = text[:64].decode("ascii", "replace")
        own = self._known_head()
        if own is not None and own.root != root:
            raise self._unusable("is another one than this node has written to; put that one back")
        names = filter(_HEAD_NAME.fullmatch, sorted(os.listdir(self._heads)))  # which fails where glob finds nothing
        heads = [self._head(self._heads / name) for name in names]
        return {head.count: head.digest for head in heads if head is not None and head.root == root}

    def _remember(self) -> None:
        """Write down how far the ledger goes.

        Not synced: after a power cut an older one is weaker, but never ahead of what is on the disk.
        """
        if self._head_path is not None:
            head = os.open(self._head_path, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                os.pwrite(head, f"{self._count:020d} {self._digest.hex()} {self._root}\n".encode(), 0)
            finally:
                os.close(head)


class LedgerWriter:
    """Adds lines to a ledger whose lock is held."""

    def __init__(self, ledger: LedgerFile, file: int) -> None:
        self._ledger, self._file = ledger, file

    def open_run(self, about: LedgerRun) -> int:
        """Return the place of a node's account of a run; a new one is opened if there is none."""
        for place, record in enumerate(self._ledger.records):
            if (record.about.run, record.about.node, record.about.terms) == (about.run, about.node, about.terms):
                return place
        self.add(json_text({"at": time.time(), "about": asdict(about)}))
        return len(self._ledger.records) - 1

    def note(
        self,
        place: int,
        now: Spent,
        *,
        kept: Spent,
        may: tuple[float, float],
        doubts: int = 0,
        settled: float | None = None,
    ) -> None:
        """Say how much an account has come to, how much of it is `kept` in the journal, and what it `may` come to.

        What is in the ledger is never lowered, whatever the caller believes, but in one case. There the run is over,
        the journal has all releases that the ledger has, and it is certain that they have cost no more than `settled`.
        And the caller that says so knows of all `doubts` that the ledger knows of.
        """
        before = self._ledger.records[place]
        lacks = before.releases > kept.releases or before.doubts > doubts
        if settled is not None and (lacks or now != kept or not settled >= 0.0):
            settled = None
        mu2, in_full = max(now.mu2, before.mu2), max(now.in_full, before.in_full)
        mu2 = mu2 if settled is None else min(mu2, settled)
        if any(map(math.isnan, (*may, now.mu2, now.in_full))):
            raise LedgerBroken(f"ledger {self._ledger.path}: an account that is no number; nothing may be released")
        told = Now(
            at=time.time(),
            releases=max(now.releases, before.releases),
            mu2=mu2,
            in_full=in_full,
            may_mu2=max(may[0], mu2),
            may_in_full=max(may[1], in_full),
            told=now,
            kept=kept,
            boot=boot(),
            settled=settled is not None,
            doubts=max(doubts, before.doubts),
        )
        if any(getattr(before, key.name) != getattr(told, key.name) for key in fields_of(told) if key.name != "at"):
            if self._ledger._boot != told.boot:
                self.add(json_text({"boot": told.boot}))
            self.add(text_of(place, told))

    def sync(self) -> None:
        """See to it that all lines are on the disk itself, and let the node remember them."""
        os.fsync(self._file)
        self._ledger._remember()

    def add(self, text: str) -> None:
        """Add a line, all of it or nothing."""
        ledger, end = self._ledger, os.fstat(self._file).st_size
        line = _line(ledger._digest, text.encode())
        try:
            if os.write(self._file, line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, end)
            raise
        ledger._take(line[:-1])
        _ = ledger.records  # what a line says is looked at when it is written, too


@cache
def boot() -> str:
    """Return what tells one start of this machine from another; nothing where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _come_to(before: LedgerRecord, now: Now) -> LedgerRecord:
    if not (now.may_mu2 >= now.mu2 and now.may_in_full >= now.in_full):
        raise ValueError("an update would take something back")
    if now.doubts < before.doubts:
        raise ValueError("a doubt was forgotten")
    changed = {each.name: getattr(now, each.name) for each in fields_of(now) if each.name != "at"}
    return replace(before, updated=now.at, **changed)


def _line(before: bytes, body: bytes) -> bytes:
    """Return a line with the digest that chains it to the one before."""
    return hashlib.sha256(before + body).hexdigest().encode() + b" " + body + b"\n"
