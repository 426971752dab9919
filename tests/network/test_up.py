"""Nodes as processes: started, watched, stopped and started again, as a person or a supervisor does it."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest
from networks import allow, free_ports

from skipring._json import from_json
from skipring.cli._nodes_view import word_of
from skipring.data.prepare import _test_rows
from skipring.errors import InvalidInput
from skipring.models import load_model
from skipring.network.node import NodeStatus, metrics_text, read_node_config
from skipring.network.protocol import Released, updated_hops
from skipring.network.setup import LocalNetwork, load_node, node_result, node_status
from skipring.network.storage import read_journal
from skipring.privacy import ALL_OTHERS, ANOTHER_NODE, OUTSIDER, SHOWN, Guarantee, gdp_epsilon
from skipring.runs import dataset_of, read_run_file, stream

DATA = '[data]\nname = "breast-cancer"\n'
RUN = f"{DATA}[schedule]\nsteps = {{steps}}\n[delay]\ntimeout = 30.0\n[privacy]\nnoise_multiplier = 3.0\n"


Command = Callable[..., Any]


def make(skipring_words: Command, folder: Path, nodes: int, steps: int, *more: str) -> Path:
    run = folder.with_suffix(".toml")
    run.write_text(RUN.format(steps=steps))
    words = ["--nodes", str(nodes), "--port", str(free_ports(nodes)), "--run", str(run), *more]
    made = skipring_words("network", "init", str(folder), *words)
    assert made.code == 0, made.err
    return folder


def until(true: Callable[[], Any], what: str, seconds: float = 90.0) -> Any:
    """Wait for something that will come, however busy the machine is."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = true()
        if found:
            return found
        time.sleep(0.05)
    pytest.fail(f"waited in vain: {what}")


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Callable[[Path], LocalNetwork]]:
    """Start the nodes of a folder; they are stopped when the test ends."""
    running: list[LocalNetwork] = []

    def start(folder: Path) -> LocalNetwork:
        running.append(LocalNetwork(folder))
        running[-1].start()
        return running[-1]

    yield start
    for one in running:
        one.stop()


def test_up_shows_what_came_out(tmp_path: Path, skipring_words: Command) -> None:
    folder = make(skipring_words, tmp_path / "net", 3, 400)
    done = skipring_words("network", "up", str(folder), "--steps", "30")
    assert done.code == 0, done.err
    assert "3 of 3 nodes hold the same final model" in " ".join(done.out.split())
    assert "in 30 hops" in " ".join(done.out.split())
    assert max(map(len, done.out.splitlines())) <= 80
    models = [(folder / f"node{i}" / "model.npy").read_bytes() for i in (1, 2, 3)]
    assert models[0] == models[1] == models[2]
    _can_be_used(folder, skipring_words)
    told = skipring_words("network", "status", str(folder), "--json").data
    assert [node["running"] for node in told["nodes"]] == [False] * 3
    assert all(node["status"]["over"] for node in told["nodes"])
    privacy = skipring_words("node", "privacy", str(folder / "node2"), "--json").data
    assert privacy["releases"] == told["nodes"][1]["status"]["own_updates"]
    assert privacy["guarantee"]["epsilon"] == pytest.approx(told["nodes"][1]["status"]["guarantee"]["epsilon"])
    assert [one["name"] for one in privacy["observers"]] == ["node1", "node3"]
    shown = skipring_words("node", "privacy", str(folder / "node2")).out
    stated = from_json(Guarantee, privacy["guarantee"])
    assert (stated.against, [each.against for each in stated.also]) == (
        ANOTHER_NODE,
        [ALL_OTHERS, OUTSIDER, ALL_OTHERS],
    )
    assert [each.protects for each in stated.also] == ["record", "record", "node"]
    for sentence in stated.sentences():
        assert sentence in " ".join(shown.split())
    assert max(map(len, shown.splitlines())) <= 80
    other = skipring_words("network", "up", str(folder), "--steps", "31")
    assert other.code == 2
    assert "the run has begun" in other.err
    # What it has given away is told with the terms of the run it took part in, or not at all.
    run = folder / "node2" / "run.toml"
    run.write_text(run.read_text().replace("noise_multiplier = 3.0", "noise_multiplier = 30.0"))
    lie = skipring_words("node", "privacy", str(folder / "node2"))
    assert lie.code == 2
    said = "is not the run file of journal.sqlite; changed since the run began: privacy.noise_multiplier\n"
    assert said in lie.err
    run.write_text(run.read_text().replace("noise_multiplier = 30.0", "noise_multiplier = 3.0"))
    # A damaged journal stops a node before it starts.
    (folder / "node1" / "journal.sqlite").write_bytes(b"x" * 5000)
    words = [sys.executable, "-m", "skipring", "node", "run", str(folder / "node1" / "node.toml")]
    refused = subprocess.run(words, capture_output=True, text=True, check=False, timeout=90)
    assert refused.returncode == 3
    assert len(refused.stderr.splitlines()) == 1
    assert "journal.sqlite: is" in refused.stderr
    # Without a majority nobody waits for ever; and results of an earlier run are not shown as those of a new one.
    for name in ("node1", "node3"):
        (folder / name / "node.key").write_text("no key")
    for path in folder.glob("node2/journal*"):
        path.unlink()
    again = skipring_words("network", "up", str(folder), "--json")
    assert again.code == 1
    assert "node1 ended with exit code 2: " in again.err
    assert "{" not in again.err  # why it did, and not its log
    assert not (folder / "node2" / "result.json").exists()


