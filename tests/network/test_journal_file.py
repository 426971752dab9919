"""The journal on a real disk: what it took is there after any crash, and what is damaged is refused, never believed."""

from __future__ import annotations

import hashlib
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import world
from summing import replayed

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
    Passing,
    Release,
    Released,
    Settled,
    Token,
    Wished,
)
from skipring.network.storage import JournalBroken, JournalError, JournalFile, JournalFull, read_journal

RUN = "run-1"
SUMS = 5  # rows are added up on the disk so often, here
BLANK = Memory.blank(3, Token(0, b"initial", b""))


def create(path: Path, blank: Memory = BLANK, sums: int = SUMS) -> JournalFile:
    return JournalFile.create(path, node="ann", run_digest=RUN, blank=blank, sum_after=sums)


def reopen(path: Path) -> JournalFile:
    return JournalFile.open(path, node="ann", run_digest=RUN, sum_after=SUMS)


def remembered(path: Path) -> tuple[Memory, list[Release]]:
    with reopen(path) as journal:
        return journal.memory, list(journal.releases())


def model(number: int, size: int = 32) -> bytes:
    return random.Random(number).randbytes(size)


def release(hop: int, size: int = 32) -> Released:
    return Released(Copy((0, 3), hop, Kind.UPDATED, Token(hop, model(hop, size), b"chain")))


def random_entry(rng: random.Random) -> Entry:
    ballot, hop = (rng.choice([rng.randrange(9), 2**70]), rng.randrange(5)), rng.randrange(100)
    token = Token(
        rng.randrange(100), rng.choice([b"", b"initial", rng.randbytes(3), rng.randbytes(9000)]), rng.randbytes(4)
    )
    copy = Copy(ballot, hop, rng.choice(list(Kind)), token)
    kept = Kept(copy, rng.choice([None, 0, 5]))
    entries: list[Entry] = [
        Heard(ballot),
        kept,
        Released(copy),
        Passing(ballot, hop),
        Gone(ballot, hop, rng.randrange(5)),
        Over(token, ballot),
        Over(token, ballot, ((1, rng.randbytes(3)),), ((0, rng.randbytes(3)), (2, b"wish"))),
        Wished(((rng.randrange(5), rng.randbytes(3)),)),
    ]
    return rng.choice(entries)


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one, for what is about bytes and not about disks."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as folder:
        yield Path(folder)


# What is written is read.


