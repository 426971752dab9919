"""What becomes certain after the end lowers the ledger of a data set once; what is proven raises it for good."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import crashing
import pytest
from spending import FIRST, Killer, Spender

from skipring.network.protocol import Forgotten, Forked, Heard, Over, Settled, Token, Trail
from skipring.network.storage import LedgerUnusable, Spent
from skipring.network.storage._ledger_lines import level_in, now_in, text_of


def after_a_recovery(folder: Path) -> tuple[Spender, Settled]:
    """A node that has made ten updates, and has heard of a recovery that forked nothing; and what others tell of it."""
    spender = Spender(folder, "one")
    spender.update(10)
    copy = spender.journal.memory.copy
    chain, hop = copy.token.chain, copy.hop
    stamp = bytes(16) + chain[:32] + b"signature"
    trail = Trail(chain, ((0, stamp),))
    found = Settled(trail, ((FIRST, hop), ((1, 1), 600)), (), FIRST)
    spender.counted.append(Heard((1, 1)))
    spender.counted.append(Over(Token(copy.token.updates, b"model", chain, trail.stamps), (1, 1)))
    return spender, found


def test_the_ledger_falls_once_the_journal_has_what_is_certain(tmp_path: Path) -> None:
    spender, found = after_a_recovery(tmp_path)
    (before,) = spender.ledger.read()
    assert before.mu2 == before.in_full == spender.account.mu2
    spender.counted.append(found)
    (after,) = spender.ledger.read()
    assert after.settled
    assert after.mu2 == spender.account.mu2 < 0.9 * before.mu2
    assert (after.in_full, after.releases) == (before.in_full, before.releases)
    spender.lifetime.end()
    spender.close()
    again = Spender(tmp_path, "one")  # what is certain stays so
    (later,) = again.ledger.read()
    assert (later.mu2, again.account.mu2) == (after.mu2, after.mu2)
    assert again.account.releases == 10
    again.counted.append(Forked(FIRST))  # and is taken back before anything else happens
    (worse,) = again.ledger.read()
    assert not worse.settled
    assert worse.mu2 == worse.in_full == before.mu2
    again.close()


def test_a_node_that_dies_before_the_ledger_has_it_counts_too_much_and_then_anew(tmp_path: Path) -> None:
    spender, found = after_a_recovery(tmp_path)
    spender.journal.append(found)  # and the ledger is not told
    (dead,) = spender.ledger.read()
    assert dead.mu2 == dead.in_full
    spender.close()
    again = Spender(tmp_path, "one")
    (back,) = again.ledger.read()
    assert back.mu2 == again.account.mu2 < 0.9 * dead.mu2
    again.close()


def test_what_does_not_fit_to_the_journal_is_not_certain(tmp_path: Path) -> None:
    spender, found = after_a_recovery(tmp_path)
    forged = bytes(16) + bytes(32) + b"signature"
    chain = found.trail.chain[:32] + bytes(len(found.trail.chain) - 32)
    for wrong in (
        replace(found, trail=Trail(found.trail.chain, ((0, forged),))),
        replace(found, trail=Trail(found.trail.chain, ())),
        replace(found, trail=Trail(chain, found.trail.stamps)),
        replace(found, line=((FIRST, 1),)),
    ):
        spender.counted.append(wrong)
        assert not spender.account.is_settled
        assert spender.ledger.read()[0].mu2 == spender.account.plain_mu2
    spender.close()


def test_a_ledger_that_knows_more_releases_than_the_journal_does_not_fall(tmp_path: Path) -> None:
    """An update that was counted, and never made, may as well have been sent."""
    spender, found = after_a_recovery(tmp_path)
    with spender.ledger.locked() as writer:
        known = spender.ledger.records[0]
        writer.note(0, Spent(11, known.mu2 * 1.1, known.in_full * 1.1), kept=known.kept, may=(0.0, 0.0))
    spender.counted.append(found)
    (after,) = spender.ledger.read()
    assert not after.settled
    assert after.mu2 == pytest.approx(known.mu2 * 1.1)
    spender.close()


# What is proven.


class Died(BaseException):
    """Ends what is done as a kill does, but for this process."""


class Dies(Killer):
    """An account that is told last: the ledger knows by then, and the journal will not."""

    def forked(self) -> None:
        raise Died

    def forgotten(self, trail: Trail) -> None:
        raise Died


def after_its_death(spender: Spender, folder: Path, entry: Forked | Forgotten) -> Spender:
    """Let a node die while it writes down what was proven, and start again."""
    spender.journal.follow(Dies(0))
    with pytest.raises(Died):
        spender.counted.append(entry)
    spender.close()
    again = Spender(folder, "one")
    assert (again.journal.memory.forked, again.journal.memory.reminded) == (None, ())
    return again


def test_a_fork_that_only_the_ledger_knows_of_is_not_settled_away(tmp_path: Path) -> None:
    spender, found = after_a_recovery(tmp_path)
    spender.counted.append(found)
    assert spender.ledger.read()[0].settled
    again = after_its_death(spender, tmp_path, Forked(FIRST))
    for _ in range(2):
        (known,) = again.ledger.read()
        assert (known.settled, known.doubts) == (False, 1)
        assert known.mu2 == known.in_full == again.account.mu2
        again.counted.append(replace(found, looks=((7, (1,)),)))  # others tell more, and the journal believes it
        assert again.ledger.read()[0].mu2 == known.in_full == again.account.mu2
        again.lifetime.end()
        again.close()
        again = Spender(tmp_path, "one")
    again.counted.append(Forked(FIRST))  # it is proven again: that is one more, and the first is lost all the same
    again.close()
    assert Spender(tmp_path, "one").ledger.read()[0].doubts == 2


def test_updates_after_a_fork_that_only_the_ledger_knows_of_come_on_top(tmp_path: Path) -> None:
    spender = Spender(tmp_path, "one")
    spender.update(10)
    again = after_its_death(spender, tmp_path, Forked(FIRST))
    again.update(4)
    unharmed = Spender(tmp_path / "unharmed", "one")
    unharmed.update(10)
    unharmed.counted.append(Forked(FIRST))
    unharmed.update(4)
    assert again.account.mu2 == unharmed.account.mu2
    assert again.ledger.read()[0].mu2 == unharmed.ledger.read()[0].mu2 == unharmed.account.mu2
    unharmed.close()
    again.close()


def test_a_fork_that_the_journal_knows_of_counts_once(tmp_path: Path) -> None:
    spender = Spender(tmp_path, "one")
    spender.update(4)
    spender.counted.append(Forked(FIRST))
    spender.update(4)
    spender.close()
    again = Spender(tmp_path, "one")
    (known,) = again.ledger.read()
    assert known.doubts == 1
    assert known.mu2 == again.account.mu2 == spender.account.mu2 < known.in_full
    again.close()


def test_forgotten_updates_that_only_the_ledger_knows_of_count(tmp_path: Path) -> None:
    """The ledger is ahead by them, and they were not announced there: they have long been sent."""
    spender = Spender(tmp_path, "one")
    spender.update(5)
    made = spender.next_update().copy.token
    again = after_its_death(spender, tmp_path, Forgotten(Trail(made.chain, made.stamps), 1))
    assert again.account.releases == spender.account.releases == 7  # the one before it may be another, too
    assert again.account.mu2 == again.account.plain_mu2 == again.ledger.read()[0].mu2
    again.close()


def test_what_only_the_account_believes_to_be_certain_is_not_in_the_ledger(tmp_path: Path) -> None:
    """The journal could not be written: its node ends, and takes back only what an update might have cost."""
    spender, found = after_a_recovery(tmp_path)
    spender.lifetime.settled(found)
    spender.lifetime.end()
    (known,) = spender.ledger.read()
    assert spender.account.mu2 < known.mu2 == known.in_full
    assert not known.settled
    spender.close()


def test_a_doubt_stands_in_each_line_that_follows(tmp_path: Path) -> None:
    spender = Spender(tmp_path, "one")
    spender.counted.append(Forked(FIRST))
    assert spender.ledger.read()[0].doubts == 1  # also where nothing was released
    spender.update(2)
    with spender.ledger.locked() as writer:
        known = spender.ledger.records[0]
        writer.note(0, known.told, kept=known.kept, may=(0.0, 0.0), settled=0.0)  # somebody who does not know of it
    (after,) = spender.ledger.read()
    assert (after.doubts, after.settled, after.mu2) == (1, False, known.mu2)
    line = (tmp_path / "rows.ledger").read_bytes().splitlines()[-1][65:]
    now = now_in(line, "")
    assert now_in(text_of(0, now).encode(), "") == now
    for doubts, certain in itertools.product((0, 1, 2, 10), (False, True)):
        marked = replace(now, doubts=doubts, settled=certain)
        text = text_of(0, marked).encode()
        assert (now_in(text, ""), level_in(text)[2]) == (marked, certain)
    with pytest.raises(LedgerUnusable, match="is damaged"), spender.ledger.locked() as writer:
        writer.add(text_of(0, replace(now, doubts=0)))
    spender.close()


# At each moment.


def looks(folder: Path, *words: str) -> list[dict[str, Any]]:
    told = subprocess.run([sys.executable, crashing.__file__, folder, *words], stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in told.stdout.splitlines()]


def require_enough(found: list[dict[str, Any]], least: int) -> None:
    assert len(found) > least
    for story in crashing.STORIES:
        levels = [each for each in found if each["story"] == story]
        assert [each for each in levels if each["says"] < 0.999 * each["least"]] == []
        assert any(each["says"] < 0.9 * each["in_full"] for each in levels)  # not all count in full
        assert any(each["least"] > 0.999 * each["in_full"] for each in levels)


@pytest.mark.early
def test_whenever_a_node_is_killed_its_ledger_says_no_less_than_it_knew(tmp_path: Path) -> None:
    require_enough(looks(tmp_path), 500)


@pytest.mark.slow
def test_nor_when_it_is_killed_once_more(tmp_path: Path) -> None:
    require_enough(looks(tmp_path, "again"), 5000)