def _can_be_used(folder: Path, skipring_words: Command) -> None:
    """The model of each node predicts, has the same parameters, and says what it cost that node."""
    for number in (1, 2, 3):
        own = folder / f"node{number}"
        found, result = load_model(own / "model.npz"), node_result(own)
        assert result is not None
        np.testing.assert_array_equal(found.parameters, np.load(own / "model.npy"))
        assert found.facts.updates == result.updates
        first = found.facts.guarantee
        assert (first.whose, first.method, first.epsilon) == (f"node node{number}", "own account", result.epsilon)
        final, together = first.beside(OUTSIDER), first.beside(ALL_OTHERS)
        assert final is not None
        assert together is not None
        assert together.epsilon == result.guarantee.also[0].epsilon
        assert final.sees == SHOWN
        assert first.epsilon is not None
        assert final.epsilon is not None
        assert final.epsilon <= first.epsilon
        # Nodes share a data set here, and each tests with the same part of it.
        run = read_run_file(own / "run.toml")
        rows = dataset_of(run)
        test = _test_rows(rows, stream(run), run.data.test_share)
        wrong = found.predict(rows.features[test]) != np.array(rows.classes)[rows.labels[test]]
        assert np.mean(wrong) == pytest.approx(result.test_error)
        # From the journal comes the same file.
        told = skipring_words("node", "model", str(own), "--out", "again.npz", "--json")
        assert told.code == 0, told.err
        assert told.data["source"] == f"the final model, as node node{number} has it"
        assert Path("again.npz").read_bytes() == (own / "model.npz").read_bytes()
    assert len({load_model(folder / f"node{number}" / "model.npz").facts.run for number in (1, 2, 3)}) == 1


