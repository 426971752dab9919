"""The numbers of finished simulations as a table: a row for each, as text and for LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._numbers import number, upper

if TYPE_CHECKING:
    from .result import Result, Spread

#: The columns of the table and their heads; delta is said beside it.
COLUMNS = {
    "name": "name",
    "schedule": "schedule",
    "protects": "protects",
    "timeout": "timeout",
    "skip_rate": "skip rate",
    "noise_multiplier": "noise multiplier",
    "epsilon_in_this_run": "epsilon in this run, worst",
    "epsilon_promised": "epsilon promised",
    "epsilon_paper": "epsilon paper",
    "test_error": "test error",
    "latency": "latency",
    "updates": "updates",
}
#: How many of the first columns are words.
WORDS = 3


@dataclass(frozen=True, kw_only=True)
class ResultRow:
    """The numbers of one simulation at its end; an epsilon is None where there is none."""

    name: str
    schedule: str
    protects: str
    timeout: float
    skip_rate: float
    noise_multiplier: float
    epsilon_promised: float | None
    epsilon_paper: float | None
    epsilon_in_this_run: float | None
    test_error: Spread
    latency: float
    updates: float
    delta: float
    paper_trusted: bool | None = None

    def cells(self) -> list[str]:
        """Return the row as people read it, a text for each column."""
        return [self._cell(key) for key in COLUMNS]

    def _cell(self, key: str) -> str:
        value: Any = getattr(self, key)
        if value is None:
            return "-"
        if key == "test_error":
            return f"{number(value.mean)} ± {value.std:.2g}"
        if key == "epsilon_paper" and not self.paper_trusted:
            return f"{upper(value)} (not proven)"
        if key.startswith("epsilon_"):
            return upper(value)
        return value if isinstance(value, str) else number(value)


def result_row(name: str, result: Result) -> ResultRow:
    """Return the row of a simulation, under a name of its own."""
    summary, privacy = result.summary(), result.privacy
    return ResultRow(
        name=name,
        schedule=result.schedule,
        protects="-" if privacy.refused is not None else privacy.promised.protects,
        timeout=result.resolved.timeout,
        skip_rate=summary.skip_rate,
        noise_multiplier=result.resolved.noise_multiplier,
        epsilon_promised=privacy.epsilon,
        epsilon_paper=None if privacy.paper is None else privacy.paper.epsilon,
        epsilon_in_this_run=None if privacy.in_this_run is None else privacy.in_this_run.worst,
        test_error=summary.test_error,
        latency=summary.latency.mean,
        updates=summary.updates.mean,
        delta=privacy.delta,
        paper_trusted=None if privacy.paper is None or privacy.paper.epsilon is None else privacy.paper.doubt is None,
    )


def latex_rows(rows: Sequence[ResultRow]) -> str:
    """Return the table of some simulations for a LaTeX document."""
    return latex_table(list(COLUMNS.values()), [row.cells() for row in rows], WORDS)


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "infinity": r"$\infty$",
    **{sign: "\\" + sign for sign in "&%$#_{}"},
}


def latex_table(head: Sequence[str], rows: Sequence[Sequence[str]], words: int) -> str:
    """Return a table for a LaTeX document that uses booktabs; the first columns are words, the others numbers."""
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{tabular}{" + "l" * words + "r" * (len(head) - words) + "}",
        r"\toprule",
        *(" & ".join(map(_latex, row)) + r" \\" for row in [head]),
        r"\midrule",
        *(" & ".join(map(_latex, row)) + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines)


def _latex(cell: str) -> str:
    if cell in _LATEX:  # a whole word, such as infinity
        return _LATEX[cell]
    return "".join(_LATEX.get(sign, sign) for sign in cell)
