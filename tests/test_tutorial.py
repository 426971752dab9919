"""The tutorial works as it is written, step by step."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TUTORIAL = (Path(__file__).parent.parent / "docs" / "tutorial.md").read_text()
BLOCKS = re.findall(r"```(python|console|toml)\n(.*?)```", TUTORIAL, re.DOTALL)


@pytest.mark.slow  # the README is what `make test` follows step by step
@pytest.mark.early
def test_every_step_of_the_tutorial_works(tmp_path: Path) -> None:
    commands = 0
    for kind, text in BLOCKS:
        if kind == "toml":
            (tmp_path / "clinics.toml").write_text(text)
            continue
        lines = [text] if kind == "python" else re.findall(r"^\$ skipring (.*)$", text, re.MULTILINE)
        for line in lines:
            words = ["-c", line] if kind == "python" else ["-m", "skipring", *line.split()]
            if "*" in line and kind == "console":  # what a shell would put there
                words = [
                    part
                    for word in words
                    for part in (sorted(map(str, tmp_path.glob(word))) if "*" in word else [word])
                ]
            done = subprocess.run(
                [sys.executable, *words],
                capture_output=True,
                text=True,
                cwd=tmp_path,
                env=os.environ | {"COLUMNS": "80"},
                timeout=300,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            assert max(map(len, done.stdout.splitlines()), default=0) <= 80 or "*" in line
            commands += kind == "console"
    assert commands == 4
    assert (tmp_path / "frontier.png").stat().st_size > 10_000
    assert (tmp_path / "report.html").stat().st_size > 1_000_000
    assert (tmp_path / "clinics" / "metrics.npz").exists()