def test_up_says_whose_budget_was_spent(tmp_path: Path, skipring_words: Command) -> None:
    """A ring, and nobody is late: each of four nodes has 6 turns, and node2 can afford 2 updates."""
    run = tmp_path / "asked.toml"
    run.write_text(
        DATA
        + '[schedule]\nname = "ring"\nsteps = 24\n[delay]\ntimeout = 30.0\n'
        + '[privacy]\nprotects = "node"\nepsilon = 4.0\n'
    )
    folder = tmp_path / "net"
    words = ["--nodes", "4", "--port", str(free_ports(4)), "--run", str(run), "--delay", "exponential:0.01"]
    made = skipring_words("network", "init", str(folder), *words)
    assert made.code == 0, made.err
    told = " ".join(made.out.split())
    assert "Epsilon 4 at delta 1e-05 protects all data of each node (replace-one) against another node" in told
    assert "(method own account). A node refuses its turns beyond that." in told
    assert "Unless nodes have files of their own, features are standardised" in told
    assert max(len(line) for line in made.out.splitlines() if str(tmp_path) not in line) <= 80
    noise = read_run_file(folder / "run.toml").privacy.noise_multiplier
    assert noise is not None
    settings = folder / "node2" / "node.toml"
    less = gdp_epsilon(2.0 * math.sqrt(2.5) / noise, 1e-5)
    settings.write_text(settings.read_text().replace("\nepsilon = 4.0 ", f"\nepsilon = {less} "))
    done = skipring_words("network", "up", str(folder))
    assert done.code == 0, done.err
    text = " ".join(done.out.split())
    assert "4 of 4 nodes hold the same final model" in text
    assert "after 20 updates in 24 hops" in text
    assert "turns were refused (counted as skipped): node2 4." in text
    assert max(map(len, done.out.splitlines())) <= 80
    assert "node2 4." in " ".join(skipring_words("network", "status", str(folder)).out.split())
    told = skipring_words("network", "status", str(folder), "--json").data["nodes"]
    assert [node["status"]["refused_for_budget"] for node in told] == [0, 4, 0, 0]
    assert [node["status"]["own_updates"] for node in told] == [6, 2, 6, 6]
    assert told[1]["status"]["guarantee"]["epsilon"] <= less
    lines = [json.loads(line) for line in (folder / "node2" / "node.log").read_text().splitlines()]
    (first,) = [line for line in lines if line["event"] == "budget"]  # the others with --verbose
    assert first["budget"] == pytest.approx(less)
    assert first["epsilon"] == pytest.approx(told[1]["status"]["guarantee"]["epsilon"])
    assert "this turn is refused" in first["why"]
    assert next(line for line in lines if line["event"] == "over")["refused_for_budget"] == 4
    (found,) = [
        line
        for line in metrics_text(from_json(NodeStatus, told[1]["status"])).splitlines()
        if "{" in line and "for_budget" in line
    ]
    assert found == 'skipring_refused_for_budget_total{node="node2"} 4'
    assert all(node["status"]["guarantee"]["epsilon"] <= 4.0 for node in told)


def test_a_node_that_is_told_to_stop_passes_the_token_on_and_goes_on_later(
    tmp_path: Path, skipring_words: Command, network: Callable[[Path], LocalNetwork]
) -> None:
    folder = make(skipring_words, tmp_path / "net", 3, 60, "--delay", "exponential:0.05")
    running = network(folder)
    config = read_node_config(folder / "node2" / "node.toml")
    until(lambda: (told := node_status(config)) is not None and told.own_updates >= 2, "two updates")
    with urlopen(f"http://{config.metrics}/health") as answer:
        assert answer.read() == b"ok\n"
    with urlopen(f"http://{config.metrics}/metrics") as answer:
        assert 'skipring_steps{node="node2"} 62' in answer.read().decode()
    os.kill(running.pid("node2"), signal.SIGTERM)
    assert until(lambda: not running.look(restart=False)[1].running, "the node to stop")
    assert running.states[1].code == 0
    assert not (folder / "node2" / "node.pid").exists()
    before = read_journal(config.journal)
    told = skipring_words("node", "model", str(folder / "node2"))
    assert told.code == 0, told.err
    assert "a run that is not over, as node node2 has it" in told.out
    stopped_at = load_model(folder / "node2" / "model.npz")
    assert stopped_at.parameters.tobytes() == before.memory.copy.token.parameters
    first = stopped_at.facts.guarantee
    alone = first.beside(OUTSIDER)
    assert alone is not None
    assert "shown this model, before the run is over" in alone.sees
    assert "the run is not over" in str(first.not_covered)
    assert (
        first.epsilon == skipring_words("node", "privacy", str(folder / "node2"), "--json").data["guarantee"]["epsilon"]
    )
    while_running = skipring_words("node", "model", str(folder / "node1"), "--out", "now.npz", "--json")
    assert while_running.code == 0, while_running.err
    # Status and stop find the others by themselves; everything goes on afterwards.
    status = skipring_words("network", "status", str(folder)).out
    assert (status.count(" running"), status.count("not running")) == (3, 1)
    stopped = skipring_words("network", "stop", str(folder), "--json").data
    assert stopped == {"folder": str(folder), "stopped": ["node1", "node3"], "left": []}
    assert skipring_words("network", "stop", str(folder)).out == "No node was running here.\n"
    done = skipring_words("network", "up", str(folder), "--json")
    assert done.code == 0, done.err
    after = read_journal(config.journal)
    assert [r.parameters for r in after.releases][: len(before.releases)] == [r.parameters for r in before.releases]
    assert len({(folder / f"node{i}" / "model.npy").read_bytes() for i in (1, 2, 3)}) == 1
    lines = [json.loads(line) for line in (folder / "node2" / "node.log").read_text().splitlines()]
    assert [line["event"] for line in lines].count("started") == 2
    notes = [line["what"] for line in lines if line["event"] == "note"]
    assert len(notes) == 4  # two for each start
    assert all(note.startswith("no budget: node2; nothing stops updates") for note in notes[::2])
    assert all(
        note.startswith("features are standardised by the mean and deviation of all nodes' rows")
        for note in notes[1::2]
    )
    assert "stopped" in [line["event"] for line in lines]


