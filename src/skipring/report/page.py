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
from .._numbers import number, upper
from ..errors import InvalidInput
from ..privacy import ANOTHER_NODE, OUTSIDER, WHOLE_NODE, Guarantee, InThisRun, PaperBound, forecast
from ..runs import RunFile
from ..schedules import RIVALS, SCHEDULES
from ..simulation import COLUMNS, WORDS, Result, ResultRow, latex_rows, result_row
from .page_parts import (
    LATENCY,
    chart,
    colour,
    differing_settings,
    document,
    error_chart,
    pair_chart,
    settings_table,
    skip_chart,
    xy_layout,
)

#: How often epsilon is computed along a run.
_MOMENTS = 8
#: What the folder of a sweep's cell is called.
CELL_KEY = re.compile(r"[0-9a-f]{16}")


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
        f'<p class="quiet">Mean ± standard deviation over {_each(folders, lambda r: str(r.runs))} runs. Timeout and'
        " latency are in the unit of time of the law of delays. Epsilon at"
        f" delta {_each(folders, lambda r: number(r.privacy.delta))} protects"
        f" {_each(folders, lambda r: r.privacy.promised.what)} against another node that is always ready, the final"
        " model included; <i>promised</i> is by the method tight, <i>in this run</i> by the transcript of the first"
        " run, and <i>epsilon paper</i> is a theorem as it was published, without the final"
        f" model.{_averages(folders)}{_other_epsilons(folders)}{_rivals_caption(folders)}</p>",
        f"<details><summary>The same table for LaTeX</summary><pre>{escape(latex_rows(rows))}</pre></details>",
    ]


def _averages(folders: Sequence[Folder]) -> str:
    """Say which promises hold for every pair, and which are averages that some pairs are above."""
    words = ""
    for place, folder in enumerate(folders):
        privacy = folder.result.privacy
        if privacy.averaged:
            words += f" {_named(folders, place)}: {privacy.averaged}."
        elif privacy.holds_for_every_pair and privacy.learns_by != "laps":
            words += f" {_named(folders, place)}: what is promised holds for every pair."
            if privacy.in_this_run is not None and privacy.in_this_run.worst > 1.000001 * (privacy.epsilon or 0.0):
                words += " It counts every path by its chance, and the path that was taken lies beyond it."
    return words


def _other_epsilons(folders: Sequence[Folder]) -> str:
    """Say what an outsider learns, and what holds for a whole node, where that is known."""
    words = ""
    finals = {folder.name: folder.result.privacy.promised.beside(OUTSIDER) for folder in folders}
    known = [f"{upper(part.epsilon)} ({escape(name)})" for name, part in finals.items() if part and part.epsilon]
    if known:
        words += (
            f" An outsider who is shown a final model and nothing else: epsilon {', '.join(known)}."
            " It is about noise that the outsider cannot compute."
        )
    wholes = {folder.name: folder.result.privacy.promised.beside(WHOLE_NODE) for folder in folders}
    said = {name: whole.number for name, whole in wholes.items() if whole is not None}
    for words_of_some in dict.fromkeys(said.values()):
        names = ", ".join(escape(name) for name, told in said.items() if told == words_of_some)
        words += f" Epsilon, whole node: {words_of_some} ({names})."
    return words


def _rivals_caption(folders: Sequence[Folder]) -> str:
    """Say what the epsilons of schedules without a token mean, where there are any."""
    names = {folder.result.schedule for folder in folders}
    return "".join(f" {rival.caption}" for rival in reversed(RIVALS.values()) if rival.name in names)


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
    traces: list[dict[str, Any]] = []
    said: dict[str, list[int]] = {}
    for place, folder in enumerate(folders):
        found, notes = _epsilon_lines(folder, place)
        traces += found
        for note in notes:
            said.setdefault(note, []).append(place)
    body = ["<h2>What it costs in privacy</h2>"]
    if traces:
        body += [
            "<p>Epsilon if the run ended at that latency. Solid: what is promised (tight); dotted: the paper's theorem"
            " for the same run.</p>",
            chart("epsilon", traces, _epsilon_layout(folders, [str(trace["name"]) for trace in traces])),
        ]
    return [*body, f"<ul>{''.join(_noted(folders, *each) for each in said.items())}</ul>" if said else ""]


