"""Every example of docs/extending.md runs, and what it makes is used."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"


def test_every_example_of_the_page_runs(tmp_path: Path) -> None:
    """In a process of its own: what is registered must not be known to other tests."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(blocks) == 4
    program = tmp_path / "page.py"
    program.write_text("\n".join(blocks))
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "2.5"
    worst, _, refusal = lines[1].partition(" ")
    assert float(worst) > 0.0
    assert "back-and-forth" in refusal
    assert 0.0 < float(lines[2]) < 0.5
    assert "smooth-hinge, 30 nodes, 900 steps" in " ".join(lines[3:])