def test_nodes_of_another_network_at_the_same_ports_are_not_taken_for_this_one(
    tmp_path: Path, skipring_words: Command, network: Callable[[Path], LocalNetwork]
) -> None:
    mine = make(skipring_words, tmp_path / "mine", 2, 600, "--delay", "exponential:0.05")
    config = read_node_config(mine / "node1" / "node.toml")
    given = ["--run", str(mine.with_suffix(".toml")), "--port", str(config.listen).rpartition(":")[2]]
    made = skipring_words("network", "init", str(tmp_path / "other"), "--nodes", "2", *given)
    assert made.code == 0, made.err
    network(mine)
    told = until(lambda: node_status(config), "a node's status")
    assert told.run == read_run_file(mine / "run.toml").network.identity
    other = read_node_config(tmp_path / "other" / "node1" / "node.toml")
    assert other.metrics == config.metrics
    assert node_status(other, 20.0) is None
    for words in (["network", "status", "other"], ["node", "status", "other/node1"]):
        answer = skipring_words(*words)
        assert answer.code == 0
        assert "nother network listens at metrics = 127.0.0.1:" in " ".join(answer.err.split())
        assert "Next:" in answer.out  # nothing runs here
    assert skipring_words("network", "status", "other", "--json").data["nodes"][0]["status"] is None
    refused = skipring_words("network", "up", "other")
    assert refused.code == 2
    assert "another network listens at metrics" in " ".join(refused.err.split())
    assert not (tmp_path / "other" / "node1" / "node.log").exists()
    assert skipring_words("network", "status", "mine").err == ""


def test_ctrl_c_counts_what_nodes_did_until_they_stopped(tmp_path: Path, skipring_words: Command) -> None:
    """Nodes finish their step after Ctrl-C; what is shown is what their journals have, and what `up` goes on from."""
    folder = make(skipring_words, tmp_path / "net", 3, 600, "--delay", "exponential:0.02")
    words = [sys.executable, "-m", "skipring", "network", "up", str(folder)]
    up = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    configs = [read_node_config(folder / f"node{i}" / "node.toml") for i in (1, 2, 3)]
    until(lambda: (told := node_status(configs[1])) is not None and told.own_updates >= 3, "three updates")
    up.send_signal(signal.SIGINT)
    out, err = up.communicate(timeout=90)
    assert up.returncode == 130, err
    assert "stopping: each node finishes its step" in err
    memories = [read_journal(config.journal).memory for config in configs]
    newest = max((memory.copy for memory in memories), key=lambda copy: copy.token.updates)
    assert f"after {newest.token.updates} updates" in " ".join(out.split())
    path = load_node(folder / "node1" / "node.toml").rules.path
    made = [sum(path[hop - 1] == node for hop in updated_hops(newest.token.chain)) for node in range(3)]
    shown = [line.split() for line in out.splitlines() if line.strip().startswith(("node1", "node2", "node3"))]
    assert [int(row[1]) for row in shown[-3:]] == made
    assert [row[-1] for row in shown[-3:]] == ["stopped"] * 3
    told = skipring_words("network", "status", str(folder), "--json").data["nodes"]
    assert max(node["status"]["updates"] for node in told) == newest.token.updates


