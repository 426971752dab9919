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
    "svg.hashsalt": "skipring",
}


@contextmanager
def style() -> Iterator[None]:
    """Draw in the style of all figures here."""
    import matplotlib  # loading matplotlib takes longer than most commands

    with matplotlib.rc_context(_STYLE):
        yield


def new_figure(width: float, height: float) -> Figure:
    """Return a figure that belongs to no window (no global state, no display)."""
    from matplotlib.figure import Figure  # loading matplotlib takes longer than most commands

    return Figure(figsize=(width, height), layout="constrained")


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


def save_figure(figure: Figure, paths: Sequence[Path]) -> None:
    """Write a figure to files whose names say the format; the same numbers give the same bytes."""
    for path in paths:
        check_writable(path)
        # No date: the same numbers give the same file.
        try:
            figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
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
    """Draw Figure 2, 3 or 6 from its curves."""
    with style():
        save_figure({2: _figure2, 3: _figure3, 6: _figure6}[figure](curves), paths)


def _panels(curves: Sequence[TheoryCurve]) -> list[tuple[str, int, list[TheoryCurve]]]:
    keys = list(dict.fromkeys((curve.law, curve.nodes) for curve in curves))
    return [(law, n, [c for c in curves if (c.law, c.nodes) == (law, n)]) for law, n in keys]


def _legend(figure: Figure, axes: Axes, schedules: Sequence[str]) -> None:
    """One legend below all panels: colours are skip probabilities, dashes are schedules."""
    handles = [axes.plot([], [], color=_COLOURS[i], lw=3, label=f"p = {skip:g}")[0] for i, skip in enumerate(SKIPS)]
    columns = len(SKIPS) + len(schedules) if figure.get_figwidth() > 8.0 else len(SKIPS)
    handles += [axes.plot([], [], color="0.4", ls=_DASHES[name], label=name)[0] for name in schedules]
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=columns,
        frameon=False,
    )


def _figure2(curves: Sequence[TheoryCurve]) -> Figure:
    figure = new_figure(11.0, 6.2)
    for i, (law, nodes, panel) in enumerate(_panels(curves)):
        left = figure.add_subplot(2, 3, i + 1)
        right = left.twinx()
        for curve in panel:
            colour, dashes = _COLOURS[SKIPS.index(curve.skip)], _DASHES[curve.schedule]
            left.plot(curve.latency, curve.error_bound, color=colour, ls=dashes, lw=2.0)
            right.plot(curve.latency, curve.epsilon, color=colour, ls=dashes, lw=0.8)
        left.set(
            title=f"{law} delays, {nodes} nodes",
            xlabel="average latency",
            ylabel="error bound (thick)",
            xlim=(0.0, longest_latency(law, nodes)),
            ylim=(0.0, _TOP_ERROR[nodes]),
        )
        right.set(ylabel="epsilon (thin)", ylim=(0.0, _TOP_EPSILON.get((law, nodes))))
        right.grid(visible=False)
    _legend(figure, figure.axes[0], (Ring.name, RandomRing.name))
    return figure


def _figure3(curves: Sequence[TheoryCurve]) -> Figure:
    figure = new_figure(11.0, 6.2)
    for i, (law, nodes, panel) in enumerate(_panels(curves)):
        axes = figure.add_subplot(2, 3, i + 1)
        for curve in panel:
            axes.plot(
                curve.error_bound,
                curve.epsilon,
                color=_COLOURS[SKIPS.index(curve.skip)],
                ls=_DASHES[curve.schedule],
                lw=1.3,
            )
        axes.set(
            title=f"{law} delays, {nodes} nodes",
            xlabel="error bound",
            ylabel="epsilon",
            xlim=(0.0, _TOP_ERROR[nodes]),
            ylim=(0.0, 16.0 if nodes == 10 else 8.0),
        )
    _legend(figure, figure.axes[0], (Ring.name, RandomRing.name))
    return figure


def _figure6(curves: Sequence[TheoryCurve]) -> Figure:
    figure = new_figure(5.6, 4.2)
    axes = figure.add_subplot()
    for curve in curves:
        axes.plot(
            curve.latency, curve.epsilon, color=_COLOURS[SKIPS.index(curve.skip)], ls=_DASHES[curve.schedule], lw=1.3
        )
    axes.set(
        title="gamma delays, 100 nodes",
        xlabel="average latency",
        ylabel="epsilon",
        xlim=(0.0, 1000.0),
        ylim=(0.0, None),
    )
    _legend(figure, axes, (RandomRing.name, RandomWalk.name))
    return figure


def draw_frontier(points: Sequence[FrontierPoint], path: Path, *, title: str) -> None:
    """Draw the error bound against epsilon for each way to spend the budget."""
    with style():
        figure = new_figure(6.4, 4.4)
        axes = figure.add_subplot()
        markers = {"paper's accounting": ("s", _COLOURS[1]), "never skip": ("^", _COLOURS[3])}
        markers |= {f"ready {mode}": ("D", PALETTE[(1, 3)[i]]) for i, mode in enumerate(_modes(points))}
        names = dict.fromkeys(plan.name for point in points for plan in point.plans)
        for name in sorted(names, key=lambda name: name != "paper's accounting"):
            pairs = [(point.epsilon, plan.error_bound) for point in points for plan in point.plans if plan.name == name]
            marker, colour = markers.get(name, ("o", _COLOURS[0]))
            axes.plot(*zip(*pairs, strict=True), marker=marker, ms=5, color=colour, label=name, lw=1.5)
        axes.set(xscale="log", yscale="log", xlabel="privacy budget epsilon", ylabel="error bound", title=title)
        axes.set_xticks([point.epsilon for point in points], [f"{point.epsilon:g}" for point in points])
        axes.minorticks_off()
        axes.legend(frameon=False)
        save_figure(figure, [path])


def _modes(points: Sequence[FrontierPoint]) -> list[str]:
    """Return the kinds of readiness that are drawn beside the plan's own."""
    names = dict.fromkeys(plan.name for point in points for plan in point.plans)
    return [name.removeprefix("ready ") for name in names if name.startswith("ready ")]


def draw_comparison(results: Mapping[str, Result], path: Path, *, error: float) -> None:
    """Draw the test error of simulations against latency, with one standard deviation over runs as a band."""
    with style():
        figure = new_figure(6.8, 4.4)
        axes = figure.add_subplot()
        ends = [float(result.latency[:, -1].mean()) for result in results.values()]
        log_x = max(ends) > 4.0 * min(ends)
        # Before its first evaluation a run has nothing to show.
        left = min(float(result.latency[:, 1].min()) for result in results.values())
        for i, (name, result) in enumerate(results.items()):
            latency, mean, spread = result.on_latency_grid(first=left if log_x else None)
            colour, dashes = PALETTE[i % len(PALETTE)], ("-", "--", ":", "-.")[i // len(PALETTE) % 4]
            axes.plot(latency, mean, color=colour, ls=dashes, lw=1.5, label=name)
            axes.fill_between(latency, mean - spread, mean + spread, color=colour, alpha=0.15, lw=0.0)
        axes.axhline(error, color="0.5", lw=0.8, ls=":")
        axes.annotate(f"error {error:.3g}", (0.01, error), xycoords=("axes fraction", "data"), va="bottom")
        axes.set(xlabel="latency", ylabel="test error", xscale="log" if log_x else "linear")
        axes.set_xlim(left=left, right=None)
        axes.set_ylim(bottom=0.0)
        figure.legend(loc="outside lower center", ncols=2, frameon=False)
        save_figure(figure, [path])
