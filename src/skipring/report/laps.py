"""Laps on real tables: what they lose to all rows in one place, as tables and as a figure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .._writing import write_csv
from ..experiments import LAPS_WHO, LapsRow, LapStudy
from ..planning import LAPS_CLOSE
from ..privacy import RELATION
from ..schedules import Laps
from .figures import PALETTE, figure_in
from .findings import Findings
from .tables import plain_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import RenderableType
    from rich.table import Table

#: The epsilon that is told of in words, if it is among those asked for.
_SHOWN = 1.0
#: Colour and dashes of each.
_LOOKS = {
    "own guess": ("0.5", ":"),
    "alone": (PALETTE[2], "--"),
    "walk": (PALETTE[1], "-"),
    Laps.name: (PALETTE[0], "-"),
    "pooled": ("0.2", "--"),
    "best": ("0.2", ":"),
}


def lap_findings(study: LapStudy, rows: Sequence[LapsRow]) -> Findings:
    """Return what came out of the study of laps on real tables."""
    title = f"{len(study.tables)} tables with sites, each record protected: medians over {study.runs} splits"
    verdict = _verdict(rows, _told(study))
    notes = (
        f"Protected is one record ({RELATION}) against the default coalition (laps: a fifth of the sites, one at least)"
        " or against another site (walk). Delta is 1e-4, or a tenth of one over the number of rows if that is less.",
        "All rows in one place: logistic regression without noise, with scikit-learn's usual ridge (C = 1), and with"
        " the best of five ridges by cross-validation. A site alone gets the better of that and a fixed ridge.",
        f"The walk is the random ring as it is by default, with the better of the rates {_listed(study.rates)}, by test"
        " rows. Laps are as they are by default; their few constants were found on other splits of these tables.",
    )
    return Findings(
        title=title,
        facts={"rows": [dataclasses.asdict(row) for row in rows], "verdict": verdict},
        tables=[verdict, *_tables(rows, _told(study))],
        notes=notes,
        draw=lambda paths: _draw(rows, study, paths, title=title),
        write=lambda path: _write(rows, path),
    )


def _listed(numbers: Sequence[float]) -> str:
    return " and ".join(f"{number:g}" for number in numbers)


def _told(study: LapStudy) -> float:
    return min(study.epsilons, key=lambda epsilon: abs(epsilon - _SHOWN))


def _verdict(rows: Sequence[LapsRow], epsilon: float) -> str:
    """Say what laps lose, and whether what is promised holds."""
    at = [row for row in rows if row.epsilon == epsilon]
    loss = {who: np.mean([row.excess[0] for row in at if row.who == who]) for who in (Laps.name, "walk")}
    promised = [row for row in rows if row.promised is not None]
    kept, best = (sum(row.excess[which] <= (row.promised or 0.0) for row in promised) for which in (0, 1))
    limits = ", ".join(f"{most:g} above {least:g}" for least, most in LAPS_CLOSE)
    return (
        f"At epsilon {epsilon:g} laps have a log loss {loss[Laps.name]:.3f} above that of all rows in one place, and"
        f" the walk {loss['walk']:.3f} (mean over tables). What rows x mu / columns promises (at most {limits}) holds"
        f" in {kept} of {len(promised)} cases, and in {best} if the ridge in one place is cross-validated."
    )


def _tables(rows: Sequence[LapsRow], epsilon: float) -> list[RenderableType]:
    means = plain_table("mean over tables", right=("epsilon", "log loss", "right (%)", "AUC (%)"))
    for key in dict.fromkeys((row.who, row.epsilon) for row in rows):
        mine = [(row.log_loss, row.accuracy, row.auc) for row in rows if (row.who, row.epsilon) == key]
        loss, right, auc = np.mean(mine, axis=0)
        means.add_row(LAPS_WHO[key[0]], _epsilon(key[1]), f"{loss:.3f}", f"{100 * right:.1f}", f"{100 * auc:.1f}")
    return ["", means, "", _each_table(rows, epsilon), ""]


def _epsilon(epsilon: float | None) -> str:
    return "-" if epsilon is None else f"{epsilon:g}"


def _each_table(rows: Sequence[LapsRow], epsilon: float) -> Table:
    """Return a line for each table: log losses at one epsilon, and what laps lose."""
    heads = ("sites", "N mu/d", "guess", "alone", "walk", Laps.name, "in one\nplace", "lost", "at\nmost")
    table = plain_table(f"log loss at\nepsilon {epsilon:g}", right=heads)
    for name in dict.fromkeys(row.table for row in rows):
        mine = {row.who: row for row in rows if row.table == name and row.epsilon in (None, epsilon)}
        laps = mine[Laps.name]
        losses = [f"{mine[who].log_loss:.3f}" for who in ("own guess", "alone", "walk", Laps.name, "pooled")]
        promised = "-" if laps.promised is None else f"{laps.promised:g}"
        table.add_row(name, str(laps.sites), f"{laps.strength:.0f}", *losses, f"{laps.excess[0]:.3f}", promised)
    return table


def _write(rows: Sequence[LapsRow], path: Path) -> list[Path]:
    """Write a line for each table, who and epsilon."""
    lines: list[Sequence[object]] = []
    for row in rows:
        values = dataclasses.asdict(row) | {"excess": row.excess[0], "excess_cross_validated": row.excess[1]}
        lines = lines or [list(values)]
        shown = (f"{value:.6g}" if isinstance(value, float) else value for value in values.values())
        lines.append(["" if value is None else value for value in shown])
    write_csv(path, lines)
    return [path]


def _draw(rows: Sequence[LapsRow], study: LapStudy, paths: Sequence[Path], *, title: str) -> None:
    """Draw the mean log loss against epsilon, and what each table loses against rows x mu / columns."""
    with figure_in(paths, 10.4, 5.2) as figure:
        _means(figure.add_subplot(1, 2, 1), rows, study)
        _losses(figure.add_subplot(1, 2, 2), rows)
        figure.suptitle(title, fontsize=10)


def _means(axes: Axes, rows: Sequence[LapsRow], study: LapStudy) -> None:
    for who, (colour, dashes) in _LOOKS.items():
        epsilons = study.epsilons if who in ("walk", Laps.name) else (None,)
        means = [
            float(np.mean([row.log_loss for row in rows if (row.who, row.epsilon) == (who, epsilon)]))
            for epsilon in epsilons
        ]
        if epsilons == (None,):
            axes.axhline(means[0], color=colour, ls=dashes, lw=1.2, label=LAPS_WHO[who])
        else:
            axes.plot(study.epsilons, means, color=colour, ls=dashes, marker="o", ms=5, label=LAPS_WHO[who])
    axes.set(xscale="log", xlabel="epsilon of a record (smaller protects more)", ylabel="log loss, mean over tables")
    axes.set_xticks(study.epsilons, [f"{epsilon:g}" for epsilon in study.epsilons])
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize=8)


def _losses(axes: Axes, rows: Sequence[LapsRow]) -> None:
    for who in ("walk", Laps.name):
        mine = [(row.strength, max(row.excess[0], 1e-3)) for row in rows if row.who == who]
        colour = _LOOKS[who][0]
        axes.plot(*zip(*mine, strict=True), ls="none", marker="o", ms=4, alpha=0.7, color=colour, label=LAPS_WHO[who])
    end = 1e4
    for least, most in LAPS_CLOSE:
        axes.plot([least, end], [most, most], color="0.2", lw=1.0, label=f"promised from {least:g} on: {most:g}")
        end = least
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="rows x mu / columns",
        ylabel="log loss above all rows in one place (0.001: or less)",
    )
    axes.legend(frameon=False, fontsize=8)
