"""Late nodes as they were measured: `skipring paper beyond traces`."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING

from .._numbers import number, upper
from ..errors import InvalidInput
from ._output import print_json
from ._work import counted_runs

if TYPE_CHECKING:
    from ..experiments import TraceCurve

_NOTES = (
    "Timeouts are Lemma 2's for the times after which the trace's nodes answer. Updates: those of a node in a run, on"
    " average over the quarter of nodes with the fewest, and the most.",
    "Epsilon (of a record, replace-one, delta 1e-6) is the realised one of the first run: of the pair of nodes that"
    " tells most, or of what the server learns about its busiest node. No forecast covers a trace.",
)


def traces(*, quick: bool, out: Path, folder: Path | None, runs: int | None, as_json: bool) -> None:
    """Carry the study out, draw it, and print what came out."""
    from ..experiments import TRACE_DELTA, TRACE_NOISE, TraceStudy, trace_study
    from ..report import draw_traces, write_traces_csv

    study = TraceStudy.quick() if quick else TraceStudy()
    if runs is not None:
        study = dataclasses.replace(study, runs=runs)
    if folder is None:
        stored = os.environ.get("SKIPRING_DATA", "")
        if not stored:
            raise InvalidInput.because("traces", "missing", "say in which folder the files of traces are")
        folder = Path(stored) / "traces"
    with counted_runs(study.pieces, "nothing is kept; begin anew") as (stop, progress):
        curves = trace_study(folder, study, stop=stop, progress=progress)
    title = f"{study.data}, {study.rounds} turns per node, noise multiplier {TRACE_NOISE:g} for each record"
    files = [out / f"traces{'-quick' if quick else ''}.{suffix}" for suffix in ("png", "svg", "csv")]
    draw_traces(curves, files[:2], title=title)
    write_traces_csv(curves, files[2])
    if as_json:
        rows = [_row(curve) for curve in curves]
        print_json(
            {"name": "traces", "delta": TRACE_DELTA, "runs": study.runs, "rows": rows, "notes": _NOTES}
            | {"files": [str(file) for file in files]}
        )
        return
    _show(title, curves)
    for file in files:
        print(f"  {file}")


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


def _show(title: str, curves: list[TraceCurve]) -> None:
    from rich.console import Console  # only where a table is shown
    from rich.table import Table

    from ..experiments import TRACE_PANELS

    console = Console(highlight=False)
    console.print(title)
    for panel, words in TRACE_PANELS.items():
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column(words)
        for head in ("timeout", "seconds", "updates", "error", "epsilon"):
            table.add_column(head, justify="right")
        for curve in (each for each in curves if each.panel == panel):
            table.add_row(
                curve.case,
                number(curve.timeout),
                number(float(curve.latency[-1])),
                f"{curve.fewest:.1f} / {curve.most:.1f}",
                f"{100 * curve.error[-1]:.1f} ± {100 * curve.error_std[-1]:.1f} %",
                upper(float(curve.epsilon[-1]), 3),
            )
        console.print(table)
        console.print()
    for note in _NOTES:
        console.print(note)
