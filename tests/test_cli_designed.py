"""The designed ring on the command line: every pair keeps what was asked for, and bad input gets one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[[str], Any]

RUN = "--schedule designed-ring --nodes 12 --steps 120 --search 500"


def words_of(text: str) -> str:
    return " ".join(text.split())


def test_noise_and_privacy_are_inverse(skipring: Command) -> None:
    noise = json.loads(skipring(f"noise {RUN} --skip 0.2 --epsilon 6 --delta 1e-5 --json").out)
    assert (noise["closing"], noise["order_seed"], noise["search"]) == (2, 1, 500)
    there = f"privacy {RUN} --skip 0.2 --noise-multiplier {noise['noise_multiplier']} --delta 1e-5 --json"
    found = json.loads(skipring(there).out)
    assert found["epsilon"] == pytest.approx(6.0, rel=1e-4)
    assert found["also"][0]["against"] == "an outsider"
    assert found["also"][0]["epsilon"] <= found["epsilon"]
    assert json.loads(skipring(f"{there} --closing 0").out)["closing"] == 0


def test_it_says_that_it_holds_for_every_pair(skipring: Command) -> None:
    rest = "--skip 0 --noise-multiplier 5 --delta 1e-5"
    assert "holds for every pair of the order" in words_of(skipring(f"privacy {RUN} {rest}").out)
    drawn = "--schedule random-ring --nodes 12 --steps 120"
    assert "an average over random orders" in words_of(skipring(f"privacy {drawn} {rest}").out)


def test_a_plan_knows_it(skipring: Command) -> None:
    plan = "plan --nodes 6 --delay gamma:0.25,1 --epsilon 8 --dimension 4 --steps 60 --no-figure --protects node"
    answer = skipring(f"{plan} --write plan.toml --schedule designed-ring")
    assert answer.code == 0, answer.err
    out = words_of(answer.out)
    assert "holds for every pair of the order" in out
    assert "paper's accounting: its theorems do not cover an order that is known" in out
    assert 'name = "designed-ring"' in Path("plan.toml").read_text()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ("--nodes 2", "--nodes 2: two nodes have one order only"),
        ("--steps 121", "--steps 121: must be a multiple of nodes"),
        ("--schedule random-ring --closing 2", "--closing 2: random-ring has no closing hops"),
        ("--schedule ring --order-seed 2", "--order-seed 2: is for an order that is still to be designed"),
        ("--closing -1", "--closing -1"),
        ("--search -5", "--search -5"),
        ("--against skipped-node", "--against skipped-node: in a known order observers are taken to be always ready"),
        ("--method paper", "--schedule designed-ring: the paper's theorems do not cover an order that is known"),
    ],
)
def test_what_is_refused_is_said_in_one_line(skipring: Command, changes: str, words: str) -> None:
    # Of an option that is given twice the last one counts.
    usual = "--schedule designed-ring --nodes 12 --steps 120 --skip 0.1 --noise-multiplier 5 --delta 1e-5"
    answer = skipring(f"privacy {usual} {changes}")
    assert answer.code == 2
    assert words in answer.err
    assert len(answer.err.strip().splitlines()) == 1


def test_a_comparison_and_its_page_lead_with_what_holds_for_every_pair(skipring: Command) -> None:
    Path("run.toml").write_text(
        '[data]\nnodes = 10\n[schedule]\nname = "random-ring"\nsteps = 100\n'
        '[delay]\nlaw = "exponential:1"\ntimeout = inf\n'
        '[privacy]\nprotects = "node"\nepsilon = 8\n[simulation]\nruns = 2\n'
    )
    line = "compare run.toml --schedules designed-ring,random-ring"
    out = words_of(skipring(f"{line} --out shown").out)
    assert "For random-ring what is promised is an average over orders; on the path of the first run" in out
    designed, drawn = json.loads(skipring(f"{line} --out told --json").out)["alternatives"]
    assert designed["epsilon_every_pair"] == pytest.approx(8.0, rel=1e-4)
    assert drawn["epsilon_every_pair"] > 8.0
    assert skipring("report shown/designed-ring shown/random-ring --out page.html").code == 0
    page = Path("page.html").read_text()
    assert "<td>epsilon, promised, every pair</td>" in page
    assert "What is promised is an average over orders" in page
    assert "epsilon, promised, every pair" in skipring("simulate run.toml --set schedule.name=designed-ring").out
    assert "epsilon, in this run, every pair" in skipring("simulate run.toml --out drawn").out