def test_a_node_that_died_is_not_shown_with_what_it_said_before(
    tmp_path: Path, skipring_words: Command, network: Callable[[Path], LocalNetwork]
) -> None:
    folder = make(skipring_words, tmp_path / "net", 3, 600, "--delay", "exponential:0.02")
    running = network(folder)
    until(lambda: (told := running.look()[0].status) is not None and told.own_updates >= 1, "an update")
    os.kill(running.pid("node1"), signal.SIGKILL)
    until(lambda: running.look()[0].starts == 2, "the node to be started again")
    state = running.states[0]
    assert state.running
    assert state.status is None or state.status.running_for < 30.0
    assert word_of(dataclasses.replace(state, status=None)) == "starting, started again"
    assert word_of(dataclasses.replace(state, running=False, code=0)).endswith(", started again")


def test_a_run_file_that_differs_is_found_before_anything_starts(tmp_path: Path, skipring_words: Command) -> None:
    """Nodes would wait for each other without end."""
    folder = make(skipring_words, tmp_path / "net", 3, 12)
    path = folder / "node2" / "run.toml"
    path.write_text(path.read_text().replace("noise_multiplier = 3.0", "noise_multiplier = 4.0"))
    why = "node2: run.toml differs from the network's: privacy.noise_multiplier is 4.0 there, 3.0 here"
    checked = skipring_words("network", "check", str(folder))
    assert (checked.code, checked.out.strip()) == (1, why)
    refused = skipring_words("network", "up", str(folder))
    assert refused.code == 2
    assert refused.err.strip() == f"error: DIR {folder}: {why}; nothing was started"
    assert not list(folder.glob("*/node.log"))


def test_a_run_does_not_begin_without_a_node_that_cannot_start(tmp_path: Path, skipring_words: Command) -> None:
    """The others would wait for a minute, and then spend their budgets without it."""
    folder = make(skipring_words, tmp_path / "net", 3, 12)
    file = folder / "node3" / "node.toml"
    file.write_text(file.read_text().replace("[data]", '[data]\npath = "rows.csv"\nlabel = "ill"', 1))
    ended = skipring_words("network", "up", str(folder))
    assert ended.code == 1
    assert "node3 ended with exit code 2" in ended.err
    assert "The run has not begun, and all nodes were stopped" in ended.err
    assert f"skipring network new-run {folder} --remove node3" in ended.err
    assert all(
        not isinstance(entry, Released)
        for journal in (folder / node / "journal.sqlite" for node in ("node1", "node2"))
        if journal.exists()  # on a busy machine it may have been stopped before it began one
        for _, entry in read_journal(journal).entries
    )


@pytest.mark.slow
def test_up_says_in_a_log_what_nodes_wait_for(tmp_path: Path, skipring_words: Command) -> None:
    """Where there is no terminal, and so no live view: time stands still in two of three nodes."""
    folder = make(skipring_words, tmp_path / "net", 3, 600, "--delay", "exponential:0.02")
    words = [sys.executable, "-m", "skipring", "network", "up", str(folder)]
    with open(tmp_path / "said", "wb") as said:
        running = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=said)
    configs = [read_node_config(folder / f"node{number}" / "node.toml") for number in (1, 2, 3)]
    try:
        until(lambda: (told := node_status(configs[0])) is not None and told.own_updates >= 1, "an update")
        paused = [int((config.journal.parent / "node.pid").read_text().split()[0]) for config in configs[1:]]
        for pid in paused:
            os.kill(pid, signal.SIGSTOP)
        until(lambda: b"node1: for " in (tmp_path / "said").read_bytes(), "a word about it", 30.0)
        for pid in paused:
            os.kill(pid, signal.SIGCONT)
    finally:
        running.send_signal(signal.SIGINT)
        running.wait(60.0)
    lines = (tmp_path / "said").read_text().splitlines()
    told = [line.partition(" s: ")[2] for line in lines if line.startswith("node1: for ")]
    assert told
    assert len(told) == len(set(told))  # each once in a minute


