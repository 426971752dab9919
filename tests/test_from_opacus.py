"""The example of docs/from-opacus.md that needs no Opacus prints what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "from-opacus.md"


@pytest.mark.slow
def test_the_example_prints_what_the_page_says() -> None:
    page = PAGE.read_text()
    theirs, ours = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert "import opacus" in theirs or "from opacus" in theirs
    threads = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", ours], capture_output=True, text=True, check=True, env=threads)
    found = re.fullmatch(r"skipring: accuracy (\d\.\d\d), epsilon (\d\.\d\d)\n", done.stdout)
    assert found is not None
    said = re.search(r"\| accuracy \S+, epsilon \S+ \| accuracy (\S+), epsilon (\S+) \|", page)
    assert said is not None
    assert found[2] == said[2]
    assert abs(float(found[1]) - float(said[1])) <= 0.05  # rounding differs between machines
