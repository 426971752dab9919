"""An old journal is refused by the name of its run, and `network new-run` begins anew with the same people."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from networks import ended, free_ports, init_net, small_run

from skipring.errors import InvalidInput
from skipring.network.setup import ExitCode, agreed_run, load_node, new_identity, open_journal
from skipring.network.storage import read_journal
from skipring.runs import parse_run, read_run_file

Command = Callable[..., Any]
RUN = small_run(15, 'noise_multiplier = 3.0\nprotects = "node"')


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


def test_a_run_that_is_over_is_shown_and_not_begun_again(finished: Path, skipring_words: Command) -> None:
    log = (finished / "node1" / "node.log").read_text()
    said = skipring_words("network", "up", "net")
    assert said.code == 0
    assert said.out.startswith("The run was over already, and nothing was started")
    assert "None" not in said.out
    assert "3 of 3 nodes hold the same final model" in " ".join(said.out.split())
    assert "skipring network new-run net" in said.err
    assert " s (" not in said.out  # no time was taken
    found = skipring_words("network", "up", "net", "--json").data
    assert (found["was_over"], found["seconds"], [node["starts"] for node in found["nodes"]]) == (True, None, [0] * 3)
    assert (finished / "node1" / "node.log").read_text() == log


def test_an_owner_sees_how_one_node_is_doing(finished: Path, skipring_words: Command) -> None:
    said = skipring_words("node", "status", "net/node2")
    assert said.code == 0
    assert "hop 17 of 17" in said.out  # two of them close the run
    assert "node2" in said.out
    assert "node1 " not in said.out
    found = skipring_words("node", "status", "net/node2", "--json").data
    of_all = skipring_words("network", "status", "net", "--json").data["nodes"][1]
    assert found == of_all
    assert found["status"]["over"]
    wrong = skipring_words("node", "status", "net")
    assert (wrong.code, "is not the folder of a node" in wrong.err) == (2, True)


def test_nodes_without_a_budget_say_so_wherever_they_are_looked_at(finished: Path, skipring_words: Command) -> None:
    line = "o budget: node1, node2, node3; nothing stops updates however large epsilon becomes"
    for words in ("network check net", "network status net", "network up net"):
        assert line in " ".join(skipring_words(*words.split()).out.split()), words
    alone = "o budget: node2; nothing stops updates"
    for words in ("network check net/node2", "node status net/node2"):
        assert alone in " ".join(skipring_words(*words.split()).out.split()), words
    assert alone in (finished / "node2" / "node.log").read_text()
    for number in (1, 2, 3):
        settings = finished / f"node{number}" / "node.toml"
        settings.write_text(settings.read_text() + "\n[budget]\nepsilon = 90.0\ndelta = 1e-5\n")
    assert "no budget" not in skipring_words("network", "check", "net").out


@pytest.mark.early
def test_another_run_with_the_same_people_and_one_old_journal(finished: Path, skipring_words: Command) -> None:
    first = identity_of(finished / "run.toml")
    model = (finished / "node2" / "model.npy").read_bytes()
    verified = skipring_words("network", "verify", str(finished / "node2" / "model.npz"))
    assert verified.code == 0, verified.err
    assert verified.out.startswith("Verified: ")
    # The mistake: everybody begins anew, and one has put its old journal back.
    again = skipring_words("network", "new-run", str(finished))
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
        "settings.toml",
    ]
    assert (old / "model.npy").read_bytes() == model
    assert not (finished / "node2" / "model.npy").exists()
    for name in ("journal.sqlite", "journal.sqlite-witness"):
        shutil.copy(old / name, finished / "node2" / name)
    refused = skipring_words("network", "check", str(finished))
    assert refused.code == 1
    told = " ".join(refused.out.split())
    assert f"is of the run {first}, not of the run {second}; `skipring network new-run` puts it away" in told
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
    missing = skipring_words("network", "new-run", str(far))
    assert (missing.code, "give the run.toml that all nodes were given" in missing.err) == (2, True)
    unnamed = skipring_words("network", "new-run", str(far), "--run", "asked-for.toml")
    assert (unnamed.code, "has no network.identity" in unnamed.err) == (2, True)
    assert skipring_words("network", "new-run", str(finished), "--json").code == 0
    told = skipring_words("network", "new-run", str(far), "--run", str(finished / "run.toml"), "--json")
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
    refused = skipring_words("network", "new-run", str(finished))
    assert refused.code == 2
    assert f"node1 is running (process {pid}); stop it first" in " ".join(refused.err.split())
    assert sorted(path.name for path in (finished / "node2").iterdir()) == before


def told_of(skipring_words: Command, folder: Path, out: Path) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Return what the commands say of a node's account and model, for programs, and of the account for people."""
    privacy = skipring_words("node", "privacy", str(folder), "--json")
    assert privacy.code == 0, privacy.err
    model = skipring_words("node", "model", str(folder), "--out", str(out), "--json")
    assert model.code == 0, model.err
    return privacy.data, model.data, skipring_words("node", "privacy", str(folder)).out


