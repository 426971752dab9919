"""The pieces of the page about simulations: style, tables, LaTeX and charts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any

from .._numbers import upper
from ..privacy import Histogram
from ..runs import toml_value
from ..simulation import Result
from .figures import PALETTE

#: More nodes than this are shown as a histogram: thinner bars cannot be told apart.
_MOST_BARS = 200
_BINS = 40
#: Pixels between a dashed line and its words.
_GAP = 6
#: What latency is measured in: a run file says how long nodes take in a unit of its own.
LATENCY = "latency, in the unit of the law of delays"

STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1000px; padding: 28px 24px 60px; background: #fff; color: #1c2024;
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 27px; line-height: 1.25; margin: 0 0 6px; }
h2 { font-size: 20px; margin: 40px 0 6px; padding-top: 14px; border-top: 1px solid #d8dde3; }
h3 { font-size: 14px; margin: 12px 0 0; overflow-wrap: anywhere; }
p { margin: 6px 0 10px; max-width: 780px; }
.quiet { color: #59636e; font-size: 13.5px; }
.named { padding-left: 16px; position: relative; }
.swatch { position: absolute; left: 0; top: 0.25em; width: 10px; height: 10px; border-radius: 2px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 12.5px; font-variant-numeric: tabular-nums; margin: 10px 0; width: 100%; }
th { text-align: left; font-weight: 600; vertical-align: bottom; border-bottom: 1.5px solid #1c2024; }
td { border-bottom: 1px solid #e6e9ed; vertical-align: top; }
th, td { padding: 4px 5px; }
td.number, th.number { text-align: right; }
td.number { white-space: nowrap; }
td.name:nth-child(2) { white-space: nowrap; }
td.name:first-child { overflow-wrap: anywhere; min-width: 120px; }
td.all { color: #59636e; }
.settings th, .settings td { overflow-wrap: anywhere; }
.settings td:first-child { white-space: nowrap; }
code, pre { font: 12px/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
pre { background: #f5f7f9; border: 1px solid #d8dde3; border-radius: 4px; padding: 12px; overflow-x: auto;
  user-select: all; }
summary { cursor: pointer; color: #0b5c94; }
ul { margin: 4px 0 10px; padding-left: 20px; }
.pair { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 6px 24px; }
.pair.alone { grid-template-columns: minmax(0, 1fr); }
@media (max-width: 700px) { .pair { grid-template-columns: minmax(0, 1fr); } }
@media print {
  body { padding: 0; font-size: 12px; }
  h2, h3 { break-after: avoid; }
  .chart, tr, .pair > div { break-inside: avoid; }
  .modebar { display: none; }
}
"""

# The chart library carries addresses of maps that are not used here; this forbids the browser to load anything at all.
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


def document(title: str, body: Sequence[str]) -> str:
    """Return a whole page; the title is text, the body is HTML."""
    head = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
    )
    return head + "\n".join(body) + "\n</body>\n</html>\n"


def colour(place: int) -> str:
    """Return the colour of the folder at this place, the same in all charts."""
    return PALETTE[place % len(PALETTE)]


