"""One simulation in a terminal: its numbers, and in sentences what they cannot be read without."""

from __future__ import annotations

from .._numbers import number, upper
from ..learning import FIRST_ROWS_ONLY
from ..privacy import PrivacyReport, StatedEpsilon, said
from ..simulation import ResolvedFacts, Result, Spread


def result_rows(result: Result) -> list[tuple[str, object]]:
    """Return the names and numbers of a simulation's table."""
    summary, resolved, privacy = result.summary(), result.resolved, result.privacy
    rows: list[tuple[str, object]] = [
        ("data", result.data_words),
        ("runs", result.runs),
        ("test error", _spread(summary.test_error)),
        ("latency", _spread(summary.latency)),
        ("updates", _spread(summary.updates)),
        ("skip rate", summary.skip_rate),
        ("timeout", resolved.timeout),
        ("noise multiplier", resolved.noise_multiplier),
    ]
    if privacy.unit != "node":
        rows.append(("noise std on the gradient", resolved.noise_std))
        rows.append(("rows per update", _batch(resolved)))
    return rows + privacy_rows(privacy)


def result_notes(result: Result, unsaid: str | None = None) -> list[str]:
    """Say what the numbers cannot be read without; `unsaid` is what the run file left open of its data."""
    resolved, privacy = result.resolved, result.privacy
    notes = ["Mean and standard deviation over runs; latency and timeout in the unit of the law of delays."]
    if result.remark is not None:
        notes.append(said(result.remark))
    if privacy.refused is None:
        notes.append(_terms(privacy))
    if privacy.view == "server":
        notes.append("The forecast is against the server, which sees every upload.")
    elif privacy.view == "any node":
        notes.append(
            "The forecast counts a node's own releases; realised: on the graphs of the first run, no final model."
        )
    elif privacy.view == "coalition":
        notes.append(
            f"The forecast is against {privacy.against} (laps.coalition), with all that is sent and each model in"
            " sight; who is late changes nothing. An outsider sees the same, but knows none of the noise, and learns"
            " less."
        )
        if result.resolved.nodes == 2:
            notes.append("Two nodes hide nothing for each other: each lap is a release of each node's own.")
    if privacy.not_amplified_because is not None and privacy.view != "coalition":
        notes.append(f"The noise of others is not counted: {privacy.not_amplified_because}.")
    notes += [] if unsaid is None else [said(unsaid)]
    if privacy.unit != "node" and privacy.every < (resolved.parts or 1):
        notes.append(
            "Nodes have different numbers of parts; the forecast is the largest of what holds for each number."
        )
    if privacy.paper is not None and privacy.paper.doubt is not None:
        notes.append(f"Do not rely on the paper's epsilon: {privacy.paper.doubt}.")
    if privacy.not_covered is not None:
        notes.append(said(privacy.not_covered))
    notes += map(said, resolved.notes)
    if resolved.rows_left_out:
        notes.append(f"{resolved.rows_left_out} training rows are left out: {FIRST_ROWS_ONLY}.")
    if resolved.labels_clipped:
        notes.append(f"{resolved.labels_clipped} labels were clipped to model.label_bound.")
    if privacy.averaged:
        notes.append(said(privacy.averaged))
    elif privacy.realised is not None and privacy.forecast is not None and privacy.view != "coalition":
        notes.append("A forecast counts every way to take part by its chance; one that happened may lie beyond it.")
    return notes


def _spread(spread: Spread) -> str:
    return f"{number(spread.mean)} ± {number(spread.std)}"


def _terms(privacy: PrivacyReport) -> str:
    """Say what the epsilons cannot be read without, beside what they protect."""
    words = f"Epsilons are at delta {privacy.delta:g}"
    if privacy.view != "offered":  # a rival's; what is said next speaks of them
        return f"{words}."
    words += " against any other node that is always ready (view offered); the forecast is by the method tight"
    return f"{words}, realised by the transcript of the first run." if privacy.realised is not None else f"{words}."


def _batch(resolved: ResolvedFacts) -> str:
    parts = "" if resolved.parts in (None, 1) else f"; nodes rotate through up to {resolved.parts} parts"
    return f"at most {resolved.batch}{parts}"


def privacy_rows(privacy: PrivacyReport) -> list[tuple[str, object]]:
    """Return the names and values of all epsilons of a simulation; why there is none, where there is none."""
    if privacy.refused is not None:
        return [("epsilon", privacy.refused)]
    realised, paper, laps = privacy.realised, privacy.paper, privacy.coalition is not None
    average = ", average" if privacy.averaged else ", every pair" if privacy.holds_for_every_pair else ""
    rows: list[tuple[str, object]] = [("epsilon protects", privacy.hides)]
    if privacy.averaged and realised is not None:  # what holds for every pair comes first
        rows.append(("epsilon, realised, every pair", upper(realised.worst)))
    stated = {
        f"epsilon, forecast{f', {privacy.against}' if laps else average}": privacy.forecast,
        "epsilon, an outsider" if laps else "epsilon, final model only": privacy.final,
        "epsilon, if all others collude": privacy.all_others,
    }
    rows += [(name, _epsilon_or_why(part)) for name, part in stated.items() if part is not None]
    if privacy.whole_node:
        rows.append(("epsilon, whole node", privacy.whole_node))
    if paper is not None:
        doubtful = " (not proven)" if paper.trusted is False else ""
        rows.append((f"epsilon, {paper.method or 'paper'}{doubtful}", _epsilon_or_why(paper)))
    if realised is None:
        return rows
    if privacy.view == "server":
        names = ["busiest node, server", "99 % node, server", "median node, server"]
    elif privacy.view == "coalition":
        names = ["worst node", "99 % node", "median node"]
    else:
        sampled = "" if realised.pairs is None else f" of {realised.pairs}"
        names = [f"worst pair{sampled}", "99 % pair", "median pair"]
    names += ["final model", "another node"]
    values = (realised.worst, realised.pair_99, realised.median, realised.final, realised.other_node)
    found = zip(names, values, strict=True)
    return [*rows, *((f"epsilon, realised, {name}", upper(each)) for name, each in found if each is not None)]


def _epsilon_or_why(part: StatedEpsilon) -> str | None:
    return part.refused if part.epsilon is None else upper(part.epsilon)
