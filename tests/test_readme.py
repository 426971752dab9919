"""The README shows what really happens."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from skipring.cli import app

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
CONSOLE = "".join(re.findall(r"```console\n(.*?)```", README, re.DOTALL))
COMMANDS = re.findall(r"^\$ skipring (.*)\n((?:(?!\$ ).*\n)*)", CONSOLE, re.MULTILINE)


def words(text: str) -> list[Any]:
    """Split into words; numbers may differ in their last digits between machines."""
    found: list[Any] = []
    for word in text.split():
        try:
            found.append(pytest.approx(float(word.rstrip(",")), rel=1e-3))
        except ValueError:
            found.append(word)
    return found


@pytest.mark.early
@pytest.mark.parametrize(("line", "shown"), COMMANDS, ids=[line.split()[0] for line, _ in COMMANDS])
def test_commands_print_what_the_readme_shows(line: str, shown: str, tmp_path: Path) -> None:
    line, shown = (
        line.replace("--out compared", f"--out {tmp_path}/compared"),
        shown.split("Results and figure", maxsplit=1)[0],
    )
    done = subprocess.run(
        [sys.executable, "-m", "skipring", *line.split()],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT if "examples/" in line else tmp_path,
        env=os.environ | {"COLUMNS": "80"},
        timeout=300,
    )
    printed = [word.rstrip(",") for word in done.stdout.split("Results and figure")[0].split()]
    expected = words(shown)
    assert len(printed) == len(expected)
    for got, want in zip(printed, expected, strict=True):
        assert (got if isinstance(want, str) else float(got)) == (want.rstrip(",") if isinstance(want, str) else want)


def test_there_are_commands_to_check() -> None:
    assert len(COMMANDS) == 4


def test_the_python_example_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=True, timeout=300)
    epsilon, noise, worst = done.stdout.splitlines()
    assert 1.5 < float(epsilon) < 3.0
    assert 15.0 < float(noise) < 25.0
    assert worst.startswith("WorstPair(mu=0.6")


def asked_in_docs() -> list[str]:
    """Return each question to the calculator that docs or the help show; the tutorial has a test of its own."""
    pages = [page.read_text() for page in sorted((ROOT / "docs").glob("*.md")) if page.name != "tutorial.md"]
    lines = re.findall(
        r"^ *(?:\$ )?skipring ((?:plan|noise|privacy|timeout|error) --.*)$", "\n".join(pages), re.MULTILINE
    )
    (first,) = re.findall(r"Start with: skipring (.*)", app.info.epilog or "")
    return [first, *lines]


@pytest.mark.parametrize("line", asked_in_docs())
def test_questions_of_docs_and_help_are_answered(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = [*line.split(), *(["--no-figure"] if line.startswith("plan") and "--no-figure" not in line else [])]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output


def test_docs_ask_questions() -> None:
    assert len(asked_in_docs()) >= 5
