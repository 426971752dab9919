"""Figures of simulations as the paper draws them: test error against average latency, with error bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._writing import write_csv
from .figures import figure_in, look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from ..experiments import EmpiricalCurve

#: Error bars on this many points of a curve: more would hide it.
_BARS = 9
#: Lines of a curve in a CSV file, at most.
_LINES = 121
_DASHES: tuple[Any, ...] = (
    *("-", "--", "-.", ":"),
    *((0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (1, 4)), (0, (6, 2, 1, 2, 1, 2))),
)
# By lightness, so that curves of different skip probabilities differ in greyscale, too.
_SKIP_COLOURS = {1e-4: "#0072B2", 0.5: "#E69F00", 0.7: "#000000"}
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


def _looks(curves: Sequence[EmpiricalCurve]) -> dict[float, dict[str, Any]]:
    """Return colour and marker of each skip probability."""
    skips = sorted({curve.skip for curve in curves})
    known = {skip: {"color": _SKIP_COLOURS[skip]} if skip in _SKIP_COLOURS else {} for skip in skips}
    return {skip: look(number) | {"ls": "-", "ms": 4} | known[skip] for number, skip in enumerate(skips)}


def _plot(axes: Axes, curve: EmpiricalCurve, looks: Mapping[str, Any], *, end: float) -> None:
    """Draw a curve up to a latency, with standard deviations both ways on some points, spread evenly."""
    shown = curve.latency <= end * 1.0001
    latency, error = curve.latency[shown], curve.error[shown]
    axes.plot(latency, error, **{**looks, "marker": ""})
    bars = _BARS if np.isinf(end) else max(2, round(_BARS * float(latency[-1]) / end))  # as densely on short curves
    wanted = np.linspace(0.0, latency[-1], bars + 1)[1:]
    some = np.unique(np.minimum(np.searchsorted(latency, wanted), len(latency) - 1))
    across, up = curve.latency_std[shown][some], curve.error_std[shown][some]
    axes.errorbar(latency[some], error[some], up, across, elinewidth=0.8, **{**looks, "ls": "none"})


def draw_law_panels(
    curves: Sequence[EmpiricalCurve], paths: Sequence[Path], *, title: str, until: Mapping[str, float]
) -> None:
    """Draw a row of Figure 4: a panel for each law of delays, a curve for each skip probability."""
    laws, looks = list(dict.fromkeys(curve.law for curve in curves)), _looks(curves)
    top = max(float((curve.error + curve.error_std).max()) for curve in curves)
    with figure_in(paths, 4.0 * len(laws), 3.6) as figure:
        for place, law in enumerate(laws):
            axes = figure.add_subplot(1, len(laws), place + 1)
            mine = [curve for curve in curves if curve.law == law]
            end = until.get(law, max(float(curve.latency[-1]) for curve in mine))
            for curve in mine:
                _plot(axes, curve, looks[curve.skip], end=end)
            axes.set(title=_TITLES.get(law, law), xlabel="average latency")
            axes.set(xlim=(0.0, end), ylim=(0.0, min(1.0, 1.05 * top)))
            axes.locator_params(axis="x", nbins=5)  # numbers of five digits touch each other otherwise
        figure.axes[0].set_ylabel("error rate on the test set")
        figure.suptitle(f"{title}; mean of {curves[0].runs} runs, bars: one standard deviation", fontsize=10)
        _legend(figure, looks, {})


def _legend(figure: Figure, looks: Mapping[float, dict[str, Any]], named: Mapping[str, Any]) -> None:
    """Name skip probabilities by their colours, and what else differs by its dashes, below all panels."""
    axes = figure.axes[0]
    entries = {f"p = {skip:g}": axes.plot([], [], **shown)[0] for skip, shown in looks.items()}
    entries |= {name: axes.plot([], [], color="0.4", ls=dashes)[0] for name, dashes in named.items()}
    figure.legend(list(entries.values()), list(entries), loc="outside lower center", ncols=4)


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
    with figure_in(paths, 11.0, 4.6) as figure:
        left, right = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
        names = dict.fromkeys(name(curve) for curve in curves)
        dashes = {key: _DASHES[number % len(_DASHES)] for number, key in enumerate(names)}
        looks = _looks(curves)
        for curve, epsilon in zip(curves, epsilons, strict=True):
            shown = looks[curve.skip] | {"ls": dashes[name(curve)]}
            _plot(left, curve, shown, end=until)
            right.plot(curve.latency, epsilon, **shown | {"marker": ""})
        left.set(ylabel="error rate on the test set", ylim=(0.0, 0.5))
        right.set(ylabel=epsilon_label, ylim=(0.0, top_epsilon))
        for axes in (left, right):
            axes.set(xlabel="average latency", xlim=(0.0, until))
        figure.suptitle(f"{title}; bars: one standard deviation over runs", fontsize=10)
        _legend(figure, looks, dashes)


def draw_lines(curves: Mapping[str, EmpiricalCurve], paths: Sequence[Path], *, title: str) -> None:
    """Draw test error against latency, on a logarithmic axis, for curves that are told apart by name."""
    with figure_in(paths, 8.6, 5.0) as figure:
        axes = figure.add_subplot()
        _lines(axes, curves)
        axes.set(title=title, ylabel="error rate on the test set")
        axes.set_ylim(bottom=0.0)
        figure.legend(loc="outside lower center", ncols=2)


def _lines(axes: Axes, curves: Mapping[str, EmpiricalCurve]) -> None:
    for number, (label, curve) in enumerate(curves.items()):
        axes.plot(curve.latency[1:], curve.error[1:], **look(number) | {"marker": ""})
        last = slice(-1, None)
        axes.errorbar(curve.latency[last], curve.error[last], curve.error_std[last], label=label, **look(number))
    axes.set(xlabel="average latency", xscale="log")


def draw_budgets(
    curves: Mapping[str, Sequence[EmpiricalCurve]], paths: Sequence[Path], *, title: str, shown: float
) -> None:
    """Draw test error against latency at about one epsilon, and its end against the epsilon of each curve."""
    epsilons = {name: [float(curve.values["epsilon"]) for curve in mine] for name, mine in curves.items()}
    near = {name: int(np.argmin(np.abs(np.log(np.array(mine) / shown)))) for name, mine in epsilons.items()}
    with figure_in(paths, 10.0, 4.8) as figure:
        left, right = figure.subplots(1, 2, sharey=True)
        _lines(left, {name: curves[name][place] for name, place in near.items()})
        for number, (name, mine) in enumerate(curves.items()):
            ends, spread = [curve.error[-1] for curve in mine], [curve.error_std[-1] for curve in mine]
            right.errorbar(epsilons[name], ends, spread, elinewidth=0.8, **look(number))
        left.set(title=f"on the way, at epsilon {shown:g}", ylabel="error rate on the test set", yscale="log")
        right.set(title="at the end", xlabel="epsilon", xscale="log")
        ticks = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
        for axis, some in (left.yaxis, ticks[:4]), (right.xaxis, ticks):
            axis.set_ticks(some, [f"{tick:g}" for tick in some])
            axis.set_ticks([], minor=True)
        figure.suptitle(f"{title}; bars: one standard deviation over runs", fontsize=10)
        figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2)


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
    with figure_in(paths, 6.4, 4.4) as figure:
        axes = figure.add_subplot()
        for number, (label, (x, mean, spread)) in enumerate(series.items()):
            axes.errorbar(x, mean, spread, elinewidth=0.8, label=label, **look(number))
        axes.set(title=title, xlabel=xlabel, ylabel=ylabel, xscale="log" if log_x else "linear")
        axes.set_ylim(bottom=bottom, top=top)
        axes.legend()
