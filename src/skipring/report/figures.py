"""Figures: the paper's theory figures, the trade-off between privacy and error, and simulations side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._writing import write_csv
from ..errors import InvalidInput
from ..experiments import SKIPS, TheoryCurve, longest_latency
from ..planning import FrontierPoint
from ..schedules import RandomRing, RandomWalk, Ring

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..simulation import Result

# Okabe and Ito's colours: told apart by colour-blind eyes, and of different lightness in print.
_COLOURS = ("#0072B2", "#E69F00", "#000000", "#009E73")
# All eight, those that stand out on white first.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
_DASHES = {Ring.name: "-", RandomRing.name: "--", RandomWalk.name: ":"}
# Where the axes of Figure 2 end in the paper.
_TOP_ERROR = {10: 1500.0, 500: 4000.0}
_TOP_EPSILON = {
    ("exponential", 10): 16.0,
    ("gamma", 10): 80.0,
    ("Lomax", 10): 16.0,
    ("exponential", 500): 8.0,
    ("Lomax", 500): 8.0,
}
_STYLE: Any = {
    "font.size": 9,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "legend.frameon": False,
    "lines.linewidth": 1.3,
    "lines.markersize": 5,
    "errorbar.capsize": 2,
    "svg.hashsalt": "skipring",
}
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<")
# Thin lines in yellow would be lost on white.
_LINE_COLOURS = (*PALETTE[:-1], "#666666", "#882255")


@contextmanager
def figure_in(paths: Sequence[Path], width: float, height: float) -> Iterator[Figure]:
    """Yield a figure in the style of all here, and write it to files whose names say the format.

    It belongs to no window: there is no global state, and no display.
    """
    import matplotlib  # loading matplotlib takes longer than most commands
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        for path in paths:
            check_writable(path)
            # No date: the same numbers give the same file.
            try:
                figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
            except OSError as error:
                raise InvalidInput.because("figure", path, f"cannot be written: {error.strerror}") from error


def look(number: int) -> dict[str, Any]:
    """Return colour, marker and dashes of the line with this number, other dashes when the colours begin again."""
    place, again = number % len(_LINE_COLOURS), number // len(_LINE_COLOURS)
    return {
        "color": _LINE_COLOURS[place],
        "marker": _MARKERS[place],
        "ls": ("-", "--", "-.", ":")[(number + again) % 4],
    }


def check_writable(path: Path) -> None:
    """Refuse a figure that could not be written, before the work for it is done."""
    if path.suffix not in (".png", ".svg", ".pdf"):
        raise InvalidInput("figure", path, "a name that ends in .png, .svg or .pdf")
    if path.is_dir():
        raise InvalidInput.because("figure", path, "is a folder")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput.because("figure", path, f"cannot be written: {error.strerror}") from error


def write_curves_csv(curves: Sequence[TheoryCurve], path: Path) -> None:
    """Write every point of every curve, a line each."""
    lines: list[list[object]] = [["law", "nodes", "schedule", "skip", "steps", "latency", "error_bound", "epsilon"]]
    for curve in curves:
        head = (curve.law, curve.nodes, curve.schedule, curve.skip)
        for row in zip(curve.steps, curve.latency, curve.error_bound, curve.epsilon, strict=True):
            lines.append([*head, int(row[0]), *(f"{value:.10g}" for value in row[1:])])
    write_csv(path, lines)


def draw_paper_figure(figure: int, curves: Sequence[TheoryCurve], paths: Sequence[Path]) -> None:
    """Draw Figure 2, 3 or 6 from its curves: a panel for each law of delays and number of nodes."""
    keys = list(dict.fromkeys((curve.law, curve.nodes) for curve in curves))
    rows, columns = (2, 3) if len(keys) > 1 else (1, 1)
    schedules = list(dict.fromkeys(curve.schedule for curve in curves))
    with figure_in(paths, *((11.0, 6.2) if len(keys) > 1 else (5.6, 4.2))) as drawing:
        for place, (law, nodes) in enumerate(keys):
            axes = drawing.add_subplot(rows, columns, place + 1)
            axes.set(title=f"{law} delays, {nodes} nodes")
            mine = [curve for curve in curves if (curve.law, curve.nodes) == (law, nodes)]
            {2: _figure2, 3: _figure3, 6: _figure6}[figure](axes, mine)
        axes = drawing.axes[0]
        handles = [axes.plot([], [], color=colour, lw=3)[0] for colour in _COLOURS[: len(SKIPS)]]
        handles += [axes.plot([], [], color="0.4", ls=_DASHES[name])[0] for name in schedules]
        labels = [*(f"p = {skip:g}" for skip in SKIPS), *schedules]
        drawing.legend(handles, labels, loc="outside lower center", ncols=len(labels) if len(keys) > 1 else len(SKIPS))


def _theory_look(curve: TheoryCurve) -> dict[str, Any]:
    return {"color": _COLOURS[SKIPS.index(curve.skip)], "ls": _DASHES[curve.schedule]}


def _figure2(left: Axes, curves: Sequence[TheoryCurve]) -> None:
    law, nodes = curves[0].law, curves[0].nodes
    right = left.twinx()
    for curve in curves:
        left.plot(curve.latency, curve.error_bound, lw=2.0, **_theory_look(curve))
        right.plot(curve.latency, curve.epsilon, lw=0.8, **_theory_look(curve))
    left.set(xlabel="average latency", ylabel="error bound (thick)")
    left.set(xlim=(0.0, longest_latency(law, nodes)), ylim=(0.0, _TOP_ERROR[nodes]))
    right.set(ylabel="epsilon (thin)", ylim=(0.0, _TOP_EPSILON.get((law, nodes))))
    right.grid(visible=False)


def _figure3(axes: Axes, curves: Sequence[TheoryCurve]) -> None:
    for curve in curves:
        axes.plot(curve.error_bound, curve.epsilon, **_theory_look(curve))
    axes.set(xlabel="error bound", xlim=(0.0, _TOP_ERROR[curves[0].nodes]))
    axes.set(ylabel="epsilon", ylim=(0.0, 16.0 if curves[0].nodes == 10 else 8.0))


def _figure6(axes: Axes, curves: Sequence[TheoryCurve]) -> None:
    for curve in curves:
        axes.plot(curve.latency, curve.epsilon, **_theory_look(curve))
    axes.set(xlabel="average latency", ylabel="epsilon", xlim=(0.0, 1000.0), ylim=(0.0, None))


def draw_frontier(points: Sequence[FrontierPoint], path: Path, *, title: str) -> None:
    """Draw the error bound against epsilon for each way to spend the budget."""
    with figure_in([path], 6.4, 4.4) as figure:
        axes = figure.add_subplot()
        names = dict.fromkeys(plan.name for point in points for plan in point.plans)
        modes = [name for name in names if name.startswith("ready ")]
        looks = {"paper's accounting": ("s", _COLOURS[1]), "never skip": ("^", _COLOURS[3])}
        looks |= {mode: ("D", colour) for mode, colour in zip(modes, (PALETTE[1], PALETTE[3]), strict=False)}
        for name in sorted(names, key=lambda name: name != "paper's accounting"):
            pairs = [(point.epsilon, plan.error_bound) for point in points for plan in point.plans if plan.name == name]
            marker, colour = looks.get(name, ("o", _COLOURS[0]))
            axes.plot(*zip(*pairs, strict=True), marker=marker, color=colour, label=name, lw=1.5)
        axes.set(xscale="log", yscale="log", xlabel="privacy budget epsilon", ylabel="error bound", title=title)
        axes.set_xticks([point.epsilon for point in points], [f"{point.epsilon:g}" for point in points])
        axes.minorticks_off()
        axes.legend()


def draw_comparison(results: Mapping[str, Result], path: Path, *, error: float) -> None:
    """Draw the test error of simulations against latency, with one standard deviation over runs as a band."""
    with figure_in([path], 6.8, 4.4) as figure:
        axes = figure.add_subplot()
        ends = [float(result.latency[:, -1].mean()) for result in results.values()]
        log_x = max(ends) > 4.0 * min(ends)
        # Before its first evaluation a run has nothing to show.
        left = min(float(result.latency[:, 1].min()) for result in results.values())
        for number, (name, result) in enumerate(results.items()):
            latency, mean, spread = result.on_latency_grid(first=left if log_x else None)
            shown = look(number)
            axes.plot(latency, mean, label=name, **shown | {"marker": ""})
            axes.fill_between(latency, mean - spread, mean + spread, color=shown["color"], alpha=0.15, lw=0.0)
        axes.axhline(error, color="0.5", lw=0.8, ls=":")
        axes.annotate(f"error {error:.3g}", (0.01, error), xycoords=("axes fraction", "data"), va="bottom")
        axes.set(xlabel="latency", ylabel="test error", xscale="log" if log_x else "linear")
        axes.set_xlim(left=left, right=None)
        axes.set_ylim(bottom=0.0)
        figure.legend(loc="outside lower center", ncols=2)
