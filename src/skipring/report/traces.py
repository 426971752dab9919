"""Real traces: error and epsilon against time, as a figure and as a table of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._numbers import number, upper
from .._writing import write_csv
from ..experiments import TRACE_CASES, TRACE_DELTA, TRACE_NOISE, TRACE_PANELS, TraceCurve, TraceStudy
from ..privacy import RELATION
from .figures import PALETTE, figure_in
from .findings import Findings
from .tables import plain_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import RenderableType

_HEADS = ("panel", "case", "timeout", "step", "updates", "latency", "test_error", "test_error_std", "epsilon")
_MARKERS = ("v", "o", "s", "^", "D", "X")
_DASHES = (":", "-", "--", "-.", (0, (5, 1)), (0, (1, 1)))


_NOTES = (
    "Timeouts are Lemma 2's for the times after which the trace's nodes answer. Updates: those of a node in a run, on"
    " average over the quarter of nodes with the fewest, and the most.",
    f"Epsilon (of a record, {RELATION}, delta 1e-6) is that of the first run. It is of the pair of nodes"
    " that tells most, or of what the server learns about its busiest node. Nothing is promised for a trace.",
)


def trace_findings(study: TraceStudy, curves: Sequence[TraceCurve]) -> Findings:
    """Return what came out of the study of real traces."""
    title = f"{study.data}, {study.rounds} turns per node, noise multiplier {TRACE_NOISE:g} for each record"
    return Findings(
        title=title,
        facts={"delta": TRACE_DELTA, "runs": study.runs, "rows": [_row(curve) for curve in curves]},
        tables=_tables(curves),
        notes=_NOTES,
        draw=lambda paths: _draw_all(curves, paths, title=title),
        write=lambda path: _write(curves, path),
    )


def _row(curve: TraceCurve) -> dict[str, str | float]:
    return {
        "panel": curve.panel,
        "case": curve.case,
        "timeout": curve.timeout,
        "time": float(curve.latency[-1]),
        "updates": float(curve.updates[-1]),
        "updates_fewest": curve.fewest,
        "updates_most": curve.most,
        "passed_on": curve.passed_on,
        "test_error": float(curve.error[-1]),
        "test_error_std": float(curve.error_std[-1]),
        "epsilon": float(curve.epsilon[-1]),
    }


def _tables(curves: Sequence[TraceCurve]) -> list[RenderableType]:
    tables: list[RenderableType] = []
    for panel, words in TRACE_PANELS.items():
        table = plain_table(words, right=("timeout", "seconds", "updates", "error", "epsilon"))
        for curve in (each for each in curves if each.panel == panel):
            table.add_row(
                curve.case,
                number(curve.timeout),
                number(float(curve.latency[-1])),
                f"{curve.fewest:.1f} / {curve.most:.1f}",
                f"{100 * curve.error[-1]:.1f} ± {100 * curve.error_std[-1]:.1f} %",
                upper(float(curve.epsilon[-1]), 3),
            )
        tables += [table, ""]
    return tables


def _write(curves: Sequence[TraceCurve], path: Path) -> list[Path]:
    """Write a line for each point of each curve; epsilon where it was computed."""
    lines: list[Sequence[object]] = [_HEADS]
    for curve in curves:
        numbers = zip(
            curve.steps, curve.updates, curve.latency, curve.error, curve.error_std, curve.epsilon, strict=True
        )
        for step, *values in numbers:
            shown = ["" if np.isnan(value) else f"{value:.6g}" for value in values]
            lines.append([curve.panel, curve.case, f"{curve.timeout:.6g}", int(step), *shown])
    write_csv(path, lines)
    return [path]


def _draw_all(curves: Sequence[TraceCurve], paths: Sequence[Path], *, title: str) -> None:
    """Draw a column for each trace: error above, and below it epsilon in this run, against time."""
    with figure_in(paths, 11.5, 6.6) as figure:
        figure.suptitle(title)
        for column, (panel, words) in enumerate(TRACE_PANELS.items()):
            upper, lower = (figure.add_subplot(2, len(TRACE_PANELS), 1 + column + 3 * row) for row in (0, 1))
            for curve in (each for each in curves if each.panel == panel):
                _draw(upper, lower, curve)
            upper.set(title=words)
            lower.set(xlabel="seconds")
            for axes in (upper, lower):
                axes.set(xscale="log")
                axes.set_ylim(bottom=0.0)
            lower.sharex(upper)
            if column == 0:
                upper.set_ylabel("error rate on the test set")
                lower.set_ylabel("epsilon, worst pair (server: any node)")
        shown = figure.axes[0].get_legend_handles_labels()
        figure.legend(*shown, loc="outside lower center", ncols=len(TRACE_CASES))


def _draw(upper: Axes, lower: Axes, curve: TraceCurve) -> None:
    place, last = TRACE_CASES.index(curve.case), slice(-1, None)
    look: dict[str, Any] = {"color": PALETTE[(6, 0, 4, 1, 2, 3)[place]], "ls": _DASHES[place]}
    upper.plot(curve.latency[1:], curve.error[1:], **look)
    look["marker"] = _MARKERS[place]
    upper.errorbar(curve.latency[last], curve.error[last], curve.error_std[last], label=curve.case, **look)
    known = np.flatnonzero(~np.isnan(curve.epsilon))[1:]
    lower.plot(curve.latency[known], curve.epsilon[known], ms=3, **look)
