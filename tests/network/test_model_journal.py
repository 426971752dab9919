"""Journals whose models are in files: what they need is there, and nothing besides, whatever happens."""

from __future__ import annotations

import errno
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import world
from models_in_files import names, sha, written
from summing import is_intact, replayed

from skipring.errors import InvalidInput
from skipring.network.protocol import (
    Copy,
    Entry,
    Gone,
    Heard,
    Kept,
    Kind,
    Memory,
    Over,
    Parameters,
    Passing,
    Released,
    Settled,
    Token,
    Wished,
)
from skipring.network.storage import (
    LARGE,
    JournalBroken,
    JournalFile,
    JournalFull,
    ModelFile,
    ModelFolder,
    ModelWriter,
    digest_of,
    load_parameters,
    read_journal,
    store_parameters,
)

BLANK = Memory.blank(3, Token(0, b"initial", b""))


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one, for what is about bytes and not about disks."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as folder:
        yield Path(folder)


def create(path: Path, blank: Memory = BLANK) -> JournalFile:
    return JournalFile.create(path, node="ann", run_digest="run-1", blank=blank, sum_after=3)


def reopen(path: Path) -> JournalFile:
    return JournalFile.open(path, node="ann", run_digest="run-1", sum_after=3)


def updated(hop: int, parameters: Parameters) -> Released:
    return Released(Copy((0, 3), hop, Kind.UPDATED, Token(hop, parameters, b"chain")))


def needed(memory: Memory, blank: Memory = BLANK) -> set[str]:
    """Return the names of the files that must be there, and none besides."""
    tokens = [memory.copy.token, blank.copy.token, memory.outcome]
    found = {token.parameters for token in tokens if token is not None}
    return {f"{parameters.digest}.model" for parameters in found if isinstance(parameters, ModelFile)}


def require_exactly_the_needed(journal: JournalFile, blank: Memory = BLANK) -> None:
    assert names(journal.models) == needed(journal.memory, blank)
    for token in (journal.memory.copy.token, journal.memory.outcome):
        if token is not None and isinstance(token.parameters, ModelFile):
            assert token.parameters.path.parent == journal.models
            assert is_intact(token.parameters)


