"""Whether learning together is worth it: the table for a terminal, and the figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..experiments import Worth, WorthRow
from ..privacy import PROTECTED, RELATION, said
from .figures import figure_in
from .tables import plain_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.table import Table

#: How lines look: colour, marker, dashes.
_LOOKS = {
    "together": ("#0072B2", "o", "-"),
    "alone": ("#D55E00", "s", "--"),
    "pooled": ("#009E73", "^", "-."),
}


def worth_names(*, numbers: bool = False) -> dict[str, str]:
    """Return who is who, in words; of labels that are numbers the mean is guessed."""
    guessed = "mean" if numbers else "majority"
    return {
        "guess": f"guess the {guessed}",
        "own guess": f"each node's {guessed}",
        "alone": "each node alone",
        "together": "together",
        "pooled": "all rows in one place",
    }


def worth_table(found: Worth) -> Table:
    """Return one line for each case: medians over splits, and for errors the band that most of them lie in."""
    losses = any(row.log_loss is not None for row in found.rows)
    columns = ("mean over\nnodes", "10-90 %", *(("of all\nrows", "10-90 %") if found.own_rows else ()))
    right = ("epsilon", *columns, *(("log\nloss",) if losses else ()))
    table = plain_table("squared error" if found.numbers else "test error", right=right)
    names, last = worth_names(numbers=found.numbers), ""
    for row in found.rows:
        if last not in ("", row.who) and {last, row.who} != {"guess", "own guess"}:
            table.add_row()
        last = row.who
        bands = (row.mean_over_nodes, row.all_rows) if found.own_rows else (row.mean_over_nodes,)
        cells = [cell for band in bands for cell in (f"{band.median:.3f}", f"{band.low:.2f}-{band.high:.2f}")]
        cells += [] if row.log_loss is None else [f"{row.log_loss:.3f}"]
        table.add_row(names[row.who], _epsilon(row), *cells)
    return table


def _epsilon(row: WorthRow) -> str:
    if row.who in ("guess", "own guess"):
        return "-"
    return "no noise" if row.epsilon is None else f"{row.epsilon:g}"


def worth_notes(found: Worth) -> list[str]:
    """Say what the numbers rest on, and what no epsilon covers."""
    whom = (
        "a coalition of nodes that put together what they know" if found.laps else "another node that is always ready"
    )
    notes = [
        f"Median over {found.splits} splits, and what 10 % of them lie below and above."
        + (" Each node is tested on test rows of its own." if found.own_rows else "")
        + (" Log loss: mean over nodes." if found.rows[0].log_loss is not None else ""),
        f"Epsilon protects {PROTECTED[found.protects]} ({RELATION}) at delta {found.delta:g}. Together: promised,"
        f" against {whom}.",
        "Alone and in one place with noise: laps of one node, with the noise of a server that all trust, against all"
        " who see the model."
        if found.protects != "node"
        else "Alone and in one place with noise are left out: laps would protect rows, not nodes.",
        "Alone and in one place without noise: the model's loss is minimised to the end, with a ridge that is"
        " cross-validated on the rows it learns from. A node that keeps its model to itself needs no noise.",
        "Test rows were looked at, which no epsilon covers. Nothing else was searched: rates, lengths and clipping are"
        " the run file's, and others may do better.",
        "Each epsilon is that of one such run. None covers this table: many runs on the same rows, some without noise.",
    ]
    if found.large_delta is not None:
        notes.append(said(found.large_delta))
    if found.not_covered is not None:
        notes.append(said(found.not_covered))
    if found.same_test_rows:
        notes.append("The data set comes with its test rows: splits differ in what else is drawn, not in them.")
    if found.nobody_skipped:
        notes.append(
            'Nodes learn how long to wait (delay.timeout "adaptive"), which only a network shows: here nobody is'
            " skipped."
        )
    if found.made_up is not None:
        notes.append(
            "The rows are made up: they say what a run costs and how much noise it has, and nothing about real rows"
            " beyond that."
        )
    return notes


def draw_worth(found: Worth, paths: Sequence[Path], *, title: str) -> None:
    """Draw the error against epsilon, medians with bands over splits; what has no noise stands at the right end."""
    with figure_in(paths, 7.2, 4.8) as figure:
        axes = figure.add_subplot()
        names = worth_names(numbers=found.numbers)
        epsilons = sorted({row.epsilon for row in found.rows if row.epsilon is not None})
        # Places instead of a scale: epsilons are few, and "no noise" has one, too.
        place = {epsilon: float(number) for number, epsilon in enumerate([*epsilons, None])}
        for number, (who, (colour, marker, dashes)) in enumerate(_LOOKS.items()):
            mine = [row for row in found.rows if row.who == who]
            _line(axes, [row for row in mine if row.epsilon is not None], place, number, (colour, marker, dashes))
            _line(axes, [row for row in mine if row.epsilon is None], place, number, (colour, marker, ""), names[who])
        for who, dots in (("guess", (1, 2)), ("own guess", (5, 2, 1, 2))):
            row = found.row(who)
            if row is not None:
                level = row.mean_over_nodes.median
                axes.axhline(level, color="0.25", lw=1.1, ls=(0, dots), label=names[who])
        axes.set_xticks(list(place.values()), [*(f"{epsilon:g}" for epsilon in epsilons), "no noise"])
        protected = {"record": "each record", "person": "each person", "node": "all data of a node"}[found.protects]
        error = "squared error" if found.numbers else "test error"
        axes.set(
            title=title,
            xlabel=f"epsilon that protects {protected}, at delta {found.delta:g} (smaller protects more)",
            ylabel=f"{error}, mean over nodes",
            xlim=(-0.4, len(epsilons) + 0.4),
        )
        axes.set_ylim(bottom=0.0)
        axes.grid(visible=False, axis="x")
        figure.legend(loc="outside lower center", ncols=3, frameon=False)


def _line(
    axes: Axes,
    rows: Sequence[WorthRow],
    place: dict[float | None, float],
    number: int,
    look: tuple[str, str, str],
    name: str | None = None,
) -> None:
    """Draw some rows of one who, a little aside of the others, so that bars do not hide each other."""
    if not rows:
        return
    colour, marker, dashes = look
    bands = [row.mean_over_nodes for row in rows]
    axes.errorbar(
        [place[row.epsilon] + 0.07 * (number - 1) for row in rows],
        [band.median for band in bands],
        yerr=[[band.median - band.low for band in bands], [band.high - band.median for band in bands]],
        color=colour,
        marker=marker,
        ls=dashes,
        lw=2.0 if number == 0 else 1.3,
        ms=6,
        elinewidth=0.9,
        capsize=2.5,
        label=name,
    )
