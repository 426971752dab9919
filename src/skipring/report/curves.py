"""Figures of simulations as the paper draws them: test error against average latency, with error bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._writing import write_csv
from .figures import PALETTE, new_figure, save_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from ..experiments import EmpiricalCurve

#: Error bars on this many points of a curve: more would hide it.
_BARS = 9
#: Lines of a curve in a CSV file, at most.
_LINES = 121
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<")
_DASHES: tuple[Any, ...] = (
    "-",
    "--",
    "-.",
    ":",
    (0, (5, 1, 1, 1, 1, 1)),
    (0, (8, 2)),
    (0, (1, 4)),
    (0, (6, 2, 1, 2, 1, 2)),
)
# By lightness, so that curves of different skip probabilities differ in greyscale, too.
_SKIP_COLOURS = {1e-4: "#0072B2", 0.5: "#E69F00", 0.7: "#000000"}
# Thin lines in yellow would be lost on white.
_LINE_COLOURS = (*PALETTE[:-1], "#666666", "#882255")
_TITLES = {
    "exponential": "exponential (mean 1)",
    "gamma": "gamma (shape 1/4, scale 1)",
    "Lomax": "Pareto type II (shape 3, scale 2)",
}

_HEADS = ("noise_multiplier", "runs", "step", "updates", "latency", "latency_std", "test_error", "test_error_std")


def write_empirical_csv(
    curves: Sequence[EmpiricalCurve],
    path: Path,
    epsilons: Sequence[NDArray[Any]] | None = None,
    *,
    until: Mapping[str, float] | None = None,
) -> None:
    """Write the points of every curve, a line each; values that tell curves apart come first.

    Points beyond `until`, the end of the axis for a law of delays, and of very long curves some between are left out.
    """
    told = dict.fromkeys(key for curve in curves for key in curve.values)
    keys = [key for key in told if not key.startswith("simulation.") and key != "privacy.noise_multiplier"]
    lines: list[list[object]] = [["delay", *keys, *_HEADS, *(["epsilon"] if epsilons is not None else [])]]
    for place, curve in enumerate(curves):
        head = [curve.law, *(curve.values.get(key, "") for key in keys)]
        head += [f"{curve.noise_multiplier:.6g}", curve.runs]
        columns = [curve.updates, curve.latency, curve.latency_std, curve.error, curve.error_std]
        if epsilons is not None:
            columns.append(epsilons[place])
        last = curve.last((until or {}).get(curve.law, np.inf))
        for point in np.unique(np.linspace(0, last, _LINES).astype(np.int64)):
            lines.append([*head, int(curve.steps[point]), *(f"{column[point]:.6g}" for column in columns)])
    write_csv(path, lines)


def _plot(axes: Axes, curve: EmpiricalCurve, *, colour: str, marker: str, dashes: Any, label: str, end: float) -> None:
    """Draw a curve up to a latency, with standard deviations both ways on some points, spread evenly."""
    shown = curve.latency <= end * 1.0001
    latency, error = curve.latency[shown], curve.error[shown]
    axes.plot(latency, error, color=colour, ls=dashes, lw=1.3)
    bars = _BARS if np.isinf(end) else max(2, round(_BARS * float(latency[-1]) / end))  # as densely on short curves
    wanted = np.linspace(0.0, latency[-1], bars + 1)[1:]
    some = np.unique(np.minimum(np.searchsorted(latency, wanted), len(latency) - 1))
    axes.errorbar(
        latency[some],
        error[some],
        xerr=curve.latency_std[shown][some],
        yerr=curve.error_std[shown][some],
        color=colour,
        ls="none",
        marker=marker,
        ms=4,
        elinewidth=0.8,
        capsize=2,
    )
    axes.plot([], [], color=colour, ls=dashes, marker=marker, ms=4, lw=1.3, label=label)


def draw_law_panels(
    curves: Sequence[EmpiricalCurve], paths: Sequence[Path], *, title: str, until: Mapping[str, float]
) -> None:
    """Draw a row of Figure 4: a panel for each law of delays, a curve for each skip probability."""
    with style():
        laws = list(dict.fromkeys(curve.law for curve in curves))
        figure = new_figure(4.0 * len(laws), 3.6)
        top = max(float((curve.error + curve.error_std).max()) for curve in curves)
        for place, law in enumerate(laws):
            axes = figure.add_subplot(1, len(laws), place + 1)
            mine = [curve for curve in curves if curve.law == law]
            end = until.get(law, max(float(curve.latency[-1]) for curve in mine))
            for number, curve in enumerate(mine):
                colour = _SKIP_COLOURS.get(curve.skip, PALETTE[number % len(PALETTE)])
                marker = _MARKERS[number % len(_MARKERS)]
                _plot(axes, curve, colour=colour, marker=marker, dashes="-", label=f"p = {curve.skip:g}", end=end)
            axes.set(
                title=_TITLES.get(law, law), xlabel="average latency", xlim=(0.0, end), ylim=(0.0, min(1.0, 1.05 * top))
            )
            axes.locator_params(axis="x", nbins=5)  # numbers of five digits touch each other otherwise
            if place == 0:
                axes.set_ylabel("error rate on the test set")
        figure.suptitle(f"{title}; mean of {curves[0].runs} runs, bars: one standard deviation", fontsize=10)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
        save_figure(figure, paths)


def draw_rivals(
    curves: Sequence[EmpiricalCurve],
    epsilons: Sequence[NDArray[Any]],
    paths: Sequence[Path],
    *,
    title: str,
    name: Callable[[EmpiricalCurve], str],
    until: float,
    top_epsilon: float,
    epsilon_label: str,
) -> None:
    """Draw Figure 5: error and epsilon against latency; colours are skip probabilities, dashes are schedules."""
    with style():
        figure = new_figure(11.0, 4.6)
        left, right = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
        names = list(dict.fromkeys(name(curve) for curve in curves))
        looks = {key: _DASHES[number % len(_DASHES)] for number, key in enumerate(names)}
        skips = sorted({curve.skip for curve in curves})
        for curve, epsilon in zip(curves, epsilons, strict=True):
            number = skips.index(curve.skip)
            colour = _SKIP_COLOURS.get(curve.skip, PALETTE[number % len(PALETTE)])
            dashes = looks[name(curve)]
            _plot(left, curve, colour=colour, marker=_MARKERS[number], dashes=dashes, label="", end=until)
            right.plot(curve.latency, epsilon, color=colour, ls=dashes, lw=1.3)
        left.set(xlabel="average latency", ylabel="error rate on the test set", xlim=(0.0, until), ylim=(0.0, 0.5))
        right.set(xlabel="average latency", ylabel=epsilon_label, xlim=(0.0, until), ylim=(0.0, top_epsilon))
        handles = [
            left.plot(
                [], [], color=_SKIP_COLOURS.get(skip, PALETTE[i]), marker=_MARKERS[i], ms=4, label=f"p = {skip:g}"
            )
            for i, skip in enumerate(skips)
        ]
        handles += [left.plot([], [], color="0.4", ls=looks[key], label=key) for key in names]
        lines = [line for group in handles for line in group]
        figure.suptitle(f"{title}; bars: one standard deviation over runs", fontsize=10)
        figure.legend(handles=lines, loc="outside lower center", ncols=4, frameon=False)
        save_figure(figure, paths)


def draw_lines(curves: Mapping[str, EmpiricalCurve], paths: Sequence[Path], *, title: str) -> None:
    """Draw test error against latency, on a logarithmic axis, for curves that are told apart by name."""
    with style():
        figure = new_figure(8.6, 5.0)
        axes = figure.add_subplot()
        for number, (label, curve) in enumerate(curves.items()):
            colour, marker = _LINE_COLOURS[number % len(_LINE_COLOURS)], _MARKERS[number % len(_MARKERS)]
            # Other dashes when the colours begin again: no two curves look alike.
            dashes = _DASHES[(number + number // len(_LINE_COLOURS)) % 4]
            axes.plot(curve.latency[1:], curve.error[1:], color=colour, ls=dashes, lw=1.3)
            axes.errorbar(
                curve.latency[-1:],
                curve.error[-1:],
                yerr=curve.error_std[-1:],
                color=colour,
                marker=marker,
                ms=5,
                capsize=3,
                ls=dashes,
                label=label,
            )
        axes.set(title=title, xlabel="average latency", ylabel="error rate on the test set", xscale="log")
        axes.set_ylim(bottom=0.0)
        figure.legend(loc="outside lower center", ncols=2, frameon=False)
        save_figure(figure, paths)


def draw_series(
    series: Mapping[str, tuple[Sequence[float], Sequence[float], Sequence[float]]],
    paths: Sequence[Path],
    *,
    title: str,
    xlabel: str,
    ylabel: str,
    log_x: bool = False,
    bottom: float | None = 0.0,
    top: float | None = None,
) -> None:
    """Draw lines of values with one standard deviation as bars: name -> (x, mean, standard deviation)."""
    with style():
        figure = new_figure(6.4, 4.4)
        axes = figure.add_subplot()
        for number, (label, (x, mean, spread)) in enumerate(series.items()):
            axes.errorbar(
                x,
                mean,
                yerr=spread,
                color=PALETTE[number % len(PALETTE)],
                marker=_MARKERS[number % len(_MARKERS)],
                ls=("-", "--", "-.", ":")[number % 4],
                ms=5,
                lw=1.3,
                elinewidth=0.8,
                capsize=2,
                label=label,
            )
        axes.set(title=title, xlabel=xlabel, ylabel=ylabel, xscale="log" if log_x else "linear")
        axes.set_ylim(bottom=bottom, top=top)
        axes.legend(frameon=False)
        save_figure(figure, paths)
