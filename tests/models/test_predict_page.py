"""What docs/predict.md shows is what comes out, up to the noise, which no two models share."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

#: Of the figures, those of the rows and of guesses do not depend on the model; nor do its epsilons.
_NOISY = re.compile(r"^(accuracy|log loss) .*$", re.MULTILINE)
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
    assert _NOISY.sub("", said.out) in _NOISY.sub("", shown)
    assert len(_NOISY.findall(said.out)) == 2
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    capsys.readouterr()
    exec(compile(program, "page.py", "exec"), {})
    word, *chances = re.findall(r"[a-z]+|[0-9.]+", capsys.readouterr().out.splitlines()[0])
    assert word == "sick"
    assert float(chances[1]) == pytest.approx(0.78, abs=0.15)  # eight deviations of it
