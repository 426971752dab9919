"""One simulation in a terminal: its numbers, and in sentences what they cannot be read without."""

from __future__ import annotations

from .._numbers import number, upper
from ..learning import FIRST_ROWS_ONLY
from ..privacy import Guarantee, PrivacyReport, said
from ..schedules import Laps
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
    if privacy.promised.protects != "node":
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
    if privacy.learns_by == "server":
        notes.append("What is promised is against the server, which sees every upload.")
    elif privacy.learns_by == "gossip":
        notes.append(
            "What is promised counts a node's own releases; in this run: on the first run's graphs, no final model."
        )
    elif privacy.learns_by == Laps.name:
        notes.append(
            f"It is promised against {privacy.promised.against} (laps.coalition), with all that is sent and each model"
            " in sight; who is late changes nothing. An outsider sees the same, but knows none of the noise, and"
            " learns less."
        )
        if result.resolved.nodes == 2:
            notes.append("Two nodes hide nothing for each other: each lap is a release of each node's own.")
    if privacy.not_amplified_because is not None and privacy.learns_by != Laps.name:
        notes.append(f"The noise of others is not counted: {privacy.not_amplified_because}.")
    notes += [] if unsaid is None else [said(unsaid)]
    if privacy.promised.protects != "node" and privacy.every < (resolved.parts or 1):
        notes.append("Nodes have different numbers of parts; what is promised is the largest of what holds for each.")
    if privacy.paper is not None and privacy.paper.doubt is not None:
        notes.append(f"Do not rely on the paper's epsilon: {privacy.paper.doubt}.")
    if privacy.promised.not_covered is not None:
        notes.append(said(privacy.promised.not_covered))
    notes += map(said, resolved.notes)
    if resolved.rows_left_out:
        notes.append(f"{resolved.rows_left_out} training rows are left out: {FIRST_ROWS_ONLY}.")
    if resolved.labels_clipped:
        notes.append(f"{resolved.labels_clipped} labels were clipped to model.label_bound.")
    if privacy.averaged:
        notes.append(said(privacy.averaged))
    elif privacy.in_this_run is not None and privacy.learns_by != Laps.name:
        notes.append("What is promised counts every way to take part by its chance; one that happened may be above it.")
    return notes


def _spread(spread: Spread) -> str:
    return f"{number(spread.mean)} ± {number(spread.std)}"


def _terms(privacy: PrivacyReport) -> str:
    """Say what the epsilons cannot be read without, beside what they protect."""
    words = f"Epsilons are at delta {privacy.delta:g}"
    if privacy.learns_by != "token":  # what is said next speaks of them
        return f"{words}."
    words += " against another node that is always ready; promised by the method tight"
    return f"{words}, in this run by the transcript of the first." if privacy.in_this_run is not None else f"{words}."


def _batch(resolved: ResolvedFacts) -> str:
    parts = "" if resolved.parts in (None, 1) else f"; nodes rotate through up to {resolved.parts} parts"
    return f"at most {resolved.batch}{parts}"


def privacy_rows(privacy: PrivacyReport) -> list[tuple[str, object]]:
    """Return the names and values of all epsilons of a simulation; why there is none, where there is none."""
    if privacy.refused is not None:
        return [("epsilon", privacy.refused)]
    promised, found = privacy.promised, privacy.in_this_run
    rows: list[tuple[str, object]] = [("epsilon protects", promised.what)]
    if privacy.averaged and found is not None:  # what holds for every pair comes first
        rows.append(("epsilon, in this run, every pair", upper(found.worst)))
    whose = ", average" if privacy.averaged else ", every pair" if privacy.holds_for_every_pair else ""
    whose = f", {promised.against}" if privacy.learns_by == Laps.name else whose
    rows.append((f"epsilon, promised{whose}", _epsilon_or_why(promised)))
    rows += promised.further_rows()
    if privacy.paper is not None:
        doubted = " (not proven)" if privacy.paper.doubt is not None else ""
        rows.append((f"epsilon, {privacy.paper.method}{doubted}", _epsilon_or_why(privacy.paper)))
    if found is None:
        return rows
    if privacy.learns_by == "server":
        names = ("busiest node, server", "99 % node, server", "median node, server")
    elif privacy.learns_by == Laps.name:
        names = ("worst node", "99 % node", "median node")
    else:
        sampled = "" if found.pairs is None else f" of {found.pairs}"
        names = (f"worst pair{sampled}", "99 % pair", "median pair")
    values = (found.worst, found.pair_99, found.median)
    rows += [(f"epsilon, in this run, {name}", upper(value)) for name, value in zip(names, values, strict=True)]
    return rows + [
        (name.replace("epsilon", "epsilon, in this run", 1), number) for name, number in found.guarantee.further_rows()
    ]


def _epsilon_or_why(part: Guarantee) -> str | None:
    return part.refused if part.epsilon is None else upper(part.epsilon)