@pytest.mark.parametrize("seed", range(4))
def test_memory_is_what_the_entries_add_up_to(quick_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    initial = written(quick_path, b"initial") if seed % 2 else b"initial"
    blank = Memory.blank(3, Token(0, initial, b""))
    journal, entries = create(quick_path / "journal", blank), list[Entry]()
    for _ in range(60):
        content = rng.choice([b"initial" if seed % 2 else b"first", b"old", rng.randbytes(3), rng.randbytes(9000)])
        fresh, known = written(journal.models, content), journal.memory.copy.token.parameters
        parameters = rng.choice([b"bytes" + content, known, fresh])
        token = Token(rng.randrange(100), parameters, rng.randbytes(4))
        place = Copy((rng.randrange(9), 1), rng.randrange(100), rng.choice(list(Kind)), token)
        choices: list[Entry] = [Heard((1, 1)), Kept(place), Released(place), Passing((1, 1), 1), Over(token, (1, 1))]
        entries.append(rng.choice(choices))
        journal.append(entries[-1])
        fresh.discard()  # as the node does with what the journal may not have taken
        if rng.random() < 0.3:
            journal.close()
            journal = reopen(quick_path / "journal")
        assert journal.memory == replayed(blank, entries)
        require_exactly_the_needed(journal, blank)
    journal.close()
    with reopen(quick_path / "journal") as journal:
        assert journal.memory == replayed(blank, entries)
        require_exactly_the_needed(journal, blank)
    assert names(quick_path) == {"journal", "journal-witness", "journal-models"}


def test_histories_of_the_protocol_are_remembered(quick_path: Path) -> None:
    """What the protocol writes again is still there: it never speaks of a model that was deleted."""
    kinds: set[type] = set()
    for seed in range(10, 25):
        found = world.history(seed)
        for node, machine in enumerate(found.machines):
            path = quick_path / f"{seed}-{node}"
            models = ModelFolder(path.with_name(f"{path.name}-models"))
            blank = Memory.blank(found.rules.path[0], replace(found.initial, parameters=written(models.path, b"0")))
            with create(path, blank) as journal:
                memory = journal.memory  # as the peer has it: with the objects that it gave, or was given
                for entry in machine.disk:
                    written_down = in_files(entry, memory, models.path)
                    memory = memory.after(written_down)
                    journal.append(written_down)
                    assert journal.memory == memory
                    require_exactly_the_needed(journal, blank)
                    for token in (memory.copy.token, memory.outcome):
                        assert token is None or (
                            isinstance(token.parameters, ModelFile) and is_intact(token.parameters)
                        )
                kinds |= {type(entry) for entry in machine.disk}
            with reopen(path) as journal:
                assert journal.memory == memory
                assert journal.memory.copy.token.chain == machine.memory.copy.token.chain
    assert kinds == {Heard, Kept, Released, Passing, Gone, Over, Settled, Wished}


def in_files(entry: Entry, memory: Memory, folder: Path) -> Entry:
    """Return an entry with its model in a file: the one of the copy if it is the same, or else a new one."""
    if not isinstance(entry, Kept | Released | Over):
        return entry
    token = entry.token if isinstance(entry, Over) else entry.copy.token
    assert isinstance(token.parameters, bytes)
    content = b"0" if token.parameters == b"initial" else token.parameters
    known = memory.copy.token.parameters
    same = digest_of(known) == sha(content) and not isinstance(entry, Over)
    token = replace(token, parameters=known if same else written(folder, content))
    return (
        replace(entry, token=token)
        if isinstance(entry, Over)
        else replace(entry, copy=replace(entry.copy, token=token))
    )


def test_the_same_bytes_may_come_in_either_form(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with create(path, Memory.blank(3, Token(0, b"same", b""))) as journal:
        journal.append(updated(1, written(journal.models, b"same")))
        assert names(journal.models) == {f"{sha(b'same')}.model"}
        journal.append(Over(Token(1, b"same", b""), (1, 1)))
        journal.append(updated(2, b"other"))
    with reopen(path) as journal:
        assert journal.memory.copy.token.parameters == b"other"
        assert journal.memory.outcome is not None
        assert digest_of(journal.memory.outcome.parameters) == sha(b"same")
        journal.append(Over(Token(1, written(journal.models, b"more"), b""), (1, 1)))
        journal.append(updated(3, b"more"))
    with reopen(path) as journal:
        assert digest_of(journal.memory.copy.token.parameters) == sha(b"more")
        assert [line.parameters for line in journal.releases()] == [sha(b"same"), sha(b"other"), sha(b"more")]
        assert names(journal.models) == {f"{sha(b'same')}.model", f"{sha(b'more')}.model"}


def test_two_journals_do_not_share_a_file(tmp_path: Path) -> None:
    with create(tmp_path / "one") as one, create(tmp_path / "two") as two:
        entry = updated(1, written(one.models, b"model"))
        one.append(entry)
        two.append(entry)
        assert one.memory == two.memory
        one.append(updated(2, b"next"))
        require_exactly_the_needed(one)
        require_exactly_the_needed(two)


def test_models_of_another_journal_are_not_deleted_by_a_new_one(tmp_path: Path) -> None:
    with create(tmp_path / "journal") as journal:
        journal.append(updated(1, written(journal.models, b"model")))
        models = journal.models
    for name in ("journal", "journal-witness"):
        (tmp_path / name).rename(tmp_path / f"{name}-moved")
    with pytest.raises(InvalidInput, match=r"is missing, but journal-models has models"):
        create(tmp_path / "journal")
    assert names(models) == {f"{sha(b'model')}.model"}


def test_a_model_that_is_gone_stops_the_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with create(path) as journal:
        journal.append(updated(1, written(journal.models, b"model")))
        memory = journal.memory
        lost = written(journal.models, b"lost")
        lost.path.unlink()
        with pytest.raises(JournalBroken, match="cannot be written"):
            journal.append(updated(2, lost))
        with pytest.raises(JournalBroken, match="cannot be written"):
            journal.append(Heard((1, 1)))
    with reopen(path) as journal:
        assert journal.memory == memory
        short = written(journal.models, b"short")
        os.truncate(short.path, 2)
        with pytest.raises(JournalBroken, match="has 2 bytes instead of 5"):
            journal.append(updated(2, short))
    with reopen(path) as journal:
        assert journal.memory == memory


DAMAGES: dict[str, Callable[[Path], object]] = {
    "gone": lambda file: file.unlink(),
    "empty": lambda file: file.write_bytes(b""),
    "shorter": lambda file: os.truncate(file, 4999),
    "longer": lambda file: os.truncate(file, 5001),
    "changed": lambda file: file.write_bytes(file.read_bytes()[:-1] + b"?"),
    "another": lambda file: file.write_bytes(bytes(5000)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_model_is_noticed_and_nothing_is_deleted(tmp_path: Path, damage: str) -> None:
    path, rng = tmp_path / "journal", random.Random(1)
    contents = [rng.randbytes(5000) for _ in range(4)]
    initial = Memory.blank(3, Token(0, written(tmp_path, contents[0]), b""))
    with create(path, initial) as journal:
        journal.append(updated(1, written(journal.models, contents[1])))
        journal.append(Over(Token(1, written(journal.models, contents[2]), b""), (1, 1)))
        memory, models = journal.memory, journal.models
    written(models, b"left by a crash")
    ModelFolder(models).keep(written(models, contents[3]))  # no longer needed
    for content in contents[:3]:
        file = models / f"{sha(content)}.model"
        DAMAGES[damage](file)
        before = names(models)
        for attempt in (reopen, read_journal):
            with pytest.raises(InvalidInput, match=rf"is damaged: the parameters of a model, {file.name}, are missing"):
                attempt(path)
        assert names(models) == before
        file.write_bytes(content)
    with reopen(path) as journal:
        assert journal.memory == memory
        require_exactly_the_needed(journal, initial)


def test_a_file_is_on_the_disk_before_its_row_and_deleted_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    def watched(name: str, path_of: Callable[[Any], str]) -> None:
        real: Callable[..., Any] = getattr(os, name)

        def watching(first: Any, *more: Any, **named: Any) -> Any:
            path = re.sub("incoming-.*", "incoming", Path(path_of(first)).name)
            steps.append(f"{name} {path}")
            return real(first, *more, **named)

        monkeypatch.setattr(os, name, watching)

    with create(tmp_path / "journal") as journal:
        journal.append(updated(1, written(journal.models, b"old")))
        watched("fsync", lambda file: os.readlink(f"/proc/self/fd/{file}"))
        watched("replace", str)
        watched("unlink", str)
        journal._connection.set_trace_callback(steps.append)
        journal.append(updated(2, written(journal.models, b"new")))
        monkeypatch.undo()
        journal._connection.set_trace_callback(None)
    assert [step for step in steps if not step.startswith(("BEGIN", "INSERT"))] == [
        "fsync incoming",
        "replace incoming",
        "fsync journal-models",
        f"fsync {tmp_path.name}",
        "COMMIT",
        f"unlink {sha(b'old')}.model",
    ]


# Crashes.

CRASHES = """
import os, posix, sqlite3, sys, traceback
from pathlib import Path
from skipring.network.protocol import Copy, Kind, Memory, Released, Token
from skipring.network.storage import JournalFile, ModelFolder, ModelWriter, digest_of

def written(folder, content):
    with ModelWriter(folder) as writer:
        writer.write(content)
        return writer.finish()

def crashing(what, step, before=lambda: None):
    "Do it in a process of its own that ends, without a word, before its call number `step` of the system or of SQLite."
    child = os.fork()
    if child == 0:
        count = 0
        def watch(frame, event, called):
            nonlocal count
            owner = getattr(called, "__self__", None)
            count += event == "c_call" and (owner is posix or isinstance(owner, sqlite3.Connection))
            if count == step:
                os._exit(9)
        try:
            given = before()
            sys.setprofile(watch)
            what(given)
            sys.setprofile(None)
            os._exit(0)
        finally:
            os._exit(traceback.print_exc() or 1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9)
    return code

def create(path):
    initial = Token(0, written(models(path), b"initial"), b"")
    return JournalFile.create(path, node="ann", run_digest="run-1", blank=Memory.blank(3, initial), sum_after=1)

def reopen(path):
    return JournalFile.open(path, node="ann", run_digest="run-1", sum_after=1)

def append(journal, hops):
    copies = [Copy((0, 3), hop, Kind.UPDATED, Token(hop, written(journal.models, b"%d" % hop), b"")) for hop in hops]
    journal.append(*map(Released, copies))

def require(journal, content):
    assert digest_of(journal.memory.copy.token.parameters) == digest_of(content)
    kept = {digest_of(content) + ".model" for content in (b"initial", content)}
    assert {file.name for file in journal.models.iterdir()} == kept

folder, models = Path(sys.argv[1]), lambda path: path.with_name(path.name + "-models")
code, step = 9, 0
while code:  # creating it
    step += 1
    path = folder / f"journal-{step}"
    code = crashing(lambda _: create(path), step)
    with reopen(path) if path.exists() else create(path) as journal:
        require(journal, b"initial")
print(step)

code, step, hop, seen = 9, 0, 0, set()
while code:  # receiving models, and writing two entries at once
    step += 1
    code = crashing(lambda journal: append(journal, (hop + 1, hop + 2)), step, lambda: reopen(path))
    with reopen(path) as journal:
        found = len(journal.memory.ledger)
        seen.add((code, found - hop))
        hop = found
        require(journal, b"%d" % hop if hop else b"initial")
print(step, *sorted(seen))

code, step = 9, 0
while code:  # opening it, with the leavings of a crash
    step += 1
    written(models(path), b"left")
    ModelFolder(models(path)).keep(written(models(path), b"left"))
    code = crashing(lambda _: reopen(path), step)
with reopen(path) as journal:
    require(journal, b"%d" % hop)
print(step)
"""


def test_a_crash_between_any_two_steps_leaves_the_old_entry_or_the_new(quick_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", CRASHES, str(quick_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    creating, seen, opening = done.stdout.splitlines()
    assert min(int(creating), int(seen.split()[0]), int(opening)) > 20
    assert seen.split(maxsplit=1)[1] == "(0, 2) (9, 0) (9, 2)"  # both entries or none


SENDER = """
import sys
import numpy as np
from skipring.network.protocol import Copy, Kind, Released, Token
from skipring.network.storage import JournalFile, ModelWriter, store_parameters
with JournalFile.open(sys.argv[1], node="ann", run_digest="run-1") as journal:
    hop = len(journal.memory.ledger)
    print("open", flush=True)
    while True:
        hop += 1
        if int(sys.argv[2]):
            parameters = store_parameters(np.full(int(sys.argv[2]), hop, "<f8"), journal.models)
        else:
            with ModelWriter(journal.models) as writer:
                writer.write(np.float64(hop).tobytes())
                parameters = writer.finish()
        journal.append(Released(Copy((0, 3), hop, Kind.UPDATED, Token(hop, parameters, b"chain"))))
        print(hop, flush=True)
"""


def sender(path: Path, numbers: int) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", SENDER, path, str(numbers)], stdout=subprocess.PIPE, text=True)


def test_nothing_that_was_reported_is_lost_by_kill_9(tmp_path: Path) -> None:
    path, rng, numbers, total = tmp_path / "journal", random.Random(1), 20 << 17, 0
    create(path).close()
    for _ in range(10):
        with sender(path, numbers) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "open\n"
            time.sleep(rng.uniform(0.0, 0.25))  # any moment will do
            process.send_signal(signal.SIGKILL)
            reported = int([str(total), *process.stdout.read().split()][-1])
        with reopen(path) as journal:
            total = len(journal.memory.ledger)
            assert reported <= total <= reported + 1
            require_exactly_the_needed(journal)
            if total:
                found = load_parameters(journal.memory.copy.token.parameters, "<f8")
                assert np.array_equal(found, np.full(numbers, total, "<f8"))
    assert total > 0


def test_a_running_journal_is_read_as_it_was_at_one_moment(tmp_path: Path) -> None:
    """Each entry deletes the model of the one before, so that models vanish under the reader's eyes."""
    path = tmp_path / "journal"
    create(path).close()
    counts = [0]
    with sender(path, 0) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        while len(set(counts)) < 20:
            assert process.poll() is None
            found = read_journal(path)
            hops = [line.hop for line in found.releases]
            assert hops == list(range(1, len(hops) + 1))
            assert found.memory.copy.token.updates == len(hops)
            assert len(hops) >= counts[-1]
            counts.append(len(hops))
        process.kill()
    assert read_journal(path).memory == read_journal(path, node="ann", run_digest="run-1").memory
    with reopen(path) as journal:
        assert len(journal.memory.ledger) >= counts[-1]


def test_an_entry_at_the_worst_moment_for_a_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has seen the entries, and before it can look for the model, that is gone."""
    real, hops = Path.iterdir, iter(range(2, 6))
    with create(tmp_path / "journal") as journal:
        journal.append(updated(1, written(journal.models, b"1")))

        def iterdir(folder: Path) -> Iterator[Path]:
            for hop in hops:
                journal.append(updated(hop, written(journal.models, b"%d" % hop)))
                break
            return real(folder)

        monkeypatch.setattr(Path, "iterdir", iterdir)
        found = read_journal(tmp_path / "journal")
        monkeypatch.undo()
        assert found.memory == journal.memory
        assert [line.hop for line in found.releases] == [1, 2, 3, 4, 5]


# Disks that are full.


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("no right to mount a file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_stops_the_journal(small_disk: Path, tmp_path: Path) -> None:
    path = small_disk / "journal"
    with create(path) as journal:
        journal.append(updated(1, written(journal.models, bytes(300_000))))
        memory = journal.memory
        with pytest.raises(OSError, match="No space left") as full, ModelWriter(journal.models) as writer:
            writer.write(bytes(900_000))
        assert full.value.errno == errno.ENOSPC
        assert len(names(journal.models)) == 1
        journal.append(Heard((1, 1)))  # what could not be received was not written down, and is not missed
        with pytest.raises(JournalFull, match="the disk is full"):
            journal.append(updated(2, written(tmp_path / "elsewhere", bytes(900_000))))
    with reopen(path) as journal:
        assert journal.memory == memory.after(Heard((1, 1)))
        require_exactly_the_needed(journal)


# Memory.

FRUGAL = """
import sys
from pathlib import Path
import numpy as np
from skipring.network.protocol import Copy, Kept, Kind, Memory, Released, Token
from skipring.network.storage import JournalFile, ModelWriter, chunks_of, digest_of, load_parameters, store_parameters

def peak():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) << 10

count = 200
path = Path(sys.argv[1])
journal = JournalFile.create(path, node="ann", run_digest="run-1", blank=Memory.blank(3, Token(0, b"initial", b"")))
before = peak()
with ModelWriter(journal.models) as writer:  # receive
    for number in range(count):
        writer.write(np.full(1 << 18, number, np.float32).tobytes())
    received = writer.finish()
journal.append(Kept(Copy((0, 3), 1, Kind.ACCEPTED, Token(0, received, b"")), 1))
values = load_parameters(received, np.float32)  # compute
values += 1.0
journal.append(Released(Copy((0, 3), 1, Kind.UPDATED, Token(1, store_parameters(values, journal.models), b""))))
del values
sent = journal.memory.copy.token.parameters  # send
for number, chunk in enumerate(chunks_of(sent, 1 << 20)):
    assert np.array_equal(np.frombuffer(chunk, np.float32), np.full(1 << 18, number + 1, np.float32))
assert number == count - 1
journal.close()
with JournalFile.open(path, node="ann", run_digest="run-1") as journal:  # restart
    assert digest_of(journal.memory.copy.token.parameters) == digest_of(sent)
print((peak() - before) / (count << 20))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of memory is read from /proc")
def test_a_model_goes_through_a_node_in_little_more_than_its_own_size_of_memory(quick_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FRUGAL, str(quick_path / "journal")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert 0.9 < float(done.stdout) < 1.5


def test_what_is_in_a_file_is_not_in_the_database(tmp_path: Path) -> None:
    with create(tmp_path / "journal") as journal:
        journal.append(updated(1, store_parameters(np.zeros(LARGE, "u1"), journal.models)))
    with closing(sqlite3.connect(tmp_path / "journal")) as connection:
        assert connection.execute("SELECT entry, length(parameters) FROM models").fetchall() == [(0, 7)]
    assert (tmp_path / "journal").stat().st_size < 50_000