def _epsilon_layout(folders: Sequence[Folder], names: Sequence[str]) -> dict[str, Any]:
    longest = max(map(len, names))
    return xy_layout(LATENCY, "epsilon", log_x=_spread_out(folders), legend=len(names), longest=longest)


def _noted(folders: Sequence[Folder], note: str, places: Sequence[int]) -> str:
    """Say something about some folders: once, however many they are."""
    whose = "All" if len(places) == len(folders) > 1 else ", ".join(_named(folders, place) for place in places)
    return f"<li>{whose}: {escape(note)}.</li>"


def _epsilon_lines(folder: Folder, place: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the lines of epsilon along a run, and in words what there is no line for."""
    result, privacy = folder.result, folder.result.privacy
    if privacy.refused is not None:
        return [], [privacy.refused]
    if privacy.paper is None:
        return [], ["no epsilon was kept"]
    if privacy.promised.refused is not None:
        return [], [f"nothing is promised, because {privacy.promised.refused}"]
    uncovered = privacy.promised.not_covered
    notes = [*result.resolved.notes, *([] if uncovered is None else [uncovered])]
    if privacy.not_amplified_because is not None:
        notes.append(f"the noise of others is not counted, because {privacy.not_amplified_because}")
    if privacy.paper.doubt is not None and privacy.paper.method == "paper":
        notes.append(f"do not rely on the paper's epsilon: {privacy.paper.doubt}")
    if privacy.paper.refused is not None:
        notes.append(f"no line for the paper, because {privacy.paper.refused}")
    elif privacy.paper.method != "paper":
        notes.append(_rival_note(privacy.paper, privacy.in_this_run))
    steps, delta = _moments(result), privacy.delta
    try:
        records = [privacy.planned_for(moment) for moment in steps]
        tight = [forecast(record).epsilon(delta) for record in records]
        papers: list[float] = []
        if privacy.paper.epsilon is not None and privacy.paper.method == "paper":
            half = 0.5 * delta
            bounds = [PaperBound(record, delta_prime=half) for record in records]
            papers = [bound.epsilon(half) for bound in bounds]
            if doubt := next((why for bound in reversed(bounds) if (why := bound.doubt(half))), ""):
                notes.append(f"do not rely on the paper's line: {doubt}")
    except InvalidInput as refusal:  # such as a folder without the record
        return [], [*notes, f"no line, because {refusal.reason}"]
    latency = np.interp(steps, result.points, result.latency.mean(axis=0)).tolist()
    shared = {"type": "scatter", "mode": "lines+markers", "x": latency}
    lines = []
    for label, values, dash, marker in (("promised", tight, "solid", "circle"), ("paper", papers, "dot", "square")):
        if values:
            style = {"line": {"color": colour(place), "dash": dash, "width": 2}, "marker": {"symbol": marker}}
            lines.append(shared | style | {"y": values, "name": f"{escape(folder.name)}, {label}"})
    return lines, notes


def _rival_note(published: Guarantee, in_this_run: InThisRun | None) -> str:
    """Say what was published about the privacy of a schedule without a token, and what was proven for the first run."""
    words = f"published accounting ({published.method}): epsilon {published.number} at the end"
    if published.doubt is not None:
        words += ", which is not proven for this protocol"
    if in_this_run is None:
        return words
    if (other := in_this_run.guarantee.beside(ANOTHER_NODE)) is not None:
        return f"{words}; the line is about the server, another node learns {other.number}"
    if in_this_run.pairs is None:
        return f"{words}; the line is about the server, and for other nodes nothing better is proven"
    pairs = f"the worst of {in_this_run.pairs} pairs on the graphs of the first run"
    return f"{words}; proven for {pairs}: {upper(in_this_run.worst)}"


def _moments(result: Result) -> list[int]:
    """Return the numbers of steps after which epsilon is computed: whole rounds on a ring."""
    last, kind = int(result.points[-1]), SCHEDULES.get(result.schedule)
    unit = 1 if kind is None else kind.unit(result.resolved.nodes)
    parts = np.ceil(np.arange(1, _MOMENTS + 1) * (last // unit) / _MOMENTS).astype(np.int64)
    # The end is the table's, also where it is in the middle of a round.
    return [*(int(part) * unit for part in np.unique(parts) if 0 < part * unit < last), last]


def _pairs(folders: Sequence[Folder]) -> list[str]:
    charts, missing = [], []
    for place, folder in enumerate(folders):
        found = folder.result.privacy.in_this_run
        name = _named(folders, place)
        if found is None or found.histogram is None:
            missing.append(f"<li>{name}: the privacy of all pairs was not recorded.</li>")
            continue
        words = ", ".join(
            f"{label} {upper(value)}"
            for value, label in (
                (found.median, "median"),
                (found.pair_99, "99 % of pairs below"),
                (found.worst, "worst"),
            )
        )
        drawn = chart(f"pairs-{place}", *pair_chart(found.histogram, folder.result.privacy.epsilon, place))
        charts.append(f'<div><h3>{name}</h3><span class="quiet">{words}</span>{drawn}</div>')
    return [
        "<h2>What pairs of nodes really learnt</h2>",
        "<p>Epsilon of every ordered pair (whose data, who looks) on the path that the first run took. What is"
        " promised counts every path by its chance: in an order that is known, who takes part, for every pair; else"
        " orders, too, for a pair named before the run, so that on one path some pairs lie beyond it.</p>",
        _grid(charts),
        f"<ul>{''.join(missing)}</ul>" if missing else "",
    ]


def _grid(charts: Sequence[str]) -> str:
    return f'<div class="pair{" alone" if len(charts) == 1 else ""}">{"".join(charts)}</div>'


def _skips(folders: Sequence[Folder]) -> list[str]:
    charts, never = [], []
    for place, folder in enumerate(folders):
        if folder.result.skipped.any():
            drawn = chart(f"skips-{place}", *skip_chart(folder.result, place))
            charts.append(f"<div><h3>{_named(folders, place)}</h3>{drawn}</div>")
        else:
            never.append(f"<li>{_named(folders, place)}: nobody was ever skipped.</li>")
    return [
        "<h2>Who was skipped how often</h2>",
        "<p>The share of its turns, over all runs, at which a node was not ready in time.</p>",
        _grid(charts),
        f"<ul>{''.join(never)}</ul>" if never else "",
    ]


def _looked_at(result: Result) -> dict[str, Any]:
    """Return all settings of a result that were looked at."""
    settings = _used(result.all_settings(), result.schedule)
    if settings.get("data", {}).get("path") is not None:  # the data set's name is a default that nobody looked at
        settings["data"] = {key: value for key, value in settings["data"].items() if key != "name"}
    return settings


def _used(settings: dict[str, Any], schedule: str) -> dict[str, Any]:
    """Return settings without those that only another schedule, or another way to deal rows, would look at."""
    usual = RunFile().model_dump(mode="json")
    used = {section: values for section, values in settings.items() if section not in RIVALS}
    if schedule in RIVALS and schedule in settings:
        used[schedule] = settings[schedule]
    for section in ("stragglers", "compute", "network"):  # nobody is one, computing takes no time, nothing is real
        if used.get(section) == usual[section]:
            del used[section]
    data = dict(used.get("data", {}))
    split = data.get("split") or ""
    for key, kind in (("alpha", "dirichlet"), ("shards_per_node", "shards"), ("exponent", "power-law")):
        if not split.startswith(kind):
            data.pop(key, None)
    return used | {"data": data}


def _settings(folders: Sequence[Folder]) -> list[str]:
    heads = [_named(folders, place) for place in range(len(folders))]
    made = {"skipring": __version__, "Python": platform.python_version()}
    made |= {name: version(name) for name in ("numpy", "numba", "plotly")}
    return [
        "<h2>Settings and versions</h2>",
        '<p class="quiet">Values in grey are the same in all folders; <code>resolved</code> is what defaults and'
        " searches came to.</p>",
        settings_table(heads, [_looked_at(folder.result) for folder in folders]),
        "<table><thead><tr><th>this page was made with</th><th>version</th></tr></thead><tbody>"
        + "".join(f"<tr><td>{name}</td><td>{escape(number)}</td></tr>" for name, number in made.items())
        + "</tbody></table>",
    ]