@pytest.mark.parametrize("seed", range(5))
def test_memory_is_what_the_entries_add_up_to(quick_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    entries = [random_entry(rng) for _ in range(80)]
    journal = create(quick_path / "journal")
    for count, entry in enumerate(entries, start=1):
        journal.append(entry)
        if rng.random() < 0.3:
            journal.close()
            journal = reopen(quick_path / "journal")
        assert journal.memory == replayed(BLANK, entries[:count])
    journal.close()
    assert remembered(quick_path / "journal")[0] == replayed(BLANK, entries)


def test_histories_of_the_protocol_are_remembered(quick_path: Path) -> None:
    kinds: set[type] = set()
    for seed in range(10, 40):
        found = world.history(seed)
        blank = Memory.blank(found.rules.path[0], found.initial)
        for node, machine in enumerate(found.machines):
            path = quick_path / f"{seed}-{node}"
            half = len(machine.disk) // 2
            with create(path, blank) as journal:
                for entry in machine.disk[:half]:
                    journal.append(entry)
            with reopen(path) as journal:
                assert journal.memory == replayed(blank, machine.disk[:half])
                for entry in machine.disk[half:]:
                    journal.append(entry)
            memory, ledger = remembered(path)
            assert memory == machine.memory
            assert tuple((line.ballot, line.hop) for line in ledger) == machine.memory.ledger
            kinds |= {type(entry) for entry in machine.disk}
    assert kinds == {Heard, Kept, Released, Passing, Gone, Over, Settled, Wished}


def test_ledger_tells_place_updates_time_and_digest(tmp_path: Path) -> None:
    with create(tmp_path / "journal") as journal:
        journal.append(release(4), written=12.5)
        journal.append(Heard((1, 1)))
        journal.append(release(9))
        before = list(journal.releases())
    assert before[0] == Release((0, 3), 4, 4, 12.5, hashlib.sha256(model(4)).hexdigest())
    assert before[1].written > 1.7e9
    assert remembered(tmp_path / "journal")[1] == before


def test_a_long_ledger_is_the_one_that_the_entries_add_up_to(quick_path: Path) -> None:
    rng, path = random.Random(7), quick_path / "journal"
    entries = [release(hop) if rng.random() < 0.9 else random_entry(rng) for hop in range(3000)]
    with create(path) as journal:
        for start in range(0, len(entries), 100):
            journal.append(*entries[start : start + 100])
        assert journal.memory == replayed(BLANK, entries)
    memory, ledger = remembered(path)
    assert memory == replayed(BLANK, entries)
    assert tuple((line.ballot, line.hop) for line in ledger) == memory.ledger


def without_parameters(entry: Entry) -> Entry:
    if isinstance(entry, Over):
        return replace(entry, token=replace(entry.token, parameters=b""))
    if isinstance(entry, Kept | Released):
        return replace(entry, copy=replace(entry.copy, token=replace(entry.copy.token, parameters=b"")))
    return entry


def test_entries_are_told_with_their_times(quick_path: Path) -> None:
    rng = random.Random(3)
    entries = [random_entry(rng) for _ in range(2500)]  # they are read page by page
    with create(quick_path / "journal", sums=400) as journal:
        for number, entry in enumerate(entries):
            journal.append(entry, written=float(number))
        journal.append(release(7), Heard((9, 9)), written=1e9)
        told = list(journal.entries())
        assert read_journal(quick_path / "journal").entries == tuple(told)
    assert [time for time, _ in told] == [*range(2500), 1e9, 1e9]
    assert [without_parameters(entry) for _, entry in told[:2500]] == list(map(without_parameters, entries))
    assert [entry for _, entry in told[2500:]] == [release(7), Heard((9, 9))]
    with reopen(quick_path / "journal") as journal:
        assert list(journal.entries()) == told
        telling = journal.entries()
        next(telling)
        journal.append(Heard((10, 1)))  # does not disturb it
        assert list(telling) == told[1:]
    with pytest.raises(JournalBroken, match="closed"):
        journal.entries()


def test_only_parameters_that_are_needed_are_kept(quick_path: Path) -> None:
    path, size = quick_path / "journal", 10**6
    with create(path) as journal:
        for hop in range(1, 201):
            journal.append(release(hop, size))
        assert (
            sum(file.stat().st_size for file in quick_path.iterdir()) < 8 * size
        )  # the log is up to 1000 pages and one model
        journal.append(Over(Token(200, model(200, size), b""), (0, 3)))
        memory = journal.memory
    assert sum(file.stat().st_size for file in quick_path.iterdir()) < 3 * size
    found, ledger = remembered(path)
    assert found == memory
    assert found.copy.token.parameters == model(200, size)
    assert [line.parameters for line in ledger[::50]] == [
        hashlib.sha256(model(hop, size)).hexdigest() for hop in range(1, 201, 50)
    ]


def test_any_name_will_do_and_a_link_is_the_same_journal(tmp_path: Path) -> None:
    path = tmp_path / "50% of? #ä journal"
    (tmp_path / "link").symlink_to(path)
    with create(path) as journal:
        journal.append(Heard((1, 1)))
        with pytest.raises(InvalidInput, match="in use"):
            reopen(tmp_path / "link")
    assert remembered(tmp_path / "link")[0].promised == (1, 1)


# Crashes.


def test_each_entry_is_synced(tmp_path: Path) -> None:
    with create(tmp_path / "journal") as journal:
        ask = journal._connection.execute
        assert ask("PRAGMA journal_mode").fetchone() == (b"wal",)
        assert ask("PRAGMA synchronous").fetchone() == (2,)


WRITER = """
import hashlib, random, sys
from skipring.network.protocol import Copy, Heard, Kind, Released, Token
from skipring.network.storage import JournalFile
with JournalFile.open(sys.argv[1], node="ann", run_digest="run-1", sum_after=3) as journal:
    hop = len(journal.memory.ledger)
    print("open", flush=True)
    while True:
        hop += 1
        parameters = random.Random(hop).randbytes(60_000)
        journal.append(Released(Copy((0, 3), hop, Kind.UPDATED, Token(hop, parameters, b"chain"))))
        journal.append(Heard((hop, 1)))
        print(hop, flush=True)
"""


def writer(path: Path, code: str = WRITER) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)


