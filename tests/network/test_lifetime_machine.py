"""What a node's machine does to the ledger of a data set: it fails under it, or runs two copies of the node at once."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import shutil
import signal
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from spending import FIRST, Spender
from test_lifetime import in_process, spent

from skipring.errors import InvalidInput
from skipring.network.node import NodeBudget
from skipring.network.setup import ExitCode, life_account
from skipring.network.setup.exit_codes import exit_code_of
from skipring.network.storage import LedgerBroken, LedgerFile, LedgerInUse

Command = Callable[..., Any]
FAILS = (errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENOMEM)
_NOBODY = 65534


@contextlib.contextmanager
def no_descriptors() -> Iterator[None]:
    """Let this process have all the files open that it may."""
    before, taken = resource.getrlimit(resource.RLIMIT_NOFILE), list[int]()
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 8, before[1]))
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(0))
        yield
    finally:
        for file in taken:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@contextlib.contextmanager
def no_room(file: Path) -> Iterator[None]:
    """Let no file of this process become longer than this one is, and a little."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size + 20, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def require_a_failing_machine(does: Callable[[], object]) -> None:
    with pytest.raises(
        LedgerBroken, match=r"ledger .*rows\.ledger: .*; what is not counted must not be released"
    ) as why:
        does()
    assert exit_code_of(why.value) is ExitCode.FOR_NOW
    assert "\n" not in str(why.value)


def test_a_node_without_descriptors_may_be_started_again(tmp_path: Path) -> None:
    spender = Spender(tmp_path, "first")
    spender.update()
    next_one, budget = spender.next_update(), NodeBudget(epsilon=5.0, delta=1e-5)
    with no_descriptors():
        require_a_failing_machine(lambda: spender.lifetime.affords(budget, (FIRST, 4), None))
        require_a_failing_machine(lambda: spender.counted.append(next_one))
        spender.lifetime.end()  # says nothing: the node has failed already
    spender.close()
    again = Spender(tmp_path, "first")
    assert again.account.releases == again.ledger.read()[0].releases == 1
    again.close()


def test_a_line_that_has_no_room_is_not_there(tmp_path: Path) -> None:
    spender = Spender(tmp_path, "first")
    spender.update(4)
    before = (tmp_path / "rows.ledger").read_bytes()
    with no_room(tmp_path / "rows.ledger"):
        require_a_failing_machine(spender.update)
    spender.close()
    assert (tmp_path / "rows.ledger").read_bytes() == before
    again = Spender(tmp_path, "first")
    again.update()
    assert again.ledger.read()[0].releases == 5
    again.close()


@pytest.mark.parametrize("code", FAILS)
@pytest.mark.parametrize("call", ["open", "stat", "pread", "write", "fsync", "pwrite", "listdir"])
def test_whatever_fails_it_is_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skipring_words: Command, call: str, code: int
) -> None:
    spender = Spender(tmp_path, "first")
    spender.update()
    real = getattr(os, call)

    def fails(file: Any, *given: Any, **named: Any) -> Any:
        name = os.readlink(f"/proc/self/fd/{file}") if isinstance(file, int) else str(file)
        if name in (str(tmp_path), str(spender.ledger.path)) or name.endswith(".head"):
            raise OSError(code, os.strerror(code))
        return real(file, *given, **named)

    monkeypatch.setattr(os, call, fails)
    fresh = LedgerFile(spender.ledger.path, heads=tmp_path)

    def goes_on() -> None:
        fresh.require()
        spender.update()

    require_a_failing_machine(goes_on)
    if call in ("open", "pread"):
        refused = skipring_words("node", "ledger", str(spender.ledger.path))
        assert (refused.code, refused.err.count("\n")) == (ExitCode.FOR_NOW, 1)
    monkeypatch.undo()
    spender.close()


@contextlib.contextmanager
def as_somebody_else() -> Iterator[None]:
    """Let root, who may read everything, be nobody for a while."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(_NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_what_may_not_be_read_is_for_its_owner_to_mend() -> None:
    with tempfile.TemporaryDirectory() as name:  # everybody may look into it, as not into those of pytest
        folder = Path(name)
        folder.chmod(0o755)
        Spender(folder, "first").close()
        life_account(folder / "rows.ledger")
        (folder / "rows.ledger").chmod(stat.S_IWUSR)
        with as_somebody_else(), pytest.raises(InvalidInput, match="cannot be opened: Permission denied") as why:
            life_account(folder / "rows.ledger")
    assert exit_code_of(why.value) is ExitCode.SETTINGS


def test_a_path_that_leads_nowhere_is_for_its_owner_to_mend(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "round").symlink_to("round")
    for path in (tmp_path, tmp_path / "file" / "rows.ledger", tmp_path / "round", tmp_path / ("long" * 100)):
        with pytest.raises(InvalidInput) as why:
            LedgerFile(path).require()
        assert exit_code_of(why.value) is ExitCode.SETTINGS


# Copies of a node.


def test_two_copies_of_a_node_that_run_at_once_are_not_counted_as_one(tmp_path: Path) -> None:
    ledger, copy = tmp_path / "rows.ledger", tmp_path / "copy"
    first = Spender(tmp_path / "a", "run", ledger=ledger)
    first.update(4)
    shutil.copytree(tmp_path / "a", copy)
    (tmp_path / "elsewhere").symlink_to(tmp_path)
    for path in (ledger, tmp_path / "elsewhere" / "rows.ledger"):
        with pytest.raises(
            LedgerInUse, match="another process takes part in this run as a, perhaps from a copy"
        ) as why:
            Spender(copy, "run", ledger=path)
        assert exit_code_of(why.value) is ExitCode.FOR_NOW
    others = [Spender(copy, "second", ledger=ledger), Spender(copy, "run-b", ledger=ledger, node="b")]
    first.update(3)
    for each in (first, *others):
        each.close()
    assert not list(tmp_path.glob("*.lock"))
    second = Spender(copy, "run", ledger=ledger)  # one after the other, what the copy does not know counts in full
    second.update(3)
    second.close()
    (record,) = (each for each in LedgerFile(ledger).read() if each.about.run == "run")
    assert record.releases == 10
    assert record.mu2 >= 7 * (2.0 / 5.0) ** 2


def test_a_lock_that_was_left_by_a_node_that_was_killed_is_taken(tmp_path: Path) -> None:
    assert in_process(tmp_path, "first", 2, "kill").wait(60) == -signal.SIGKILL
    assert len(list(tmp_path.glob("rows.ledger-*.lock"))) == 1
    spent(tmp_path, "first", 1)
    assert not list(tmp_path.glob("rows.ledger-*.lock"))
