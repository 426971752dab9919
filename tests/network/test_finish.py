"""A run ends before its last hop if a majority of owners asks for it: with real nodes, each a process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from networks import init_net, wait_for

from skipring.errors import InvalidInput
from skipring.network.node import read_node_config
from skipring.network.setup import LocalNetwork, ask_to_finish, given_away, load_node, verify_outcome
from skipring.network.storage import read_journal
from skipring.network.transport import OutcomeCertificate, Way, read_roster
from skipring.privacy import Transcript, TranscriptAccountant

Command = Callable[..., Any]
RUN = """
[data]
name = "breast-cancer"
[model]
name = "logistic"
[schedule]
name = "random-ring"
steps = 3000
[delay]
timeout = 5.0
[privacy]
noise_multiplier = 20.0
delta = 1e-4
protects = "record"
[network]
lease = 0.5
"""


@pytest.fixture
def net(skipring_words: Command, tmp_path: Path) -> Path:
    """A network of a, b and c with a run that takes some minutes."""
    return init_net(skipring_words, tmp_path, RUN, "--nodes", "a,b,c", "--delay", "exponential:0.05")


def statuses(network: LocalNetwork) -> list[Any]:
    return [state.status for state in network.look()]


def on_its_way(network: LocalNetwork) -> bool:
    return all(status is not None and status.updates > 5 for status in statuses(network))


@pytest.mark.early
def test_two_of_three_owners_end_a_run_and_one_does_not(net: Path, skipring_words: Command) -> None:
    network = LocalNetwork(net)
    try:
        network.start()
        wait_for(lambda: on_its_way(network))
        asked = skipring_words("node", "finish", "net/a")
        assert asked.code == 0, asked.err
        assert asked.out.splitlines() == [
            "a has asked for the end of the run.",
            "1 of 2 needed have asked to finish: a.",
        ]
        wait_for(lambda: all(status.finishing == ("a",) for status in statuses(network)))
        shown = skipring_words("network", "status", "net")
        assert "1 of 2 needed have asked to finish: a." in shown.out
        # The run goes on, and a wish is not forgotten in a crash.
        hop = network.states[1].status.hop if network.states[1].status else 0
        network._processes["a"].send_signal(signal.SIGKILL)
        network._processes["a"].wait()
        wait_for(lambda: all(status is not None and status.hop > hop + 20 for status in statuses(network)))
        assert not any(status.over for status in statuses(network))
        assert not (net / "a" / "finish").exists()
        assert skipring_words("node", "finish", "net/c", "--json").data["majority"] == 2
        wait_for(lambda: bool(network.look()) and network.over)
    finally:
        network.stop()
    models = [np.load(net / name / "model.npy") for name in "abc"]
    assert all((model == models[0]).all() for model in models)
    said = skipring_words("network", "verify", "net/b/model.npz")
    assert said.code == 0, said.err
    found = verify_outcome(net / "b" / "model.npz")
    assert found.last_hop is not None
    assert hop < found.last_hop < 3000
    assert f"It ended early at hop {found.last_hop} of 3000 by agreement of a, c." in said.out
    lines = [json.loads(line) for line in (net / "b" / "node.log").read_text().splitlines()]
    (over,) = [line for line in lines if line["event"] == "over"]
    assert over["ended_early_at"] == found.last_hop
    result = json.loads((net / "b" / "result.json").read_text())
    assert (result["hop"], sum(result["turns"])) == (found.last_hop, found.last_hop)
    late = skipring_words("node", "finish", "net/b")
    assert (late.code, late.out.startswith("The run is over already")) == (0, True)
    check_accounts(net, found.last_hop)
    check_certificate(net)


def check_accounts(net: Path, ended_at: int) -> None:
    """Each node's account is at least what an observer of the run knows, the final model among it, to its true end."""
    setups = [load_node(net / name / "node.toml") for name in "abc"]
    readings = [read_journal(net / name / "journal.sqlite") for name in "abc"]
    updated = np.zeros(ended_at, dtype=bool)
    if any(reading.memory.promised[0] for reading in readings):
        return  # the node that was killed had the token, and was too slow to come back: all counts in full then
    for reading in readings:
        for release in reading.releases:
            updated[release.hop - 1] = True
    final = readings[0].memory.outcome
    assert final is not None
    assert updated.sum() == final.updates
    assert updated[-1]
    terms = setups[0].terms
    whole = TranscriptAccountant(
        Transcript(
            nodes=3,
            offered=np.array(terms.path)[:ended_at],
            updated=updated,
            step_sizes=np.asarray(terms.step_sizes)[: updated.sum()],
            noise_multiplier=terms.noise_multiplier,
        )
    ).matrix()
    for me, name in enumerate("abc"):
        told = given_away(net / name)
        assert told.hop == ended_at
        assert any(note.startswith(f"The run ended early at hop {ended_at} of 3000") for note in told.notes)
        for observer in told.observers:
            place = "abc".index(observer.name)
            assert observer.turns == list(terms.path[:ended_at]).count(place)
            assert observer.mu >= whole[me, place] * (1.0 - 1e-9)


