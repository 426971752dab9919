"""The newest model of a node as a file: while it runs, before its first turn, after a crash, large or small."""

from __future__ import annotations

import hashlib
import signal
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from networks import init_net, wait_for

from skipring import load_model
from skipring._json import from_json
from skipring.network.node import final_epsilon
from skipring.network.setup import LocalNetwork, NodeModel, load_node, save_node_model
from skipring.network.storage import ModelFile, read_journal
from skipring.privacy import ALL_OTHERS, OUTSIDER, SHOWN, Guarantee

Command = Callable[..., Any]
RUN = """
[data]
path = "rows.npz"
label = "y"
[model]
name = "softmax"
[schedule]
name = "random-ring"
steps = 40
[delay]
timeout = 1.0
[learning]
rate = 1.0
[privacy]
noise_multiplier = 40.0
delta = 1e-4
protects = "record"
"""


def made(skipring_words: Command, folder: Path, columns: int, classes: int, steps: int = 40) -> Path:
    """Make a network of three nodes whose model has so many columns times classes."""
    rng = np.random.default_rng(1)
    rows = max(60, 2 * classes)
    labels = np.array([f"class {row % classes}" for row in range(rows)])
    np.savez(folder / "rows.npz", X=rng.normal(size=(rows, columns)), y=labels)
    run = RUN.replace("steps = 40", f"steps = {steps}")
    return init_net(skipring_words, folder, run, "--nodes", "a,b,c", "--delay", "exponential:0.05")


def beside(model: NodeModel, against: str) -> float:
    """Return the epsilon of a model against others than one node."""
    found = model.facts.guarantee.beside(against)
    assert found is not None
    assert found.epsilon is not None
    return found.epsilon


def seen(network: LocalNetwork, name: str) -> int:
    """Return how many updates the newest token of a node has, as it says."""
    state = network.look(restart=False)[network.roster.index(name)]
    return 0 if state.status is None else state.status.updates


@pytest.mark.parametrize(
    ("columns", "classes"),
    [(4, 3), pytest.param(600, 1000, marks=pytest.mark.slow)],  # the second is 4.8 MB: a file beside the journal
)
def test_the_newest_model_is_there_at_any_time(
    skipring_words: Command, tmp_path: Path, columns: int, classes: int
) -> None:
    net = made(skipring_words, tmp_path, columns, classes)
    network = LocalNetwork(net)
    try:
        network.start_node("a")  # alone: the run does not begin
        wait_for((net / "a" / "node.pid").exists)
        first = skipring_words("node", "model", "net/a", "--out", "first.npz", "--json")
        assert first.code == 0, first.err
        assert (first.data["hop"], first.data["steps"], first.data["updates"], first.data["over"]) == (0, 40, 0, False)
        assert [each["epsilon"] for each in first.data["guarantee"]["also"]] == [0.0, 0.0]
        assert hashlib.sha256(load_model("first.npz").parameters.tobytes()).hexdigest() == first.data["digest"]
        network.start_node("b")
        network.start_node("c")
        wait_for(lambda: seen(network, "a") >= 3)
        large = columns * classes * 8 > 4_000_000
        looks = [save_node_model(net / "a", tmp_path / f"now{i}.npz") for i in range(12 if large else 4)]
        assert all(before.hop <= after.hop for before, after in pairwise(looks))
        for look in looks:
            model = load_model(look.file)
            assert hashlib.sha256(model.parameters.tobytes()).hexdigest() == look.digest
            assert model.facts == look.facts
            assert 0.0 <= beside(look, OUTSIDER) <= beside(look, ALL_OTHERS) * (1.0 + 1e-9)
        assert isinstance(read_journal(net / "a" / "journal.sqlite").memory.copy.token.parameters, ModelFile) == large
        network._processes["a"].send_signal(signal.SIGKILL)
        network._processes["a"].wait()
        left = read_journal(net / "a" / "journal.sqlite").memory.copy
        killed = save_node_model(net / "a", tmp_path / "killed.npz")
        assert (killed.hop, killed.facts.updates, killed.over) == (left.hop, left.token.updates, False)
        terms = load_node(net / "a" / "node.toml").terms
        assert beside(killed, OUTSIDER) == final_epsilon(terms, left.token, killed.facts.guarantee.delta)
        network.start_node("a")
        before = killed.facts.updates
        wait_for(lambda: seen(network, "a") > before)
        assert save_node_model(net / "a", tmp_path / "again.npz").facts.updates > before
        wait_for(lambda: bool(network.look()) and network.over, 120.0)
    finally:
        network.stop()
    told = skipring_words("node", "model", "net/a", "--json").data
    assert (told["over"], told["hop"]) == (True, 40)
    final = np.load(net / "a" / "model.npy")
    assert hashlib.sha256(final.tobytes()).hexdigest() == told["digest"]
    shown = from_json(Guarantee, told["guarantee"]).beside(OUTSIDER)
    assert shown is not None
    assert (shown.protects, shown.relation, shown.method) == ("record", "replace-one", "own account")
    assert shown.sees == SHOWN
    words = " ".join(skipring_words("node", "model", "net/a").out.split())
    assert shown.sentence() in words
    assert "one more look" not in words
    refused = skipring_words("node", "model", "net/a", "--out", "nowhere/x.npz")
    assert refused.err == "error: --out nowhere/x.npz: cannot be written: No such file or directory\n"
    assert [each["against"] for each in told["guarantee"]["also"]] == ["all others", "an outsider"]


def test_what_showing_a_checkpoint_means_is_said(skipring_words: Command, tmp_path: Path) -> None:
    net = made(skipring_words, tmp_path, 4, 3, steps=600)
    network = LocalNetwork(net)
    try:
        network.start()
        wait_for(lambda: seen(network, "b") >= 6)
    finally:
        network.stop()
    told = skipring_words("node", "model", "net/b", "--out", "now.npz")
    assert told.code == 0, told.err
    words = " ".join(told.out.split())
    found = save_node_model(net / "b", tmp_path / "now.npz")
    assert f"a run that is not over, as node b has it, at hop {found.hop} of 600, after {found.facts.updates}" in words
    assert f"SHA-256 of its parameters: {found.digest}" in words
    assert "It is one more look, beside the final model: " in words
    assert "protects one record of node b (replace-one) against an outsider, shown this model, before" in words
    assert "no other node's account counts it." in words
    # A model before this node's first update tells nothing of its data.
    setup = load_node(net / "b" / "node.toml")
    assert final_epsilon(setup.terms, setup.initial, 1e-4) == 0.0
    reading = read_journal(net / "b" / "journal.sqlite")
    assert reading.releases
    # It is at most what each release in full tells, and at least what the last one tells with the noise after it.
    assert 0.0 < beside(found, OUTSIDER) <= beside(found, ALL_OTHERS)


def test_a_file_that_cannot_be_written_is_named(skipring_words: Command, tmp_path: Path) -> None:
    net = made(skipring_words, tmp_path, 4, 3)
    none = skipring_words("node", "model", "net/a")
    assert (none.code, "has no journal: the node has not run yet" in " ".join(none.err.split())) == (2, True)
    network = LocalNetwork(net)
    try:
        network.start_node("a")
        wait_for((net / "a" / "node.pid").exists)
        refused = skipring_words("node", "model", "net/a", "--out", "nowhere/model.npz")
        assert (refused.code, "--out nowhere/model.npz: cannot be written" in refused.err) == (2, True)
        assert len(refused.err.splitlines()) == 1
    finally:
        for process in network._processes.values():
            process.terminate()
            process.wait()
