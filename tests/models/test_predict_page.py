"""What docs/predict.md shows is what comes out."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "predict.md").read_text(encoding="utf-8")


def test_the_page_works_as_it_is_written(
    tmp_path: Path, skipring_words: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (shown,) = re.findall(r"^```console\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    first, second = re.findall(r"^\$ skipring (.*)$", shown, re.MULTILINE)
    assert skipring_words(*first.split()).code == 0
    said = skipring_words(*second.split())
    assert said.code == 0, said.err
    assert said.out in shown
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    capsys.readouterr()
    exec(compile(program, "page.py", "exec"), {})
    assert capsys.readouterr().out.splitlines()[0] == "sick [0.19 0.81]"
