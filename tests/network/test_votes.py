"""Votes for the model that ended a run: only a node's own key makes one, for one run, ballot and model alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skipring.errors import InvalidInput
from skipring.network.protocol import Token, blank_chain, extended_chain
from skipring.network.setup import make_network, verify_outcome
from skipring.network.transport import Notary, OutcomeCertificate, Roster, Statement, Way, parse_nodes, read_roster

Command = Callable[..., Any]
NAMES = ("a", "b", "c", "d")
PARAMETERS = np.linspace(-1.0, 1.0, 5)
TOKEN = Token(3, PARAMETERS.tobytes(), bytes(range(34)))


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("votes") / "net"
    make_network(folder, *parse_nodes(",".join(NAMES)))
    return folder


@pytest.fixture(scope="module")
def roster(net: Path) -> Roster:
    return read_roster(net / "roster.toml")


@pytest.fixture(scope="module")
def notaries(net: Path, roster: Roster) -> list[Notary]:
    return [Notary(roster, (net / name / "node.key").read_bytes()) for name in NAMES]


STATEMENT = Statement.of(b"run", (2, 1), TOKEN)
WAY = Way(TOKEN.chain, 14, {})  # updates at hops 6, 9 and 14


def test_a_vote_is_good_for_its_node_and_statement_alone(notaries: list[Notary]) -> None:
    votes = [notary.vote(STATEMENT) for notary in notaries]
    for node in range(4):
        for other in range(4):
            assert notaries[0].is_vote(node, STATEMENT, votes[other]) == (node == other)
    for changed in (
        replace(STATEMENT, run=b"ran".hex()),
        replace(STATEMENT, ballot=(1, 2)),
        replace(STATEMENT, updates=4),
        replace(STATEMENT, model="0" * 64),
        replace(STATEMENT, chain="0" * 64),
    ):
        assert changed != STATEMENT
        assert not notaries[1].is_vote(0, changed, votes[0])


def test_bytes_that_are_no_votes_are_none(notaries: list[Notary]) -> None:
    vote = notaries[2].vote(STATEMENT)
    broken = [b"", b"\0", bytes(4000), vote[:-1], vote + b"\0", vote * 9, b"\xff\xff" + vote[2:], b"\0\0" + vote[2:]]
    broken += [vote[:i] + bytes([vote[i] ^ 1]) + vote[i + 1 :] for i in range(0, len(vote), 7)]
    assert notaries[0].is_vote(2, STATEMENT, vote)
    assert not any(notaries[0].is_vote(2, STATEMENT, each) for each in broken)
    assert not notaries[0].is_vote(7, STATEMENT, vote)
    assert not notaries[0].is_vote(-1, STATEMENT, vote)


@pytest.mark.parametrize(("voters", "enough"), [((0, 1, 2, 3), True), ((1, 2, 3), True), ((0, 3), False), ((), False)])
def test_a_majority_is_verified_offline(
    net: Path, roster: Roster, notaries: list[Notary], tmp_path: Path, voters: tuple[int, ...], enough: bool
) -> None:
    np.save(tmp_path / "model.npy", PARAMETERS)
    kept = OutcomeCertificate(STATEMENT, {node: notaries[node].vote(STATEMENT) for node in voters}, WAY)
    (tmp_path / "outcome.json").write_text(kept.to_json(roster))
    found = verify_outcome(tmp_path / "model.npy", net / "roster.toml")
    assert found.signed == tuple(NAMES[node] for node in voters)
    assert found.unsigned == tuple(name for name in NAMES if name not in found.signed)
    assert (found.problem is None) == enough
    assert (found.needed, found.updates, found.ballot) == (3, 3, (2, 1))
    np.save(tmp_path / "model.npy", PARAMETERS + np.spacing(PARAMETERS[1]))
    other = verify_outcome(tmp_path / "model.npy", net / "roster.toml").problem
    assert other is not None
    assert other.startswith("the votes are for another model")


def certified(net: Path, notaries: list[Notary], folder: Path, ends: tuple[int, int]) -> Path:
    """Write a model and the votes of all for it; its last update was at one of so many hops."""
    last, steps = ends
    chain = extended_chain(blank_chain(steps, b"run"), (0, 0), last, bytes(32))
    token = Token(1, PARAMETERS.tobytes(), chain)
    statement = Statement.of(b"run", (0, 0), token)
    votes = {node: notary.vote(statement) for node, notary in enumerate(notaries)}
    text = OutcomeCertificate(statement, votes, Way(chain, steps, {})).to_json(read_roster(net / "roster.toml"))
    np.save(folder / "model.npy", PARAMETERS)
    (folder / "outcome.json").write_text(text)
    return folder / "model.npy"


@pytest.mark.parametrize(
    ("last", "code", "line"),
    [
        (600, 0, "Its last update was at hop 600, the last one that was agreed on."),
        (597, 0, "Warning: the last update was at hop 597 of 600, and no majority asked for an early end: the nodes"),
        (596, 3, "Warning: the last update was at hop 596 of 600, and no majority asked for an early end: one member"),
        (5, 3, "Warning: the last update was at hop 5 of 600, and no majority asked for an early end: one member that"),
    ],
)
def test_a_run_that_ended_early_is_told_from_a_whole_one(
    net: Path, notaries: list[Notary], tmp_path: Path, skipring_words: Command, last: int, code: int, line: str
) -> None:
    """Votes alone do not show it: nodes that were led to believe that a run is over have signed, too."""
    words = ["network", "verify", str(certified(net, notaries, tmp_path, (last, 600)))]
    words += ["--roster", str(net / "roster.toml")]
    said = skipring_words(*words)
    assert said.code == code, said.err
    assert line in " ".join(said.out.split())
    found = skipring_words(*words, "--json").data
    assert (found["last_hop"], found["steps"], found["early"]) == (last, 600, code == 3)
    assert (found.get("problem"), "warning" in found) == (None, last != 600)
    # Who hides at which hop it ended, or says that far fewer were agreed on, is found out.
    kept = json.loads((tmp_path / "outcome.json").read_text())
    for way in (None, kept["way"] | {"steps": 592}, kept["way"] | {"chain": kept["way"]["chain"][:-2] + "ff"}):
        (tmp_path / "outcome.json").write_text(json.dumps(kept | {"way": way}))
        assert skipring_words(*words).code == 1


def test_votes_of_one_node_under_other_names_do_not_count(
    net: Path, roster: Roster, notaries: list[Notary], tmp_path: Path
) -> None:
    np.save(tmp_path / "model.npy", PARAMETERS)
    forged = OutcomeCertificate(STATEMENT, {node: notaries[0].vote(STATEMENT) for node in range(4)})
    (tmp_path / "outcome.json").write_text(forged.to_json(roster))
    found = verify_outcome(tmp_path / "model.npy", net / "roster.toml")
    assert found.signed == ("a",)
    assert found.problem == "1 of 4 nodes have signed it, and a majority is 3"


def test_what_is_no_certificate_gets_one_line(net: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "model.npy", PARAMETERS)
    with pytest.raises(InvalidInput, match=r"outcome\.json: cannot be read; a node writes it"):
        verify_outcome(tmp_path / "model.npy", net / "roster.toml")
    for text in ("", "[]", "{}", '{"statement": 3}', '{"statement": {"run": 1, "ballot": [1]}, "votes": {}}'):
        (tmp_path / "outcome.json").write_text(text)
        with pytest.raises(InvalidInput, match="is not the certificate of an outcome"):
            verify_outcome(tmp_path / "model.npy", net / "roster.toml")
    strange = OutcomeCertificate(STATEMENT, {}).to_json(read_roster(net / "roster.toml"))
    (tmp_path / "outcome.json").write_text(strange.replace('"votes": {}', '"votes": {"mallory": "00"}'))
    found = verify_outcome(tmp_path / "model.npy", net / "roster.toml")
    assert found.problem == "the roster is another run's: it does not have mallory, whose votes these are"