def _dash(place: int) -> str:
    return ("solid", "dash", "dot")[place // len(PALETTE) % 3]


def _faded(place: int) -> str:
    red, green, blue = (int(colour(place)[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.16)"


def xy_layout(
    x: str, y: str, *, plot: int = 320, legend: int = 0, longest: int = 0, log_x: bool = False
) -> dict[str, Any]:
    """Return the layout that all charts share: `plot` pixels high, and below it room for the entries of a legend.

    `longest` is how many characters the longest entry has; there are as many columns as find room in the window.
    """
    axis = {"gridcolor": "#e6e9ed", "zeroline": False, "linecolor": "#59636e", "ticks": "outside"}
    top, bottom = (34 if legend else 30), 52 + 22 * -(-legend // 2)
    across = axis | {"title": {"text": x + (" (log scale)" if log_x else ""), "standoff": 8}}
    return {
        "height": top + plot + bottom,
        "margin": {"l": 62, "r": 14, "t": top, "b": bottom},
        "font": {"family": "system-ui, -apple-system, Segoe UI, Roboto, Arial, sans-serif", "size": 13},
        "paper_bgcolor": "#fff",
        "plot_bgcolor": "#fff",
        "hovermode": "closest",
        "showlegend": legend > 1,
        # Of a log axis only 1, 2 and 5 are written.
        "xaxis": across | ({"type": "log", "dtick": "D2"} if log_x else {}),
        "yaxis": axis | {"title": {"text": y}, "rangemode": "tozero"},
        "legend": {"orientation": "h", "x": 0, "y": -52 / plot, "yanchor": "top"}
        | {"entrywidth": 20 + 7 * longest, "entrywidthmode": "pixels"},
    }


def chart(name: str, data: Sequence[Mapping[str, Any]], layout: Mapping[str, Any], *, first: bool = False) -> str:
    """Return a chart as HTML; the first of a page brings the library along."""
    from plotly.io import to_html  # only where a page is made

    drawn = to_html(
        {"data": list(data), "layout": dict(layout)},
        config={
            "displaylogo": False,
            "responsive": True,
            # Small charts have no room for buttons.
            "displayModeBar": "hover" if layout["showlegend"] else False,
            "modeBarButtonsToRemove": ["select2d", "lasso2d"],
        },
        include_plotlyjs=first,
        full_html=False,
        validate=False,
        div_id=name,  # by default a random one: the same results give the same page
        default_height=f"{layout['height']}px",
    )
    return f'<div class="chart">{drawn}</div>'


def error_chart(results: Sequence[tuple[str, Result]], log_x: bool) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the chart of test error against latency, with one standard deviation over runs as a band."""
    traces: list[dict[str, Any]] = []
    # Before its first evaluation a run has nothing to show, and a log axis has no 0.
    left = min(float(result.latency[:, 1].min()) for _, result in results) if log_x else None
    for place, (name, result) in enumerate(results):
        latency, mean, spread = result.on_latency_grid(first=left)
        low, high = (mean - spread).clip(min=0.0), mean + spread
        shared = {"type": "scatter", "mode": "lines", "legendgroup": str(place)}
        band = {"fill": "toself", "fillcolor": _faded(place), "line": {"width": 0}, "hoverinfo": "skip"}
        outline = {"x": [*latency.tolist(), *latency[::-1].tolist()], "y": [*high.tolist(), *low[::-1].tolist()]}
        traces.append(shared | band | outline | {"showlegend": False})
        line = {"color": colour(place), "dash": _dash(place), "width": 2}
        traces.append(shared | {"x": latency.tolist(), "y": mean.tolist(), "name": escape(name), "line": line})
    entries, longest = len(results) if len(results) > 1 else 0, max(len(name) for name, _ in results)
    layout = xy_layout(LATENCY, "test error", log_x=log_x, legend=entries, longest=longest)
    if left is not None:
        right = max(float(result.latency[:, -1].mean()) for _, result in results)
        layout["xaxis"] |= {"range": [math.log10(left), math.log10(right)]}
    return traces, layout


def pair_chart(histogram: Histogram, promised: float | None, place: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the histogram of epsilon over all ordered pairs, with what was promised as a line."""
    edges, counts = histogram.edges, histogram.counts
    bars = {
        "type": "bar",
        "x": [0.5 * (low + high) for low, high in pairwise(edges)],
        "width": [high - low for low, high in pairwise(edges)],
        "y": list(counts),
        "marker": {"color": colour(place), "line": {"width": 0.5, "color": "#fff"}},
        "hovertemplate": "epsilon %{x:.3g}: %{y} pairs<extra></extra>",
    }
    layout = xy_layout("epsilon in this run", "ordered pairs", plot=200)
    shown = [edges[0], edges[-1], *([] if promised is None else [promised])]
    margin = 0.06 * (max(shown) - min(shown))
    layout["xaxis"] |= {"range": [min(shown) - margin, max(shown) + margin]}
    if promised is not None:
        layout |= _marked(
            "x", promised, f"promised {upper(promised, 3)}", left=2.0 * promised > min(shown) + max(shown)
        )
    return [bars], layout


def skip_chart(result: Result, place: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return how often each node was skipped: a bar for each, or a histogram where there are too many."""
    asked = result.offered.nonzero()[0]
    rates = result.skipped[asked] / result.offered[asked]
    mean = float(result.skipped.sum() / max(1, result.offered.sum()))
    if len(result.offered) > _MOST_BARS:
        many = {"type": "histogram", "x": rates.tolist(), "nbinsx": _BINS, "marker": {"color": colour(place)}}
        layout = xy_layout("share of its turns that a node was skipped", "nodes", plot=200)
        return [many], layout | _marked("x", mean, f"all nodes {mean:.3g}")
    order = rates.argsort(kind="stable")[::-1]
    bars = {
        "type": "bar",
        "x": list(range(1, len(order) + 1)),
        "y": rates[order].tolist(),
        "marker": {"color": colour(place)},
        "customdata": asked[order].tolist(),
        "hovertemplate": "node %{customdata}: %{y:.3f}<extra></extra>",
    }
    layout = xy_layout("nodes, most often skipped first", "share of turns skipped", plot=200)
    layout["bargap"] = 0.1
    return [bars], layout | _marked("y", mean, f"all nodes {mean:.3g}")


def _marked(axis: str, value: float, words: str, *, left: bool = False) -> dict[str, Any]:
    """Return a dashed line across a chart, with its words above the chart (left or right of it) or at the right end."""
    other = "y" if axis == "x" else "x"
    line: dict[str, Any] = {"type": "line", f"{axis}0": value, f"{axis}1": value, f"{other}0": 0, f"{other}1": 1}
    line |= {f"{other}ref": "paper", "line": {"dash": "dash", "width": 1.5, "color": "#000"}}
    note: dict[str, Any] = {axis: value, other: 1, f"{other}ref": "paper", "text": words, "showarrow": False}
    note |= {"xanchor": "left" if axis == "x" and not left else "right", "yanchor": "bottom"}
    note |= {"bgcolor": "rgba(255,255,255,0.8)", "font": {"size": 12}}
    # A little off the line: words that touch it are hard to read.
    note |= {"xshift": -_GAP if left else _GAP} if axis == "x" else {"yshift": _GAP // 2}
    return {"shapes": [line], "annotations": [note]}


def columns_table(first: str, heads: Sequence[str], columns: Sequence[Mapping[str, object]]) -> str:
    """Return values by name, a column for each folder; what all share is said once. Heads and names are HTML."""
    rows = []
    for key in dict.fromkeys(key for values in columns for key in values):
        cells = [escape(str(values.get(key, "-"))) for values in columns]
        if len(cells) > 1 and len(set(cells)) == 1:
            shown = f'<td class="all" colspan="{len(cells)}">{cells[0]}</td>'
        else:
            shown = "".join(f"<td>{cell}</td>" for cell in cells)
        rows.append(f"<tr><td>{key}</td>{shown}</tr>")
    top = "".join(f"<th>{head}</th>" for head in (first, *heads))
    table = f'<table class="settings"><thead><tr>{top}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    return f'<div class="scroll">{table}</div>'


def settings_table(heads: Sequence[str], settings: Sequence[Mapping[str, Any]]) -> str:
    """Return all settings, a column for each folder."""
    listed = [{f"<code>{escape(key)}</code>": text for key, text in _flat(each).items()} for each in settings]
    return columns_table("setting", heads, listed)


def differing_settings(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say of each of several settings what sets it apart from the others; nothing if they are all the same.

    >>> differing_settings([{"delay": {"skip": 0.1}, "data": {"nodes": 5}}, {"delay": {"skip": 0.5}}])
    ['skip 0.1, nodes 5', 'skip 0.5, nodes -']
    """
    listed = [_flat(each) for each in settings]
    keys = dict.fromkeys(key for values in listed for key in values)
    differing = [key for key in keys if len({values.get(key, "-") for values in listed}) > 1]
    last = [key.rpartition(".")[2] for key in differing]
    words = [key if last.count(short) > 1 else short for key, short in zip(differing, last, strict=True)]
    return [
        ", ".join(f"{word} {values.get(key, '-')}" for word, key in zip(words, differing, strict=True))
        for values in listed
    ]


def _flat(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return all settings that have a value, as section.key and text."""
    found: dict[str, str] = {}
    for section, values in settings.items():
        by_key = _by_name(values) if isinstance(values, Sequence) else values or {}
        found |= {f"{section}.{key}": _text(value) for key, value in by_key.items() if value not in (None, [])}
    return found


def _by_name(columns: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return what a schema says of each column, as its file has it."""
    said = {}
    for number, column in enumerate(columns, start=1):
        keys = {key: value for key, value in column.items() if key != "name" and value not in (None, False, [])}
        said[str(column.get("name", number))] = ", ".join(f"{key} = {toml_value(each)}" for key, each in keys.items())
    return said


def _text(value: Any) -> str:
    """Return a value as a run file has it, without quotes around words; of a long list the first few."""
    if isinstance(value, list) and len(value) > 6:
        return f"{toml_value(value[:3])} ... ({len(value)} values)"
    return value if isinstance(value, str) else toml_value(value)
