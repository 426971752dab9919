"""A budget for life: what all runs have given away of one data set is in one ledger, whatever becomes of journals."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spending
from networks import ended
from scipy.signal import fftconvolve
from spending import DELTA, FIRST, Spender, terms
from test_nodes import QUICK, make, run_nodes

from skipring._numbers import upper_fixed
from skipring.errors import InvalidInput
from skipring.network.node import NodeBudget, OwnAccount, life_totals, metrics_text, read_node_config
from skipring.network.protocol import Heard, Token
from skipring.network.setup import ExitCode, life_account, why_not_started
from skipring.network.storage import LedgerBroken, LedgerFile, LedgerUnusable, boot
from skipring.network.storage._ledger_lines import now_in, text_of
from skipring.privacy import Unit, gdp_epsilon

Command = Callable[..., Any]


def in_process(*words: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, spending.__file__, *map(str, words)])


def spent(folder: Path, run: str, updates: int, **kind: Any) -> float:
    """Take part in a run; return mu^2 of the observer who knows most at its end."""
    spender = Spender(folder, run, **kind)
    spender.update(updates)
    spender.close()
    return spender.account.mu2


def total_of(folder: Path) -> float:
    (total,) = life_totals(LedgerFile(folder / "rows.ledger").read())
    return total.mu2


# The file.


def test_two_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    both = [in_process(tmp_path, run, 60) for run in ("first", "second")]
    assert [one.wait(60) for one in both] == [0, 0]
    ledger = LedgerFile(tmp_path / "rows.ledger", heads=tmp_path)
    records = {record.about.run: record for record in ledger.read()}
    assert {run: record.releases for run, record in records.items()} == {"first": 60, "second": 60}
    # The first says what it is, one which start of the machine it was; each account is opened, and raised and confirmed
    # with each update.
    assert ledger.lines == 2 + 2 * (2 + 2 * 60)
    alone = spent(tmp_path / "alone", "third", 60)
    assert [record.mu2 for record in records.values()] == [alone, alone]


def test_a_line_that_was_never_finished_is_cut_off(tmp_path: Path) -> None:
    spent(tmp_path, "first", 2)
    file = tmp_path / "rows.ledger"
    whole = file.read_bytes()
    file.write_bytes(whole + b"0123 {")  # as a power cut may leave it
    assert LedgerFile(file).read()[0].releases == 2
    spent(tmp_path, "second", 1)
    assert file.read_bytes().startswith(whole)
    assert [record.releases for record in LedgerFile(file).read()] == [2, 1]


def damaged(text: bytes) -> dict[str, bytes]:
    lines = text.splitlines(keepends=True)
    return {
        "a number was changed": text.replace(b" [0,2,", b" [0,1,"),
        "a line is missing": b"".join(lines[:2] + lines[3:]),
        "two lines have changed places": b"".join([*lines[:2], *lines[3:4], *lines[2:3], *lines[4:]]),
        "it is empty": b"",
        "it is no ledger": b"age,dose\n1,2\n3,4",
        "it is binary": bytes(range(256)) * 3,
    }


@pytest.mark.parametrize("how", damaged(b""))
def test_a_damaged_ledger_is_refused_and_left_as_it_is(tmp_path: Path, how: str) -> None:
    spent(tmp_path, "first", 3)
    file = tmp_path / "rows.ledger"
    text = damaged(file.read_bytes())[how]
    file.write_bytes(text)
    for head in tmp_path.glob("*.head"):
        head.unlink()
    with pytest.raises(LedgerUnusable, match=r"budget\.ledger = .*: is damaged: line \d+ is not what was written"):
        LedgerFile(file).read()
    with pytest.raises(LedgerUnusable):
        Spender(tmp_path, "second")
    assert file.read_bytes() == text


def test_a_line_that_lowers_an_account_is_refused_also_where_its_digest_is_right(tmp_path: Path) -> None:
    spent(tmp_path, "first", 2)
    ledger = LedgerFile(tmp_path / "rows.ledger")
    lower: dict[str, Any] = {
        "of": 0,
        "at": 0.0,
        "releases": 2,
        "mu2": 0.0,
        "in_full": 1.0,
        "may_mu2": 0.0,
        "may_in_full": 1.0,
    }
    told = {"releases": 2, "mu2": 0.0, "in_full": 1.0}
    lower |= {"told": told, "kept": told, "boot": ""}
    with pytest.raises(LedgerUnusable, match="is damaged"), ledger.locked() as writer:
        writer.add(json.dumps(lower))
    with pytest.raises(LedgerUnusable, match="is damaged: line 9"):
        LedgerFile(ledger.path).read()


def test_an_old_copy_is_refused_and_so_is_another_ledger_or_none(tmp_path: Path) -> None:
    spent(tmp_path, "first", 2)
    file = tmp_path / "rows.ledger"
    old = file.read_bytes()
    spent(tmp_path, "first", 2)
    newest = file.read_bytes()
    file.write_bytes(old)
    with pytest.raises(LedgerUnusable, match="is an old copy: it has 8 lines, and this node has seen 11"):
        Spender(tmp_path, "second")
    spent(tmp_path / "elsewhere", "third", 4, ledger=file)  # somebody who does not know goes on with it
    with pytest.raises(LedgerUnusable, match="an old copy that was gone on with: line 11 has changed"):
        Spender(tmp_path, "second")
    file.unlink()
    with pytest.raises(LedgerUnusable, match="is missing, but this node has written to it"):
        Spender(tmp_path, "second")
    spent(tmp_path / "other", "first", 9)
    shutil.copy(tmp_path / "other" / "rows.ledger", file)
    with pytest.raises(LedgerUnusable, match="is another one than this node has written to"):
        Spender(tmp_path, "second")
    file.write_bytes(newest)
    moved = file.rename(tmp_path / "moved.ledger")
    spent(tmp_path, "second", 1, ledger=moved)
    moved.write_bytes(old)  # it is known at its new place, too
    with pytest.raises(LedgerUnusable, match="is an old copy"):
        Spender(tmp_path, "second", ledger=moved)


def test_a_ledger_that_is_rolled_back_while_a_node_runs_stops_it(tmp_path: Path) -> None:
    spent(tmp_path, "first", 2)
    old = (tmp_path / "rows.ledger").read_bytes()
    running = Spender(tmp_path, "second")
    (tmp_path / "rows.ledger").write_bytes(old)
    with pytest.raises(LedgerUnusable, match="is an old copy, or was changed, while this node was using it"):
        running.update()
    running.close()
    assert not list(Spender(tmp_path / "fresh", "second").journal.releases())


def test_nothing_is_released_that_could_not_be_counted(tmp_path: Path) -> None:
    spender = Spender(tmp_path, "first")
    spender.update()
    (tmp_path / "rows.ledger").unlink()
    (tmp_path / "rows.ledger").mkdir()
    with pytest.raises((LedgerBroken, InvalidInput)):
        spender.update()
    spender.close()
    (tmp_path / "rows.ledger").rmdir()
    for head in tmp_path.glob("*.head"):
        head.unlink()
    assert len(list(Spender(tmp_path, "first").journal.releases())) == 1


# Ledger and journal.


def test_a_node_that_is_killed_between_ledger_and_journal_has_counted_the_update(tmp_path: Path) -> None:
    assert in_process(tmp_path, "first", 5, "kill").wait(60) == -signal.SIGKILL
    (record,) = LedgerFile(tmp_path / "rows.ledger").read()
    assert record.releases == 5
    assert record.kept.releases == 4
    again = Spender(tmp_path, "first")
    # The machine has not started anew, so that nothing is lost of what was said before: the fifth was never sent.
    assert len(list(again.journal.releases())) == again.account.releases == 4
    assert total_of(tmp_path) == record.mu2
    again.update()
    again.close()
    lines = (tmp_path / "rows.ledger").read_bytes().splitlines()
    pending = now_in(lines[-2][65:], "")  # it was announced again, as every update
    assert (pending.told.releases, pending.kept.releases) == (5, 4)
    assert spent(tmp_path / "unharmed", "first", 5) == again.account.mu2 == record.mu2 == total_of(tmp_path)


def test_after_a_power_cut_it_may_have_been_seen(tmp_path: Path) -> None:
    spent(tmp_path, "first", 4)
    shutil.copytree(tmp_path, tmp_path / "before")
    spent(tmp_path, "first", 1)
    file = tmp_path / "rows.ledger"
    lines = file.read_bytes().splitlines(keepends=True)
    assert now_in(lines[-1][65:], "").kept.releases == 5
    file.write_bytes(b"".join(lines[:-1]))  # the last line was not synced
    for path in (tmp_path / "before").glob("first.sqlite*"):
        shutil.copy(path, tmp_path / path.name)
    last = now_in(lines[-2][65:], "")
    assert (last.releases, last.kept.releases) == (5, 4)
    file.write_bytes(rechained([*started_before(lines[:-2]), lines[-2]]))
    for head in tmp_path.glob("*.head"):
        head.unlink()
    again = Spender(tmp_path, "first")
    one = (2.0 / 5.0) ** 2
    assert again.account.releases == 5
    assert again.account.mu2 == pytest.approx(5.0 * one)
    again.update()
    assert 5.0 * one < again.account.mu2 <= 6.0 * one * (1.0 + 1e-9)
    again.close()
    assert total_of(tmp_path) == again.account.mu2
    quiet = Spender(tmp_path, "first")  # nothing was lost this time: but what was lost before still counts
    assert quiet.account.mu2 >= again.account.mu2
    quiet.close()


def test_a_machine_that_starts_anew_between_two_updates_has_lost_nothing(tmp_path: Path) -> None:
    """Also where the account has fallen below what the ledger keeps: nothing is pending, so nothing is missing."""
    spent(tmp_path, "first", 4)
    file = tmp_path / "rows.ledger"
    lines = file.read_bytes().splitlines(keepends=True)
    last = now_in(lines[-1][65:], "another-start")
    raised = replace(last, mu2=last.mu2 + 0.01, may_mu2=last.may_mu2 + 0.01)
    file.write_bytes(rechained([*started_before(lines[:-1]), b"digest " + text_of(0, raised).encode()]))
    for head in tmp_path.glob("*.head"):
        head.unlink()
    again = Spender(tmp_path, "first")
    assert again.account.mu2 == last.mu2 < total_of(tmp_path) == last.mu2 + 0.01
    again.close()


def started_before(lines: list[bytes]) -> list[bytes]:
    """Return lines as another start of the machine has written them."""
    return [line.replace(boot().encode(), b"another-start") for line in lines]


def test_a_ledger_with_lines_as_they_were_before_they_were_short_is_gone_on_with(tmp_path: Path) -> None:
    spent(tmp_path, "first", 3)
    file, older = tmp_path / "rows.ledger", list[bytes]()
    lines, place = file.read_bytes().splitlines(keepends=True), 0
    for line in lines:
        body = line[65:].rstrip(b"\n")
        if body.startswith(b"["):
            fields = {"of": place} | asdict(now_in(body, boot()))
            older.append(b"digest " + json.dumps(fields).encode())
        elif b'"boot"' not in body:
            older.append(line)
    file.write_bytes(rechained(older))
    for head in tmp_path.glob("*.head"):
        head.unlink()
    (before,) = LedgerFile(file).read()
    assert file.stat().st_size > 2 * sum(map(len, lines))
    assert spent(tmp_path, "first", 2) > before.mu2
    (after,) = LedgerFile(file).read()
    assert (before.releases, after.releases) == (3, 5)
    assert file.read_bytes().startswith(rechained(older))
    assert spent(tmp_path / "unharmed", "first", 5) == after.mu2 == total_of(tmp_path)


def test_an_update_takes_few_bytes_of_a_ledger(tmp_path: Path) -> None:
    spent(tmp_path, "first", 10)
    before = (tmp_path / "rows.ledger").stat().st_size
    spent(tmp_path, "first", 50)
    assert (tmp_path / "rows.ledger").stat().st_size - before < 50 * 450


def rechained(lines: list[bytes]) -> bytes:
    """Return lines as if they had been written like that."""
    text, digest = b"", hashlib.sha256(b"skipring ledger").digest()
    for line in lines:
        body = line.split(b" ", 1)[1].rstrip(b"\n")
        digest = hashlib.sha256(digest + body).digest()
        text += digest.hex().encode() + b" " + body + b"\n"
    return text


def test_a_ledger_is_as_high_as_the_account_after_each_entry(tmp_path: Path) -> None:
    spender = Spender(tmp_path, "first")
    for entry in (None, Heard((0, 0)), None, Heard((1, 1))):
        spender.counted.append(spender.next_update() if entry is None else entry)
        (record,) = LedgerFile(tmp_path / "rows.ledger").read()
        assert (record.mu2, record.in_full) == (spender.account.mu2, spender.account.plain_mu2)
    assert record.mu2 == record.in_full  # a higher ballot: all of them count in full
    spender.close()


def test_a_journal_that_is_lost_or_rolled_back_lowers_nothing(tmp_path: Path) -> None:
    spent(tmp_path, "first", 3)
    backup = shutil.copytree(tmp_path, tmp_path.parent / "backup")
    spent(tmp_path, "first", 4)
    before = total_of(tmp_path)
    for path in backup.glob("first.sqlite*"):  # an old copy of the journal
        shutil.copy(path, tmp_path / path.name)
    restored = Spender(tmp_path, "first")
    assert restored.account.releases == 7
    assert restored.account.mu2 == restored.account.plain_mu2 >= before
    restored.close()
    for path in tmp_path.glob("first.sqlite*"):  # and none at all
        path.unlink()
    anew = Spender(tmp_path, "first")
    assert anew.account.releases == 7
    anew.update()
    anew.close()
    (record,) = LedgerFile(tmp_path / "rows.ledger").read()
    assert record.releases == 8
    assert record.mu2 == pytest.approx(8 * (2.0 / 5.0) ** 2)


# All runs together.


def test_mu_adds_in_squares_over_runs(tmp_path: Path) -> None:
    squares = [
        spent(tmp_path, "first", 5),
        spent(tmp_path, "second", 9, terms=terms(noise_multiplier=3.0)),
        spent(tmp_path, "third", 1, terms=terms(convex=False)),
    ]
    for path in tmp_path.glob("first.sqlite*"):
        path.unlink()
    records = LedgerFile(tmp_path / "rows.ledger").read()
    (total,) = life_totals(records)
    assert (total.runs, total.releases) == (3, 15)
    assert total.epsilon(DELTA) == gdp_epsilon(math.sqrt(math.fsum(squares)), DELTA)
    in_full = [5 * (2 / 5) ** 2, 9 * (2 / 3) ** 2, (2 / 5) ** 2]
    assert total.epsilon_in_full(DELTA) == pytest.approx(gdp_epsilon(math.sqrt(sum(in_full)), DELTA))
    assert total.epsilon(DELTA) < total.epsilon_in_full(DELTA)


def composed_delta(mus: list[float], epsilon: float) -> float:
    """Delta of Gaussian mechanisms together, from their privacy losses alone: the law of the sum, point by point."""
    step = 1e-3
    grid = np.arange(-40.0, 40.0 + step / 2, step)
    law, start = np.ones(1), 0.0
    for mu in mus:
        density = np.exp(-0.5 * ((grid - 0.5 * mu * mu) / mu) ** 2) / (mu * math.sqrt(2.0 * math.pi))
        law, start = fftconvolve(law, density * step), start + float(grid[0])
    losses = start + step * np.arange(len(law))
    return float(np.maximum(law, 0.0) @ np.maximum(0.0, -np.expm1(epsilon - np.maximum(losses, epsilon))))


def test_a_record_is_in_the_runs_of_its_person_and_of_its_node(tmp_path: Path, skipring_words: Command) -> None:
    """A run that hides a node hides any change of its data; one that hides records says nothing about several."""
    whole = spent(tmp_path, "first", 5)
    person = spent(tmp_path, "second", 7, terms=terms(protects="person", noise_multiplier=4.0))
    record = spent(tmp_path, "third", 9, terms=terms(protects="record", parts=2))
    told: dict[Unit, list[float]] = {"node": [whole], "person": [whole, person], "record": [whole, person, record]}
    totals = {total.unit: total for total in life_totals(LedgerFile(tmp_path / "rows.ledger").read())}
    assert {unit: total.mu2 for unit, total in totals.items()} == {u: math.fsum(known) for u, known in told.items()}
    assert {unit: total.runs for unit, total in totals.items()} == {"node": 1, "person": 2, "record": 3}
    in_full = {"node": 5 * (2 / 5) ** 2, "person": 7 * (2 / 4) ** 2, "record": 5 * (2 / 5) ** 2}  # parts: 5 and 4
    assert totals["record"].in_full == pytest.approx(sum(in_full.values()))
    assert totals["person"].in_full == pytest.approx(in_full["node"] + in_full["person"])
    for unit, known in told.items():
        epsilon = totals[unit].epsilon(DELTA)
        assert composed_delta([math.sqrt(mu2) for mu2 in known], epsilon) == pytest.approx(DELTA, rel=1e-3)
    # A record alone, as if it were in none of the others: what was once printed.
    alone = gdp_epsilon(math.sqrt(record), DELTA)
    assert totals["record"].epsilon(DELTA) > 1.5 * alone
    found = skipring_words("node", "ledger", "rows.ledger")
    words = " ".join(found.out.split())
    shown: dict[Unit, tuple[str, str]] = {
        "record": ("All runs together", "all runs"),
        "person": ("Without the run that protects less", "these runs alone"),
        "node": ("Without the 2 runs that protect less", "these runs alone"),
    }
    for unit, (which, whose) in shown.items():
        line = words.partition(f"{which}: epsilon {upper_fixed(totals[unit].epsilon(DELTA), 4)}, each release")[2]
        assert line.partition(" (method")[0].endswith(f"against the other nodes of {whose}")
    assert "count for it, too" in " ".join(found.out.split())


def test_a_node_tells_what_all_runs_have_given_away_whatever_this_one_hides(
    tmp_path: Path, skipring_words: Command
) -> None:
    """A total of nodes leaves out what runs that protect less have told, so it is not that of all runs."""
    ledger = tmp_path / "rows.ledger"
    before = spent(tmp_path, "first", 9, terms=terms(protects="record"), ledger=ledger)
    run = QUICK | {"schedule": {"steps": 30}, "privacy": {"noise_multiplier": 3.0, "protects": "node"}}
    configs = make(tmp_path / "nodes", 3, run)
    with_ledger(configs[0], ledger, NodeBudget(epsilon=30.0, delta=DELTA))
    node, *_ = run_nodes(configs)
    status = node.status()
    assert status.life is not None
    assert (status.guarantee.protects, status.life.protects, status.life_runs) == ("node", "record", 2)
    both = gdp_epsilon(math.sqrt(before + node.account.mu2), DELTA)
    assert status.life.epsilon == pytest.approx(both, rel=1e-9)
    hidden = "one record (replace-one) at delta 1e-05 against the other nodes of all runs"
    assert hidden in status.life.terms
    (told,) = [line for line in metrics_text(status).splitlines() if line.startswith("# HELP skipring_life_epsilon")]
    assert hidden in told
    for command in (("network", "status", str(tmp_path / "nodes")), ("node", "status", str(configs[0].parent))):
        words = " ".join(skipring_words(*command).out.split())
        assert f"together: node1 {upper_fixed(both, 3)} (2 runs). It protects {hidden}" in words


def test_no_total_exceeds_a_budget_whatever_the_next_run_hides(tmp_path: Path) -> None:
    before = math.fsum(
        spent(tmp_path, unit, updates, terms=terms(protects=unit))
        for unit, updates in (("node", 5), ("person", 3), ("record", 9))
    )
    one = (2.0 / 5.0) ** 2
    for unit in ("node", "person", "record"):
        spender = Spender(tmp_path, f"next-{unit}", terms=terms(protects=unit))
        for room, enough in ((0.9, False), (1.001, True)):
            budget = NodeBudget(epsilon=gdp_epsilon(math.sqrt(before + room * one), DELTA), delta=DELTA)
            assert spender.lifetime.affords(budget, (FIRST, 1), None) is enough
        spender.close()


def test_two_nodes_on_the_same_rows_in_one_run_count_in_full(tmp_path: Path) -> None:
    """To the account of one of them the other's updates are noise alone, which they are not."""
    first, second = (Spender(tmp_path / name, "run", ledger=tmp_path / "rows.ledger", node=name) for name in "ab")
    first.update(6)
    second.update(6)
    one = (2.0 / 5.0) ** 2
    assert first.account.mu2 < 5.9 * one
    assert total_of(tmp_path) == pytest.approx(12.0 * one)
    room = NodeBudget(epsilon=gdp_epsilon(math.sqrt(12.5 * one), DELTA), delta=DELTA)
    assert not first.lifetime.affords(room, (FIRST, 19), None)
    assert not second.lifetime.affords(room, (FIRST, 19), None)
    room = NodeBudget(epsilon=gdp_epsilon(math.sqrt(13.0 * one), DELTA) * 1.0001, delta=DELTA)
    assert first.lifetime.affords(room, (FIRST, 19), None)


