"""One self-contained page about simulations: made from their folders, read in any browser, without a network."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from .._numbers import number
from ..errors import InvalidInput
from ..privacy import PaperBound, forecast
from ..runs import RunFile
from ..schedules import RIVALS, SCHEDULES
from ..simulation import COLUMNS, WORDS, Result, ResultRow, latex_rows, result_row
from .page_parts import (
    LATENCY,
    chart,
    colour,
    columns_table,
    differing_settings,
    document,
    error_chart,
    pair_chart,
    settings_table,
    skip_chart,
    xy_layout,
)
from .result import privacy_rows, result_notes

#: How often epsilon is computed along a run.
_MOMENTS = 8
#: What the folder of a sweep's cell is called.
CELL_KEY = re.compile(r"[0-9a-f]{16}")


_Chart = tuple[list[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Folder:
    """A finished simulation, and the name it has on the page."""

    name: str
    result: Result


def load_folders(paths: Sequence[Path]) -> list[Folder]:
    """Read result folders; each is called by its own name, or by its path where two have the same name.

    The cells of a sweep, whose folders have keys for names, are called by the settings in which they differ.
    """
    own = [path.resolve().name for path in paths]
    names = [name if own.count(name) == 1 else str(path) for path, name in zip(paths, own, strict=True)]
    results = []
    for path in paths:
        try:
            results.append(Result.load(path))
        except InvalidInput as problem:
            raise InvalidInput.because("DIR", path, problem.reason) from None
    cells = [place for place, name in enumerate(own) if CELL_KEY.fullmatch(name)]
    called = differing_settings([results[place].settings for place in cells])
    for place, words in zip(cells, called, strict=True):
        if words and called.count(words) == 1:
            names[place] = words
    return [Folder(name, result) for name, result in zip(names, results, strict=True)]


def row_of(folder: Folder) -> ResultRow:
    """Return the numbers of a folder, as in the page's table."""
    return result_row(folder.name, folder.result)


def report_page(folders: Sequence[Folder]) -> str:
    """Return the page as HTML, with everything it needs inside."""
    title = f"{len(folders)} simulations side by side" if len(folders) > 1 else _what_was_run(folders[0].result)
    return document(
        f"skipring: {title}",
        [
            f"<h1>{escape(title)}</h1>",
            f"<p>{_verdict(folders)}</p>",
            f'<p class="quiet">Data: {escape(_each(folders, lambda r: r.data_words))}.</p>',
            *_numbers(folders),
            *_error(folders),
            *_privacy(folders),
            *_pairs(folders),
            *_skips(folders),
            *_settings(folders),
        ],
    )


def _what_was_run(result: Result) -> str:
    """Return the title of a page about one simulation: its folder's name may say nothing."""
    data = Path(result.data).name or result.data
    return f"{data}: {result.resolved.model}, {result.resolved.nodes} nodes, {result.schedule}"


def _named(folders: Sequence[Folder], place: int) -> str:
    swatch = f'<span class="swatch" style="background:{colour(place)}"></span>'
    return f'<span class="named">{swatch}{escape(folders[place].name)}</span>'


def _verdict(folders: Sequence[Folder]) -> str:
    """Say in two sentences which folder ends best, and which is quickest to come near it."""
    final = [float(folder.result.test_error[:, -1].mean()) for folder in folders]
    best = int(np.argmin(final))
    row = row_of(folders[best])
    cells = dict(zip(COLUMNS, row.cells(), strict=True))
    words = (
        f"The {'lowest ' if len(folders) > 1 else ''}final test error is <b>{cells['test_error']}</b>"
        + (f" ({_named(folders, best)})" if len(folders) > 1 else "")
        + f", after a latency of {cells['latency']} and {cells['updates']} updates."
    )
    if len(folders) == 1:
        return words
    times = [folder.result.time_to_error(1.1 * final[best]) for folder in folders]
    quickest = int(np.argmin(times))
    first = f"{_named(folders, quickest)}, at latency {number(times[quickest])}"
    return f"{words} Quickest to come within 10 % of that error: {first}."


