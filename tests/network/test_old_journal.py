"""A journal that was rolled back or lost: what it has forgotten counts, and one liar cannot make a node believe it."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import restored
from test_nodes import LOOP, QUICK, make, run_nodes
from world import Broken, fake_seals

from skipring.errors import InvalidInput
from skipring.models import load_model
from skipring.network.node import AccountTerms, Node, OldJournal, OwnAccount
from skipring.network.node.reminders import Reminders
from skipring.network.protocol import (
    Entry,
    Final,
    Fold,
    Forgotten,
    Memory,
    Outcome,
    Pass,
    Token,
    blank_chain,
    stamped,
)
from skipring.network.setup import given_away, load_node, open_journal, why_not_started
from skipring.network.storage import JournalUnusable
from skipring.privacy import ALL_OTHERS

PATH = [0, 1, 2] * 4
TERMS = AccountTerms(3, 0, PATH, np.ones(12), 5.0, True)
FIRST = (0, 0)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as path:
        yield Path(path)


def token_of(*hops: int, first: bytes = bytes(32)) -> Token:
    """Return a token with updates at these hops; `first` is what the first of them has committed to."""
    token = Token(0, b"", blank_chain(12, b"run"))
    for at, hop in enumerate(hops):
        node = PATH[hop - 1]
        token = stamped(token, FIRST, hop, b"", bytes(32) if at else first, me=node, seal=fake_seals(3)[node])
    return token


def passed(*hops: int, first: bytes = bytes(32)) -> Pass:
    return Pass(FIRST, 10, token_of(*hops, first=first))


class Judge:
    """The check of one node, with the account that its entries add up to."""

    def __init__(self) -> None:
        self.account, self.said, self.given_up = OwnAccount(TERMS), list[Any](), 0
        self.fold = Fold(Memory.blank(0, Token(0, b"", b"")), self.account)
        self.reminders = Reminders(
            self.account, "abc", (), write=self.fold.add, note=self.said.append, give_up=self.give_up
        )

    def give_up(self) -> None:
        self.given_up += 1


def test_what_a_token_shows_counts_at_once_and_once() -> None:
    judge = Judge()
    judge.account.released(FIRST, 1, token_of(1).chain, 1)
    assert judge.reminders.lets_in(1, passed(1, 2, 3))
    assert not judge.reminders.lets_in(1, passed(1, 2, 3, 4, 7))
    # Hops 4 and 7; and hop 1, at which an old copy may have updated the same token once more.
    assert judge.account.releases == 4
    assert judge.account.mu2 == judge.account.plain_mu2 == pytest.approx(4 * 0.16, rel=1e-9)
    assert judge.given_up == 1
    assert [(event.sender, event.hops) for event in judge.said] == [("b", (4, 7))]
    for _ in range(3):  # the same again, from the same sender, is no news
        assert not judge.reminders.lets_in(1, passed(1, 2, 3, 4, 7))
    assert (judge.account.releases, len(judge.said)) == (4, 1)
    assert not judge.reminders.lets_in(2, passed(1, 2, 3, 4, 5, 7, 10))
    # Hop 10 is new, and so is hop 7, on another chain.
    assert (judge.account.releases, judge.fold.memory.reminded) == (6, (1, 2))


def test_an_outcome_is_taken_with_what_was_forgotten() -> None:
    judge, outcome = Judge(), Outcome(passed(1, 2, 4, 7, 10).token, FIRST, ())
    assert judge.reminders.lets_in(1, outcome)
    assert (judge.account.releases, judge.given_up) == (4, 0)


def test_an_update_at_a_hop_that_the_journal_knows_on_another_chain_is_another_one() -> None:
    judge = Judge()
    judge.account.released(FIRST, 4, token_of(2, 4).chain, 2)
    assert judge.reminders.lets_in(1, passed(2, 4, 5))
    assert not judge.reminders.lets_in(1, passed(2, 3, 4, 5))
    assert judge.account.releases == 2


def test_a_first_update_that_was_made_anew_is_told_from_the_one_that_was_lost() -> None:
    """Both have the same marks; what was committed to differs, and that is signed."""
    judge = Judge()
    judge.account.released(FIRST, 1, token_of(1).chain, 1)
    assert judge.reminders.lets_in(1, passed(1, 2, 3))
    for twin in (b"1" * 32, b"2" * 32):
        for _ in range(2):
            assert not judge.reminders.lets_in(1, passed(1, 2, 3, first=twin))
    assert judge.account.releases == 3


@pytest.mark.sample(3)
@pytest.mark.parametrize("block", range(100))
def test_a_restored_node_says_the_truth_from_the_first_token_that_shows_it(folder: Path, block: int) -> None:
    for seed in range(block * 10, (block + 1) * 10):
        with tempfile.TemporaryDirectory(dir=folder) as empty:
            restored.history(seed, Path(empty))


def test_histories_with_old_journals_are_as_rough_as_they_claim(folder: Path) -> None:
    seen: Counter[str] = Counter()
    for seed in range(2035, 2055):
        with tempfile.TemporaryDirectory(dir=folder) as empty:
            found = restored.history(seed, Path(empty))
        seen.update(restored=found.restored, too_old=found.too_old, reminded=found.reminded, lost=found.lost)
    assert seen["restored"] >= 6, seen
    assert seen["reminded"] >= 4, seen
    assert seen["too_old"] >= 1, seen


def test_histories_find_an_account_that_forgets(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reminders, "lets_in", lambda self, sender, message: True)
    for seed in range(100):
        with tempfile.TemporaryDirectory(dir=folder) as empty:
            try:
                restored.history(seed, Path(empty))
            except (Broken, InvalidInput):
                return
    pytest.fail("no history tells")


@pytest.mark.parametrize("how", ["lost", "rolled back"])
def test_a_node_restored_after_the_end_says_what_it_has_released(tmp_path: Path, how: str) -> None:
    """Real nodes: the others have ended, and one comes back with an old journal, or none."""
    configs = make(tmp_path / "net", 3, QUICK)
    home = configs[1].parent
    setup = load_node(configs[1])
    with open_journal(setup):  # what a backup before the first hop has
        pass
    backup = {path: path.read_bytes() for path in home.glob("journal.sqlite*") if path.is_file()}
    run_nodes(configs)
    before = given_away(home)
    assert before.releases > 5
    for path in home.glob("journal.sqlite*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    if how == "rolled back":
        for path, content in backup.items():
            path.write_bytes(content)
    assert run_nodes(configs)[1].account.releases == before.releases
    after = given_away(home)
    assert (after.releases, after.over) == (before.releases, True)
    in_full = before.guarantee.beside(ALL_OTHERS)
    assert in_full is not None
    assert in_full == after.guarantee.beside(ALL_OTHERS)
    assert after.guarantee.epsilon == in_full.epsilon
    assert any("is not in its journal" in note for note in after.notes)
    result = json.loads((home / "result.json").read_text())
    assert (result["own_updates"], result["guarantee"]["epsilon"]) == (
        after.releases,
        pytest.approx(after.guarantee.epsilon),
    )
    assert load_model(home / "model.npz").facts.guarantee.epsilon == pytest.approx(after.guarantee.epsilon)
    assert why_not_started(home) == "", "the run is over, and nothing can be released any more"


def reminded_journal(config: Path, *senders: int) -> Any:
    setup = load_node(config)
    steps = setup.rules.steps
    own = next(hop for hop, node in enumerate(setup.rules.path, start=1) if node == setup.me)
    blank = Token(0, b"", blank_chain(steps, b"run"))
    trail = stamped(blank, FIRST, own, b"", bytes(32), me=setup.me, seal=setup.seal).trail
    entries: list[Entry] = [Forgotten(trail, sender) for sender in senders]
    with open_journal(setup) as journal:
        journal.append(*entries)
    return setup


def test_a_node_with_an_old_journal_does_not_start_again(tmp_path: Path) -> None:
    configs = make(tmp_path / "net", 3, QUICK)
    setup = reminded_journal(configs[1], 0, 2)
    with pytest.raises(
        JournalUnusable, match=r"is an old copy.*no further part in this run.*`skipring network new-run`"
    ):
        open_journal(setup)
    assert "old copy" in why_not_started(configs[1].parent)
    assert given_away(configs[1].parent).releases == 1
    assert isinstance(JournalUnusable("journal", "x", "y"), InvalidInput)


def test_the_others_are_told_who_leaves_and_why(tmp_path: Path) -> None:
    """Real nodes, one of which is shown an own update that it has signed, in the middle of a run; and a forged one."""
    configs = make(tmp_path / "net", 4, QUICK | {"schedule": {"steps": 400}})
    said: list[tuple[int, str, str]] = []

    async def story() -> BaseException | None:
        setups = [load_node(config) for config in configs]
        journals = [open_journal(setup) for setup in setups]
        nodes = [
            Node(setup, journal, lambda event, me=setup.me, **facts: said.append((me, event, str(facts))))
            for setup, journal in zip(setups, journals, strict=True)
        ]
        tasks = [asyncio.create_task(node.run()) for node in nodes]
        while nodes[1].account.releases < 3:
            await asyncio.sleep(0.01)
        own = [hop for hop, node in enumerate(setups[1].rules.path, start=1) if node == 1]
        token, counted = nodes[1].peer.memory.copy.token, nodes[1].account.releases
        for signer in (0, 1):
            made = stamped(token, FIRST, own[-1], token.parameters, bytes(32), me=1, seal=setups[signer].seal)
            nodes[1].received(0, Final(FIRST, made))
            assert (nodes[1].account.releases > counted) == (signer == 1)
        (problem,) = await asyncio.gather(tasks[1], return_exceptions=True)
        while sum("does not listen" in facts for _, _, facts in said) < 3 and not all(task.done() for task in tasks):
            await asyncio.sleep(0.01)
        for node in nodes:
            node.stop()
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 40.0)
        for journal in journals:
            journal.close()
        return problem

    assert isinstance(LOOP.run(story()), OldJournal)
    assert {
        me
        for me, event, facts in said
        if event == "refused" and "node2 does not listen: its journal is an old" in facts
    } == {0, 2, 3}
    assert [(me, "node1" in facts) for me, event, facts in said if event == "forgotten"] == [(1, True)]
    assert "old copy" in why_not_started(configs[1].parent)