@pytest.mark.parametrize("ledger", [False, True])
def test_an_earlier_run_is_told_of_as_before(
    finished: Path, skipring_words: Command, tmp_path: Path, ledger: bool
) -> None:
    node, out = finished / "node2", tmp_path / "out.npz"
    settings = node / "node.toml"
    text = settings.read_text().replace("# epsilon = 2.0", "epsilon = 90.0").replace("# delta = 1e-5", "delta = 1e-6")
    settings.write_text(text.replace('# ledger = "../ledgers/rows', 'ledger = "rows') if ledger else text)
    before = told_of(skipring_words, node, out)
    assert (before[0]["releases"], before[0]["guarantee"]["delta"], before[0]["budget"]) == (5, 1e-6, 90.0)
    first = identity_of(finished / "run.toml")
    (tmp_path / "next.toml").write_text(RUN.replace("steps = 15", "steps = 30"))
    assert skipring_words("network", "new-run", str(finished), "--run", "next.toml").code == 0
    settings.write_text(text.replace("90.0", "70.0").replace("1e-6", "1e-4"))  # the owner changes it for the next run
    if ledger:
        settings.write_text(settings.read_text().replace('# ledger = "../ledgers/rows', 'ledger = "rows'))
    earlier = node / "runs" / first
    assert told_of(skipring_words, earlier, out) == before
    moved = tmp_path / "kept" / first  # somewhere else
    shutil.copytree(earlier, moved)
    assert skipring_words("node", "privacy", str(moved), "--json").data == before[0]
    # In this run there is nothing yet, and that is no word about the others.
    for words in (("privacy",), ("privacy", "--json"), ("model",)):
        now = skipring_words("node", words[0], str(node), *words[1:])
        said = " ".join(now.err.split())
        assert (now.code, "given nothing away" in said) == (2, False)
        assert "no update in this run yet" in said
        assert f"skipring node privacy {earlier}" in said
        assert (f"skipring node ledger {node}" in said) == ledger
    # Of several, the last is the first to be asked for.
    shutil.copytree(earlier, node / "runs" / "2026-01-01-older")
    os.utime(node / "runs" / "2026-01-01-older" / "journal.sqlite", (0, 0))
    said = " ".join(skipring_words("node", "privacy", str(node)).err.split())
    assert f"{node / 'runs'} has 2026-01-01-older, {first}; for the last: skipring node privacy {earlier}" in said
    # What was put away without its settings is told of with those of now.
    (earlier / "settings.toml").unlink()
    found = skipring_words("node", "privacy", str(earlier), "--json").data
    assert (found["guarantee"]["delta"], found["budget"], found["releases"]) == (1e-4, 70.0, 5)
    refused = skipring_words("node", "privacy", str(node / "runs"))
    assert (refused.code, "is not the folder of a node" in refused.err) == (2, True)