def _numbers(folders: Sequence[Folder]) -> list[str]:
    rows = [row_of(folder) for folder in folders]
    kinds = ["name" if place < WORDS else "number" for place in range(len(COLUMNS))]
    heads = "".join(f'<th class="{kind}">{head}</th>' for kind, head in zip(kinds, COLUMNS.values(), strict=True))
    lines = []
    for place, row in enumerate(rows):
        shown = [_named(folders, place), *map(escape, row.cells()[1:])]
        columns = zip(kinds, shown, strict=True)
        lines.append("<tr>" + "".join(f'<td class="{kind}">{cell}</td>' for kind, cell in columns) + "</tr>")
    return [
        "<h2>The numbers at the end</h2>",
        f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>',
        f'<p class="quiet">Mean ± standard deviation over {_each(folders, lambda r: str(r.runs))} runs.'
        " What each epsilon means stands below.</p>",
        f"<details><summary>The same table for LaTeX</summary><pre>{escape(latex_rows(rows))}</pre></details>",
    ]


def _each(folders: Sequence[Folder], of: Callable[[Result], str]) -> str:
    """Return a value that all folders share, or all the different ones."""
    return " or ".join(dict.fromkeys(of(folder.result) for folder in folders))


def _spread_out(folders: Sequence[Folder]) -> bool:
    """Say whether latencies differ so much that a common linear axis would hide the quick ones."""
    ends = [float(folder.result.latency[:, -1].mean()) for folder in folders]
    return max(ends) > 4.0 * min(ends) > 0.0


def _error(folders: Sequence[Folder]) -> list[str]:
    traces, layout = error_chart([(folder.name, folder.result) for folder in folders], _spread_out(folders))
    return [
        "<h2>How quickly the error falls</h2>",
        "<p>Test error against latency: lines are means over runs, bands one standard deviation. Each line ends with"
        " the latency and the error of the table.</p>",
        chart("error", traces, layout, first=True),
    ]


def _privacy(folders: Sequence[Folder]) -> list[str]:
    """Show every epsilon, what none can be read without, and how it grows along a run."""
    traces: list[dict[str, Any]] = []
    said: dict[str, list[int]] = {}
    for place, folder in enumerate(folders):
        found, notes = _epsilon_lines(folder, place)
        traces += found
        for note in [*result_notes(folder.result), *notes]:
            said.setdefault(note, []).append(place)
    heads = [_named(folders, place) for place in range(len(folders))]
    told = [{escape(name): value for name, value in privacy_rows(folder.result.privacy)} for folder in folders]
    body = ["<h2>What it costs in privacy</h2>", columns_table("", heads, told)]
    body.append(f"<ul>{''.join(_noted(folders, *each) for each in said.items())}</ul>")
    if traces:
        names = [str(trace["name"]) for trace in traces]
        spread, longest = _spread_out(folders), max(map(len, names))
        body += [
            "<p>Epsilon if the run ended at that latency. Solid: what is promised (tight); dotted: the paper's theorem"
            " for the same run.</p>",
            chart("epsilon", traces, xy_layout(LATENCY, "epsilon", log_x=spread, legend=len(names), longest=longest)),
        ]
    return body


def _noted(folders: Sequence[Folder], note: str, places: Sequence[int]) -> str:
    """Say something about some folders: once, however many they are."""
    whose = "All" if len(places) == len(folders) > 1 else ", ".join(_named(folders, place) for place in places)
    return f"<li>{whose}: {escape(note)}</li>"


