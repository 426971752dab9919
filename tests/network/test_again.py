"""An old journal is refused by the name of its run, and `network again` begins anew with the same people."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from networks import ended, free_ports, init_net

from skipring.errors import InvalidInput
from skipring.network.setup import ExitCode, agreed_run, load_node, new_identity, open_journal
from skipring.network.storage import read_journal
from skipring.runs import parse_run, read_run_file

Command = Callable[..., Any]
RUN = """
[data]
name = "breast-cancer"
[schedule]
steps = 15
[delay]
timeout = 5.0
[privacy]
noise_multiplier = 3.0
protects = "node"
"""


@pytest.fixture
def finished(skipring_words: Command, tmp_path: Path) -> Path:
    """A network of three nodes whose run is over."""
    folder = init_net(skipring_words, tmp_path, RUN, "--nodes", "3")
    done = skipring_words("network", "up", "net")
    assert done.code == 0, done.err
    return folder


def identity_of(path: Path) -> str:
    found = read_run_file(path).network.identity
    assert found is not None
    return found


def test_an_identity_is_a_day_and_chance() -> None:
    day = datetime(2026, 3, 1, tzinfo=UTC).date()
    first = new_identity(day, bytes(range(12)))
    assert first == "2026-03-01-000102030405060708090a0b"
    assert agreed_run(parse_run({"model": {"name": "logistic"}}), 3, first).network.identity == first
    with pytest.raises(InvalidInput, match="random = 3 bytes: must be 12 bytes"):
        new_identity(day, b"abc")
    with pytest.raises(InvalidInput, match=r"network\.identity = mine"):
        parse_run({"network": {"identity": "mine"}})


def test_a_run_file_without_one_is_refused(skipring_words: Command, tmp_path: Path) -> None:
    skipring_words("network", "init", "net", "--nodes", "3", "--port", str(free_ports(3)))
    run = tmp_path / "net" / "node1" / "run.toml"
    assert identity_of(run).startswith(datetime.now(UTC).strftime("%Y-%m-"))
    run.write_text(re.sub(r"identity = .*\n", "", run.read_text()))
    with pytest.raises(InvalidInput, match=r"network\.identity = missing: in .*run\.toml; `skipring network init"):
        load_node(tmp_path / "net" / "node1" / "node.toml")


@pytest.mark.early
def test_another_run_with_the_same_people_and_one_old_journal(finished: Path, skipring_words: Command) -> None:
    first = identity_of(finished / "run.toml")
    model = (finished / "node2" / "model.npy").read_bytes()
    verified = skipring_words("network", "verify", str(finished / "node2" / "model.npz"))
    assert verified.code == 0, verified.err
    assert verified.out.startswith("Verified: ")
    # The mistake: everybody begins anew, and one has put its old journal back.
    again = skipring_words("network", "again", str(finished))
    assert again.code == 0, again.err
    second = identity_of(finished / "run.toml")
    assert {identity_of(finished / f"node{i}" / "run.toml") for i in (1, 2, 3)} == {second}
    assert second != first
    old = finished / "node2" / "runs" / first
    assert sorted(path.name for path in old.iterdir()) == [
        "journal.sqlite",
        "journal.sqlite-witness",
        "model.npy",
        "model.npz",
        "node.log",
        "outcome.json",
        "result.json",
        "roster.toml",
        "run.toml",
    ]
    assert (old / "model.npy").read_bytes() == model
    assert not (finished / "node2" / "model.npy").exists()
    for name in ("journal.sqlite", "journal.sqlite-witness"):
        shutil.copy(old / name, finished / "node2" / name)
    refused = skipring_words("network", "check", str(finished))
    assert refused.code == 1
    told = " ".join(refused.out.split())
    assert f"is of the run {first}, not of the run {second}; `skipring network again` puts it away" in told
    code, said = ended(finished / "node2" / "node.toml")
    assert code == ExitCode.JOURNAL
    assert f"is of the run {first}, not of the run {second}" in said["why"]
    # What it has given away is not told with the terms of another run, either.
    wrong = skipring_words("node", "privacy", str(finished / "node2"))
    assert wrong.code == 2
    assert f"is of the run {second}; journal.sqlite is of the run {first}" in " ".join(wrong.err.split())
    for path in (finished / "node2").glob("journal*"):
        path.unlink()
    done = skipring_words("network", "up", str(finished))
    assert done.code == 0, done.err
    assert (finished / "node2" / "model.npy").read_bytes() != model
    assert len(read_journal(finished / "node2" / "journal.sqlite").releases) == 5


def test_one_node_is_given_what_all_were_given(finished: Path, skipring_words: Command, tmp_path: Path) -> None:
    far = tmp_path / "far"
    shutil.copytree(finished / "node3", far)
    first = identity_of(far / "run.toml")
    missing = skipring_words("network", "again", str(far))
    assert (missing.code, "give the run.toml that all nodes were given" in missing.err) == (2, True)
    unnamed = skipring_words("network", "again", str(far), "--run", "asked-for.toml")
    assert (unnamed.code, "has no network.identity" in unnamed.err) == (2, True)
    assert skipring_words("network", "again", str(finished), "--json").code == 0
    told = skipring_words("network", "again", str(far), "--run", str(finished / "run.toml"), "--json")
    assert told.data["put_away"] == [str(far / "runs" / first)]
    assert (far / "run.toml").read_bytes() == (finished / "run.toml").read_bytes()
    assert not (far / "journal.sqlite").exists()
    with open_journal(load_node(far / "node.toml")) as journal:
        assert journal.memory.ledger == ()


def test_a_node_that_runs_is_left_alone(finished: Path, skipring_words: Command) -> None:
    with open("/proc/self/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    pid = Path("/proc/self").resolve().name
    (finished / "node1" / "node.pid").write_text(f"{pid} {fields[19]}\n")  # this process stands in for it
    before = sorted(path.name for path in (finished / "node2").iterdir())
    refused = skipring_words("network", "again", str(finished))
    assert refused.code == 2
    assert f"node1 is running (process {pid}); stop it first" in " ".join(refused.err.split())
    assert sorted(path.name for path in (finished / "node2").iterdir()) == before