def test_two_nodes_cannot_both_take_the_last_of_a_budget(tmp_path: Path) -> None:
    first, second = (Spender(tmp_path / run, run, ledger=tmp_path / "rows.ledger") for run in ("x", "y"))
    one, here = (2.0 / 5.0) ** 2, (FIRST, 1)
    room = NodeBudget(epsilon=gdp_epsilon(math.sqrt(1.5 * one), DELTA), delta=DELTA)
    token: Token = first.journal.memory.copy.token
    assert first.lifetime.affords(room, here, token)
    assert second.lifetime.affords(room, here, token)
    assert first.lifetime.reserve(room, here, token)
    assert not second.lifetime.affords(room, here, token)
    assert not second.lifetime.reserve(room, here, token)
    assert total_of(tmp_path) == 0.0  # nothing was released yet
    first.lifetime.end()  # and nothing will be
    assert second.lifetime.reserve(room, here, token)
    second.update()
    assert not first.lifetime.reserve(room, here, token)
    assert total_of(tmp_path) == pytest.approx(one)


def test_without_noise_one_release_is_too_much_for_life(tmp_path: Path) -> None:
    assert spent(tmp_path, "first", 1, terms=terms(noise_multiplier=0.0)) == math.inf
    assert life_account(tmp_path / "rows.ledger").totals[0].guarantee.epsilon == math.inf
    later = Spender(tmp_path, "second")
    assert not later.lifetime.affords(NodeBudget(epsilon=100.0, delta=DELTA), (FIRST, 1), None)