@pytest.mark.slow
def test_a_full_disk_stops_a_node_before_it_releases_anything(
    tmp_path: Path, skipring_words: Command, network: Callable[[Path], LocalNetwork]
) -> None:
    """The journal's disk fills up while the run goes on: the node says so and stops; the others end without it."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("no right to mount a file system")
    try:
        # It is full long before the end.
        folder = make(skipring_words, tmp_path / "net", 3, 240)
        file = folder / "node3" / "node.toml"
        file.write_text(file.read_text().replace('"journal.sqlite"', f'"{place}/journal.sqlite"'))
        for name in ("node1", "node2", "node3"):
            path = folder / name / "run.toml"
            path.write_text(path.read_text().replace("timeout = 30.0", "timeout = 0.1"))
        running = network(folder)
        until(lambda: not running.look()[2].running, "the node to stop")
        assert running.states[2].code == 1
        last = json.loads((folder / "node3" / "node.log").read_text().splitlines()[-1])
        assert last["event"] == "failed"
        assert "the disk is full" in last["why"]
        config = read_node_config(folder / "node1" / "node.toml")
        until(lambda: read_journal(config.journal).memory.outcome is not None, "the others to end")
        outcome = read_journal(config.journal).memory.outcome
        assert outcome is not None
        # What it had recorded is all that the others ever saw of it.
        recorded = {release.hop for release in read_journal(place / "journal.sqlite").releases}
        path_of = load_node(folder / "node1" / "node.toml").rules.path
        seen = {hop for hop in updated_hops(outcome.chain) if path_of[hop - 1] == 2}
        assert seen
        assert seen <= recorded
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)


@pytest.mark.slow
def test_a_model_of_1_gb_needs_at_most_two_and_a_half_times_its_size_in_memory(
    tmp_path: Path,
    skipring_words: Command,
    network: Callable[[Path], LocalNetwork],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "huge_network.py").write_text(
        "from torch.nn import Linear, Sequential\n"
        "def make():\n"
        "    width = 15_795\n"
        "    sizes = (30, width, width, 2)\n"
        "    return Sequential(*(Linear(a, b, bias=False) for a, b in zip(sizes, sizes[1:])))\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    allow(monkeypatch, tmp_path, "huge_network:make")
    folder = tmp_path / "net"
    run = tmp_path / "run.toml"
    run.write_text(
        f'{DATA}[schedule]\nname = "ring"\nsteps = 4\n[delay]\ntimeout = 300.0\n[privacy]\nnoise_multiplier = 5.0\n'
        '[model]\nname = "huge_network:make"\ndevice = "cpu"\n[learning]\ngradient_bound = 1.0\nbatch = 4\n'
    )
    words = ["--nodes", "2", "--port", str(free_ports(2)), "--run", str(run)]
    assert skipring_words("network", "init", str(folder), *words).code == 0
    running = network(folder)
    until(lambda: running.look() and running.over, "the end of the run", seconds=900.0)
    running.stop()
    results = [json.loads((folder / name / "result.json").read_text()) for name in ("node1", "node2")]
    size = 4 * (32 * 15_795 + 15_795**2)
    assert size > 999_000_000
    assert [result["own_updates"] for result in results] == [2, 2]
    assert results[0]["model"] == results[1]["model"]
    print([result["peak_memory"] / size for result in results])
    # Python and PyTorch take 0.38 GB by themselves, with a model of any size.
    assert max(result["peak_memory"] for result in results) < 2.5 * size + 0.3e9


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("node.toml", 'name = "node1"', 'name = "node9"'), "node9"),
        (("node.toml", "metrics = ", "metric = "), "metric is not a key"),
        (("node.toml", 'metrics = "127.0.0.1', 'metrics = "10.0.0.1'), "an address of this machine alone"),
        (("node.toml", '# law = "gamma:0.25,1"', 'law = "gamma"'), "gamma"),
        (("run.toml", "noise_multiplier = 3.0", "epsilon = 2.0"), "privacy.noise_multiplier = missing"),
        (("run.toml", "steps = 10", "steps = 0"), "schedule.steps"),
        (("run.toml", "timeout = 30.0", 'timeout = "most-updates"'), "delay.timeout = most-updates"),
        (("run.toml", 'name = "logistic"', 'name = "squared"'), "model.label_bound"),
        (("run.toml", "nodes = 2", "nodes = 5"), "the roster has 2 nodes"),
    ],
)
def test_bad_settings_are_refused_in_one_line(
    tmp_path: Path, skipring_words: Command, change: tuple[str, str, str], said: str
) -> None:
    folder = make(skipring_words, tmp_path / "net", 2, 10)
    name, old, new = change
    file = folder / "node1" / name
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(InvalidInput) as refused:
        load_node(folder / "node1" / "node.toml")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