def _epsilon_lines(folder: Folder, place: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the lines of epsilon along a run, and in words where a line is not to be relied on."""
    result, privacy = folder.result, folder.result.privacy
    if privacy.refused is not None or privacy.promised.refused is not None or privacy.paper is None:
        return [], []
    notes, steps, delta = [], _moments(result), privacy.delta
    try:
        records = [privacy.planned_for(moment) for moment in steps]
        tight = [forecast(record).epsilon(delta) for record in records]
        papers: list[float] = []
        if privacy.paper.epsilon is not None and privacy.paper.method == "paper":
            half = 0.5 * delta
            bounds = [PaperBound(record, delta_prime=half) for record in records]
            papers = [bound.epsilon(half) for bound in bounds]
            if doubt := next((why for bound in reversed(bounds) if (why := bound.doubt(half))), ""):
                notes.append(f"Do not rely on the paper's line: {doubt}.")
    except InvalidInput as refusal:  # such as a folder without the record
        return [], [f"No line of epsilon, because {refusal.reason}."]
    latency = np.interp(steps, result.points, result.latency.mean(axis=0)).tolist()
    shared = {"type": "scatter", "mode": "lines+markers", "x": latency}
    lines = []
    for label, values, dash, marker in (("promised", tight, "solid", "circle"), ("paper", papers, "dot", "square")):
        if values:
            style = {"line": {"color": colour(place), "dash": dash, "width": 2}, "marker": {"symbol": marker}}
            lines.append(shared | style | {"y": values, "name": f"{escape(folder.name)}, {label}"})
    return lines, notes


def _moments(result: Result) -> list[int]:
    """Return the numbers of steps after which epsilon is computed: whole rounds on a ring."""
    last, kind = int(result.points[-1]), SCHEDULES.get(result.schedule)
    unit = 1 if kind is None else kind.unit(result.resolved.nodes)
    parts = np.ceil(np.arange(1, _MOMENTS + 1) * (last // unit) / _MOMENTS).astype(np.int64)
    # The end is the table's, also where it is in the middle of a round.
    return [*(int(part) * unit for part in np.unique(parts) if 0 < part * unit < last), last]


def _for_each(
    folders: Sequence[Folder], name: str, draw: Callable[[Result, int], _Chart | None], missing: str
) -> list[str]:
    """Return a chart for each folder, in two columns, and of those that have none, why."""
    charts, without = [], []
    for place, folder in enumerate(folders):
        if (drawn := draw(folder.result, place)) is None:
            without.append(place)
        else:
            charts.append(f"<div><h3>{_named(folders, place)}</h3>{chart(f'{name}-{place}', *drawn)}</div>")
    return [
        f'<div class="pair{" alone" if len(charts) == 1 else ""}">{"".join(charts)}</div>',
        f"<ul>{_noted(folders, missing, without)}</ul>" if without else "",
    ]


def _pairs(folders: Sequence[Folder]) -> list[str]:
    def drawn(result: Result, place: int) -> _Chart | None:
        found = result.privacy.in_this_run
        if found is None or found.histogram is None:
            return None
        return pair_chart(found.histogram, result.privacy.epsilon, place)

    return [
        "<h2>What pairs of nodes really learnt</h2>",
        "<p>Epsilon of every ordered pair (whose data, who looks) on the path that the first run took. What is"
        " promised counts every path by its chance, so some pairs of one path may lie beyond it.</p>",
        *_for_each(folders, "pairs", drawn, "the privacy of all pairs was not recorded."),
    ]


def _skips(folders: Sequence[Folder]) -> list[str]:
    def drawn(result: Result, place: int) -> _Chart | None:
        return skip_chart(result, place) if result.skipped.any() else None

    return [
        "<h2>Who was skipped how often</h2>",
        "<p>The share of its turns, over all runs, at which a node was not ready in time.</p>",
        *_for_each(folders, "skips", drawn, "nobody was ever skipped."),
    ]


def _looked_at(result: Result) -> dict[str, Any]:
    """Return all settings of a result, without those that only another schedule or way to deal rows would look at."""
    usual, schedule = RunFile().model_dump(mode="json"), result.schedule
    found = {name: values for name, values in result.all_settings().items() if name == schedule or name not in RIVALS}
    for section in ("stragglers", "compute", "network"):  # nobody is one, computing takes no time, nothing is real
        if found.get(section) == usual[section]:
            del found[section]
    data = dict(found.get("data", {}))
    if data.get("path") is not None:  # the data set's name is a default that nobody looked at
        data.pop("name", None)
    for key, kind in (("alpha", "dirichlet"), ("shards_per_node", "shards"), ("exponent", "power-law")):
        if not (data.get("split") or "").startswith(kind):
            data.pop(key, None)
    return found | {"data": data}


def _settings(folders: Sequence[Folder]) -> list[str]:
    heads = [_named(folders, place) for place in range(len(folders))]
    made = {"skipring": __version__, "Python": platform.python_version()}
    made |= {name: version(name) for name in ("numpy", "numba", "plotly")}
    return [
        "<h2>Settings and versions</h2>",
        '<p class="quiet">Values in grey are the same in all folders; <code>resolved</code> is what defaults and'
        " searches came to.</p>",
        settings_table(heads, [_looked_at(folder.result) for folder in folders]),
        columns_table("this page was made with", ["version"], [made]),
    ]