def check_certificate(net: Path) -> None:
    """What shows that a majority asked for the end is checked: each wish, and that it is about this model."""
    roster = read_roster(net / "roster.toml")
    found = OutcomeCertificate.from_json((net / "a" / "outcome.json").read_text(), roster)
    way = found.way
    assert way is not None
    assert way.problem(found.statement, roster) is None

    def problem(changed: Way) -> str:
        (net / "other.json").write_text(replace(found, way=changed).to_json(roster))
        return str(verify_outcome(net / "a" / "model.npz", certificate=net / "other.json").problem)

    fewer = dict(list(way.wishes.items())[:1])
    assert "1 of 3 nodes have asked for that, and a majority is 2" in problem(replace(way, wishes=fewer))
    stolen = dict.fromkeys((0, 1, 2), way.wishes[0])
    assert "1 of 3 nodes have asked for that" in problem(replace(way, wishes=stolen))
    shorter = way.chain[:-1] + bytes([way.chain[-1] ^ 1])
    assert "is not about this model" in problem(replace(way, chain=shorter))
    assert "is not about this model" in problem(replace(way, steps=64))
    (net / "other.json").write_text(json.dumps(json.loads(found.to_json(roster)) | {"way": {"chain": "zz"}}))
    with pytest.raises(InvalidInput, match="is not the certificate of an outcome"):
        verify_outcome(net / "a" / "model.npz", certificate=net / "other.json")


def test_all_nodes_here_are_asked_and_waited_for(net: Path, skipring_words: Command) -> None:
    network = LocalNetwork(net)
    words = [sys.executable, "-m", "skipring", "network", "stop", str(net), "--finish"]
    try:
        network.start()
        wait_for(lambda: on_its_way(network))
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        wait_for(lambda: bool(network.look()) and network.over)
    finally:
        network.stop()
    told = " ".join(done.stdout.split())
    assert "3 of 3 nodes hold the same final model" in told
    # The third may have asked, too, before the run was over.
    assert "hops (ended early by agreement of a, " in told
    assert len({(net / name / "model.npy").read_bytes() for name in "abc"}) == 1
    again = skipring_words("network", "stop", "net", "--finish", "--json")
    assert (again.code, again.data["asked"]) == (0, [])


def test_ctrl_c_leaves_the_nodes_running(net: Path) -> None:
    network = LocalNetwork(net)
    words = [sys.executable, "-m", "skipring", "network", "stop", str(net), "--finish"]
    try:
        network.start_node("a")  # alone: it can ask, and no majority will
        wait_for((net / "a" / "journal.sqlite").exists)
        for name in "bc":
            (net / name / "journal.sqlite").write_bytes(b"")  # they have begun, and are away
        waiting = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_for((net / "c" / "finish").exists)
        time.sleep(0.5)
        assert waiting.poll() is None
        waiting.send_signal(signal.SIGINT)
        _, said = waiting.communicate(timeout=30)
        assert waiting.returncode == 130
        assert "the nodes go on, and the run ends once a majority has asked for it" in said
        assert network._processes["a"].poll() is None
    finally:
        for process in network._processes.values():
            process.terminate()
            process.wait()


def test_there_must_be_a_run_to_end(net: Path, skipring_words: Command) -> None:
    early = skipring_words("node", "finish", "net/a")
    assert (early.code, "a has not begun a run that could end" in " ".join(early.err.split())) == (2, True)
    whole = skipring_words("node", "finish", "net")
    assert (whole.code, "skipring network stop DIR --finish" in " ".join(whole.err.split())) == (2, True)
    config = read_node_config(net / "a" / "node.toml")
    config.journal.write_bytes(b"")
    assert ask_to_finish(config)
    assert (net / "a" / "finish").stat().st_mode & 0o777 == 0o600
    stopped = skipring_words("node", "finish", "net/a")
    assert "a does not run: it asks for the end of the run when it is started again." in stopped.out