def test_nothing_that_was_reported_is_lost_by_kill_9(tmp_path: Path) -> None:
    path, rng = tmp_path / "journal", random.Random(1)
    create(path).close()
    reported = 0
    for _ in range(10):
        with writer(path) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "open\n"
            for _ in range(rng.randrange(1, 40)):
                reported = int(process.stdout.readline())
            process.send_signal(signal.SIGKILL)
            reported = int(([str(reported), *process.stdout.read().split()])[-1])
        memory, ledger = remembered(path)
        hops = [line.hop for line in ledger]
        assert hops == list(range(1, len(hops) + 1))
        assert reported <= len(hops) <= reported + 1
        assert memory.promised[0] >= reported
        assert memory.copy.token.parameters == model(len(hops), 60_000)
        reported = len(hops)


def test_creation_that_was_interrupted_is_done_again(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    (tmp_path / "journal-new").write_bytes(b"half a file")
    (tmp_path / "journal-witness").touch()
    with create(path) as journal:
        journal.append(Heard((1, 1)))
    assert remembered(path)[0].promised == (1, 1)
    assert {file.name for file in tmp_path.iterdir()} == {"journal", "journal-witness"}
    assert path.stat().st_mode & 0o077 == 0


def test_entries_that_are_written_at_once_are_there_all_or_not_at_all(tmp_path: Path) -> None:
    odd: Any = object()
    with create(tmp_path / "journal") as journal:
        journal.append(release(1), Heard((1, 1)))
        memory = journal.memory
        with pytest.raises(JournalBroken):
            journal.append(Heard((2, 1)), release(2), Heard((odd, 1)))
        require_silent(journal)
    assert memory == replayed(BLANK, [release(1), Heard((1, 1))])
    assert remembered(tmp_path / "journal")[0] == memory


# Damage.


def killed(folder: Path, entries: int) -> dict[str, bytes]:
    """Return the files as a process leaves them that is killed: the newest entries are in the write-ahead log."""
    with create(folder / "journal") as journal:
        for hop in range(entries):
            journal.append(release(hop, 5000) if hop % 4 == 0 else Heard((hop, 1)))
        return {file.name: file.read_bytes() for file in folder.iterdir() if not file.name.endswith("-shm")}


def put(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(exist_ok=True)
    for file in folder.iterdir():
        file.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder / "journal"


def closed(folder: Path, entries: int) -> dict[str, bytes]:
    killed(folder, entries)
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.parametrize(
    ("leave", "entries", "samples"),
    [(closed, 30, 200), (killed, 30, 200), pytest.param(killed, 700, 40, marks=pytest.mark.slow)],
)
def test_a_changed_byte_is_noticed_or_changes_nothing(
    quick_path: Path, leave: Callable[[Path, int], dict[str, bytes]], entries: int, samples: int
) -> None:
    (quick_path / "made").mkdir()
    files, rng = leave(quick_path / "made", entries), random.Random(entries)
    expected = remembered(put(quick_path / "tried", files))
    refused = 0
    for name, content in files.items():
        # The whole of the headers, and a sample of the rest.
        places = {*range(min(100, samples, len(content))), *(rng.randrange(len(content)) for _ in range(samples))}
        for place in sorted(places):
            changed = bytearray(content)
            changed[place] ^= 1 << rng.randrange(8)
            path = put(quick_path / "tried", {**files, name: bytes(changed)})
            try:
                found = remembered(path)
            except (InvalidInput, JournalError):
                refused += 1
                left = {file: (path.parent / file).read_bytes() for file in files}
                assert left == {**files, name: bytes(changed)}  # for whoever wants to find out what happened
            else:
                assert found == expected, (name, place)
    assert refused > samples


@pytest.mark.parametrize("lost", ["journal", "journal-wal", "journal-witness"])
def test_a_missing_file_is_noticed(tmp_path: Path, lost: str) -> None:
    (tmp_path / "made").mkdir()
    files = killed(tmp_path / "made", 10)
    del files[lost]
    path = put(tmp_path / "tried", files)
    for look in (reopen, read_journal):
        with pytest.raises(InvalidInput, match=r"damaged|does not exist"):
            look(path)
    with pytest.raises(InvalidInput, match=r"exists already|its witness knows of entries"):
        create(path)
    assert all((path.parent / name).read_bytes() == content for name, content in files.items())


def test_a_truncated_file_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    files = closed(tmp_path / "made", 30)
    for size in range(0, len(files["journal"]), 3000):
        path = put(tmp_path / "tried", {**files, "journal": files["journal"][:size]})
        with pytest.raises(InvalidInput, match="journal"):
            reopen(path)


EDITS = {
    "the first deleted": "DELETE FROM entries WHERE number = 0",
    "one deleted": "DELETE FROM entries WHERE number = 5",
    "the last deleted": "DELETE FROM entries WHERE number = 12",
    "one deleted and the rest moved up": """DELETE FROM entries WHERE number = 11;
        UPDATE entries SET number = 11 WHERE number = 12""",
    "two exchanged": """UPDATE entries SET number = 99 WHERE number = 5; UPDATE entries SET number = 5 WHERE number = 6;
        UPDATE entries SET number = 6 WHERE number = 99""",
    "one changed": "UPDATE entries SET body = CAST(body || x'00' AS BLOB) WHERE number = 4",
    "one emptied": "UPDATE entries SET body = '' WHERE number = 4",
    "a time changed": """UPDATE entries SET body = CAST(x'00' || zeroblob(8) || substr(body, 10) AS BLOB)
        WHERE number = 1""",
    "a number in place of text": "UPDATE entries SET body = 7 WHERE number = 4",
    "a digest changed": "UPDATE entries SET digest = zeroblob(32) WHERE number = 3",
    "the last digest changed": "UPDATE entries SET digest = zeroblob(32) WHERE number = 12",
    "one added": "INSERT INTO entries SELECT 13, body, digest FROM entries WHERE number = 12",
    "all deleted": "DELETE FROM entries",
    "a model deleted": "DELETE FROM models WHERE entry = 0",
    "the newest model deleted": "DELETE FROM models WHERE entry != 0",
    "a model changed": "UPDATE models SET parameters = zeroblob(32) WHERE entry != 0",
    "a model added": "INSERT INTO models VALUES (77, zeroblob(32))",
    "a sum deleted": "DELETE FROM states",
    "a sum changed": "UPDATE states SET state = CAST(substr(state, 1, length(state) - 1) || x'77' AS BLOB)",
    "a sum emptied": "UPDATE states SET state = x''",
    "a sum moved": "UPDATE states SET entry = 5",
    "a sum of nothing": "UPDATE states SET entry = 0",
    "a sum of rows to come": "UPDATE states SET entry = 99",
    "a sum added": "INSERT INTO states SELECT 11, state FROM states",
    "a number in place of a sum": "UPDATE states SET state = 7",
    "another table": "CREATE TABLE more (x)",
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries WHERE number = new.number; END",
    "no table": "DROP TABLE entries",
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_journal_is_refused(tmp_path: Path, edit: str) -> None:
    path = tmp_path / "journal"
    with create(path) as journal:
        for hop in range(1, 13):
            journal.append(release(hop))
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(EDITS[edit])
    for look in (reopen, read_journal):
        with pytest.raises(InvalidInput, match="is damaged"):
            look(path)


def test_an_older_file_beside_the_newest_witness_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with create(path) as journal:
        journal.append(Heard((1, 1)))
    older = path.read_bytes()
    with reopen(path) as journal:
        journal.append(Heard((2, 1)))
    path.write_bytes(older)
    for look in (reopen, read_journal):
        with pytest.raises(InvalidInput, match="entries up to number 2 were written, and the newest are missing"):
            look(path)


def test_an_older_witness_is_believed_as_far_as_it_goes(tmp_path: Path) -> None:
    """A power cut may leave one; the next opening makes it exact again."""
    path, witness = tmp_path / "journal", tmp_path / "journal-witness"
    with create(path) as journal:
        journal.append(Heard((1, 1)))
        older = witness.read_bytes()
        journal.append(Heard((2, 1)))
    newest = witness.read_bytes()
    witness.write_bytes(older)
    assert remembered(path)[0].promised == (2, 1)
    assert witness.read_bytes() == newest


# Whose it is.


def test_the_journal_of_another_node_run_or_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    create(path).close()
    with pytest.raises(InvalidInput, match="is of node ann in run run-1, not of node bob in run run-1"):
        JournalFile.open(path, node="bob", run_digest=RUN)
    with pytest.raises(InvalidInput, match="not of node ann in run run-2"):
        JournalFile.open(path, node="ann", run_digest="run-2")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version=1")
    with pytest.raises(InvalidInput, match="has format 1; this skipring reads format 4"):
        reopen(path)


def test_what_is_no_journal_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with pytest.raises(InvalidInput, match="does not exist"):
        reopen(path)
    with pytest.raises(InvalidInput, match="its folder does not exist"):
        create(tmp_path / "no" / "journal")
    with pytest.raises(InvalidInput, match="before the run"):
        create(path, BLANK.after(release(1)))
    create(path).close()
    with pytest.raises(InvalidInput, match="exists already"):
        create(path)
    with closing(sqlite3.connect(tmp_path / "other")) as connection:
        connection.execute("CREATE TABLE notes (x)")
    other = (tmp_path / "other").read_bytes()
    for content in (b"", b"no database at all" * 99, other):
        path.write_bytes(content)
        with pytest.raises(InvalidInput, match=r"is not a journal of skipring|is damaged"):
            reopen(path)
        assert path.read_bytes() == content


def test_one_process_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with create(path) as journal:
        with pytest.raises(InvalidInput, match="in use"):
            reopen(path)  # nor the same process twice
        journal.append(Heard((1, 1)))
    with writer(path) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(InvalidInput, match="is in use by another process"):
            reopen(path)
        process.kill()
    assert remembered(path)[0].promised[0] >= 1


# Reading along.


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if not file.name.endswith("-shm")}


@pytest.mark.parametrize("leave", [closed, killed])
def test_reading_changes_nothing(tmp_path: Path, leave: Callable[[Path, int], dict[str, bytes]]) -> None:
    (tmp_path / "made").mkdir()
    path = put(tmp_path / "left", leave(tmp_path / "made", 30))
    before = contents(path.parent)
    found = read_journal(path)
    assert contents(path.parent) == before
    assert leave is killed or not Path(f"{path}-shm").exists()
    assert (found.node, found.run_digest, len(found.entries)) == ("ann", RUN, 30)
    assert (found.memory, list(found.releases)) == remembered(path)


def test_a_journal_is_read_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with create(path) as journal:
        for hop in range(1, 30):
            journal.append(release(hop), Heard((hop, 1)))
            found = read_journal(path)
            assert (found.memory, found.releases) == (journal.memory, tuple(journal.releases()))
            assert found.memory.copy == release(hop).copy


def test_a_reader_that_takes_its_time_is_in_nobodys_way(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    create(path).close()
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None)) as reader:
        with reopen(path) as journal:
            reader.execute("BEGIN")
            assert reader.execute("SELECT count(*) FROM entries").fetchone() == (1,)
            journal.append(release(1))
            assert reader.execute("SELECT count(*) FROM entries").fetchone() == (1,)
        reader.execute("COMMIT")
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM entries").fetchone() == (2,)
        with reopen(path) as journal:  # what it reads is the newest, and is on the disk
            journal.append(release(2))
    assert remembered(path)[0].copy == release(2).copy


def test_whose_it_is_can_be_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    create(path).close()
    assert read_journal(path, node="ann").run_digest == RUN
    assert read_journal(path, run_digest=RUN).node == "ann"
    with pytest.raises(InvalidInput, match="is of node ann in run run-1, not of node bob in run run-1"):
        read_journal(path, node="bob")
    with pytest.raises(InvalidInput, match="is of node ann in run run-1, not of node ann in run run-2"):
        read_journal(path, run_digest="run-2")
    with pytest.raises(InvalidInput, match="does not exist"):
        read_journal(tmp_path / "another")


# Disks that are full or fail.


def require_silent(journal: JournalFile) -> None:
    for use in (lambda: journal.append(Heard((9, 9))), lambda: journal.memory, journal.releases):
        with pytest.raises(JournalError):
            use()


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


@pytest.mark.parametrize("size", [10, 50_000])
def test_a_full_disk_stops_the_journal(small_disk: Path, size: int) -> None:
    path, taken = small_disk / "journal", 0
    with create(path) as journal:
        try:
            for hop in range(1, 10**4):
                journal.append(release(hop, size))
                taken = hop
        except JournalFull as error:
            said = str(error)
        require_silent(journal)
    assert said == f"journal {path}: the disk is full; nothing more is recorded, so nothing may be released"
    assert taken > 3
    subprocess.run(["mount", "-o", "remount,size=9m", str(small_disk)], check=True)
    memory, ledger = remembered(path)
    assert len(ledger) == taken
    assert memory.copy.token.parameters == model(taken, size)


LIMITED = """
import resource, sys
from skipring.network.protocol import Heard
from skipring.network.storage import JournalBroken, JournalFile
with JournalFile.open(sys.argv[1], node="ann", run_digest="run-1") as journal:
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    for number in range(1, 10**4):
        try:
            journal.append(Heard((number, 1)))
        except JournalBroken as error:
            print("cannot be written" in str(error), flush=True)
            break
        print(number, flush=True)
    try:
        journal.append(Heard((number, 1)))
    except JournalBroken:
        print("silent", flush=True)
"""


def test_a_disk_that_fails_stops_the_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    create(path).close()
    with writer(path, LIMITED) as process:
        assert process.stdout is not None
        *numbers, clear, silent = process.stdout.read().split()
    assert (clear, silent) == ("True", "silent")
    assert len(numbers) > 10
    assert remembered(path)[0].promised == (int(numbers[-1]), 1)


def test_what_cannot_be_written_stops_the_journal(tmp_path: Path) -> None:
    odd: Any = object()
    for number, entry in enumerate([odd, Heard((odd, 1)), Kept(Copy((0, 3), 1, Kind.FINAL, Token(1, odd, b"")))]):
        path = tmp_path / f"journal-{number}"
        with create(path) as journal:
            journal.append(Heard((1, 1)))
            with pytest.raises(JournalBroken, match="cannot be written"):
                journal.append(entry)
            require_silent(journal)
        require_silent(journal)
        assert remembered(path)[0] == BLANK.after(Heard((1, 1)))
