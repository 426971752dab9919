"""Commands that are printed can be copied: every word is quoted for a shell, and none is broken over two lines."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Words = Callable[..., Any]
#: Longer than the 80 columns of a terminal, with what a shell would take apart.
FOLDER = "a folder of $HOME & 'others', " + "which is long " * 5


def copied(text: str) -> list[list[str]]:
    """Return the commands of an answer, each on a line of its own, as a shell would take them."""
    lines = [line.strip() for line in text.splitlines()]
    found = [line[line.index("skipring ") :] for line in lines if line.startswith(("skipring ", "tar xzf"))]
    return [shlex.split(line) for line in found]


def test_a_comparison_names_its_report(skipring_words: Words, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("[schedule]\nname = 'random-ring'\nsteps = 226\n[simulation]\nruns = 1\n")
    answer = skipring_words("compare", "run.toml", "--noise", "3,4", "--out", FOLDER)
    assert answer.code == 0, answer.err
    assert copied(answer.out) == [["skipring", "report", f"{FOLDER}/*"]]
    assert f"{shlex.quote(FOLDER)}/*" in answer.out  # the shell is to fill in the star


def test_a_sweep_names_its_report(skipring_words: Words, tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text(
        '[base.schedule]\nname = "random-ring"\nsteps = 226\n'
        '[base.simulation]\nruns = 1\n[[grid]]\n"learning.rate" = [0.1]\n'
    )
    answer = skipring_words("sweep", "grid.toml", "--out", FOLDER)
    assert answer.code == 0, answer.err
    assert copied(answer.out) == [["skipring", "report", f"{FOLDER}/cells/*"]]


def test_a_plan_and_a_new_file_name_what_comes_next(skipring_words: Words) -> None:
    plan = ("plan", "--nodes", "20", "--delay", "gamma:0.25,1", "--time", "20", "--epsilon", "8", "--dimension", "3")
    answer = skipring_words(*plan, "--protects", "node", "--write", "my plan.toml")
    assert answer.code == 0, answer.err
    assert copied(answer.out) == [["skipring", "worth", "my plan.toml"]]
    assert skipring_words("init", "my run.toml").out.endswith("next: skipring simulate 'my run.toml'\n")


@pytest.mark.slow
def test_a_network_names_what_comes_next(skipring_words: Words) -> None:
    answer = skipring_words("network", "init", FOLDER, "--nodes", "2", "--via", "relay.example:2222")
    assert answer.code == 0, answer.err
    assert copied(answer.out) == [
        ["skipring", "network", "pack", "relay", "--dir", FOLDER],
        ["skipring", "network", "up", FOLDER],
        ["skipring", "network", "pack", "node1", "--dir", FOLDER],
    ]
    packed = skipring_words("network", "pack", "node1", "--dir", FOLDER)
    assert copied(packed.out) == [["skipring", "network", "check", "node1"]]
    assert copied(skipring_words("network", "status", FOLDER).out) == [["skipring", "network", "up", FOLDER]]
    again = skipring_words("network", "new-run", FOLDER, "--add", "late=outgoing")
    assert again.code == 0, again.err
    assert copied(again.out)[:2] == [
        ["skipring", "network", "pack", "late", "--dir", FOLDER],
        ["skipring", "network", "up", FOLDER],
    ]