# Real nodes.


def with_ledger(config: Path, ledger: Path, budget: NodeBudget) -> None:
    text = config.read_text().replace("[budget]", f"[budget]\nledger = '{ledger}'")
    config.write_text(
        text.replace("# epsilon = 2.0", f"epsilon = {budget.epsilon}").replace("# delta = 1e-5", "delta = 1e-5")
    )
    assert read_node_config(config).budget.ledger == ledger


def test_a_second_run_begins_with_what_the_first_one_gave_away(tmp_path: Path, skipring_words: Command) -> None:
    run = QUICK | {"schedule": {"steps": 30}, "privacy": {"noise_multiplier": 3.0, "protects": "node"}}
    ledger, budget = tmp_path / "rows.ledger", NodeBudget(epsilon=13.0, delta=1e-5)
    accounts: list[OwnAccount] = []
    for number in ("1", "2"):
        configs = make(tmp_path / number, 3, run)
        text = configs[0].with_name("run.toml").read_text()
        for config in configs:
            config.with_name("run.toml").write_text(text.replace("2026-03-01-0001", f"2026-03-0{number}-0001"))
        with_ledger(configs[0], ledger, budget)
        node, other, _ = run_nodes(configs)
        accounts.append(node.account)
        status, (total,) = node.status(), life_account(ledger).totals
        assert status.life is not None
        assert (status.life_runs, status.life.epsilon) == (int(number), total.guarantee.epsilon)
        assert f'skipring_life_epsilon{{node="node1"}} {total.guarantee.epsilon!r}' in metrics_text(status)
        assert other.status().life is None
        found = life_account(configs[0].parent)
        assert accounts[-1].mu2 <= found.runs[-1].mu2 <= accounts[-1].plain_mu2
        shutil.rmtree(tmp_path / number / "node1" / "journal.sqlite-models", ignore_errors=True)
        (tmp_path / number / "node1" / "journal.sqlite").unlink()  # nobody counts with it any more
    first, second = accounts
    assert first.releases == 10
    assert 0 < second.releases < 10
    (total,) = life_account(ledger).totals
    assert total.guarantee.epsilon == gdp_epsilon(
        math.sqrt(math.fsum(run.mu2 for run in life_account(ledger).runs)), 1e-5
    )
    assert first.epsilon(1e-5) < (total.guarantee.epsilon or 0.0) <= 13.0
    # One more would have been too much.
    assert gdp_epsilon(math.sqrt(first.mu2 + second.mu2_with_one_more()), 1e-5) > 13.0

    shown = skipring_words("node", "ledger", str(configs[0].parent))
    assert shown.code == 0, shown.err
    words = " ".join(shown.out.split())
    assert "2026-03-01-0001 node1" in words
    assert "2026-03-02-0001 node1" in words
    assert "protects all data of a node (replace-one) at delta 1e-05 against the other nodes of all runs" in words
    assert "(method own accounts, composed)" in words
    assert "Budget for life: epsilon 13 at delta 1e-05, for each total." in words
    assert "Nodes of some runs shared a data set: features are standardised" in words
    assert max(map(len, shown.out.splitlines())) <= 80
    other = skipring_words("node", "ledger", str(configs[0].parent), "--delta", "1e-6", "--json").data
    assert (other["delta"], other["budget"], other["budget_delta"]) == (1e-6, 13.0, 1e-5)
    told = skipring_words("node", "ledger", str(ledger), "--json").data
    assert [line["updates"] for line in told["runs"]] == [10, second.releases]
    for numbers in (*told["runs"], *told["totals"]):
        assert {"epsilon", "protects", "relation", "delta", "method", "against"} <= numbers["guarantee"].keys()
    loose = skipring_words("node", "ledger", str(ledger), "--delta", "1e-3", "--json").data
    assert loose["totals"][0]["guarantee"]["epsilon"] < told["totals"][0]["guarantee"]["epsilon"]

    # An old copy: neither the command nor the node takes it.
    ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:-4]))
    refused = skipring_words("node", "ledger", str(configs[0].parent))
    assert refused.code == ExitCode.JOURNAL
    assert "is an old copy" in refused.err
    assert refused.err.count("\n") == 1
    for path in configs[0].parent.glob("journal.sqlite*"):
        path.unlink()
    assert "is an old copy" in why_not_started(configs[0].parent)
    code, said = ended(configs[0])
    assert (code, said["event"]) == (ExitCode.JOURNAL, "failed")
    assert "is an old copy" in said["why"]


def test_bad_input_is_one_line(tmp_path: Path, skipring_words: Command) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "node.toml").write_text('name = "a"\nlisten = "127.0.0.1:7600"\n')
    (tmp_path / "b").mkdir()
    text = 'name = "b"\nlisten = "127.0.0.1:7600"\n[budget]\nledger = "gone/rows.ledger"\n'
    (tmp_path / "b" / "node.toml").write_text(text)
    lines = {
        (): "is not the folder of a node",
        ("a",): "names no ledger",
        ("b",): "does not exist",
        ("nothing",): "does not exist",
        ("b", "--delta", "2"): "--delta 2.0",
    }
    for words, reason in lines.items():
        refused = skipring_words("node", "ledger", *words)
        assert (refused.code, refused.err.count("\n")) == (2, 1), refused.err
        assert reason in refused.err
    with pytest.raises(InvalidInput, match="its folder does not exist"):
        LedgerFile(tmp_path / "gone" / "rows.ledger").require()
