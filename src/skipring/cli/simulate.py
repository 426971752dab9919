"""Simulations from run files: `skipring init` and `skipring simulate`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._command import command
from .._json import to_json
from .._numbers import number, upper
from .._writing import write_output
from ..errors import InvalidInput
from ._output import Changes, Json, Threads, print_json, print_rows, sentence
from ._work import counted_runs

if TYPE_CHECKING:
    from ..models import EpsilonClaim
    from ..privacy import PrivacyReport, StatedEpsilon
    from ..simulation import ResolvedFacts, Result, Spread


def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")] = Path("run.toml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: Json = False,
) -> None:
    """Write a run file with every key, its default and what it means."""
    from ..runs import example_run_file  # loaded when the command runs

    if file.exists() and not force:
        raise InvalidInput.because("FILE", file, "exists already; --force overwrites it")
    write_output(file, example_run_file(), "FILE")
    if as_json:
        print_json({"file": str(file)})
        return
    print(f"{file} is written; next: {command('simulate', file)}")


def simulate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A run file; `skipring init` writes one.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the results (default: the file's name).")] = None,
    changes: Changes = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where an interrupted simulation stopped.")] = False,
    threads: Threads = None,
    save_model: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the model of one run, for `skipring predict`; noise is then the system's, not the seed's.",
        ),
    ] = None,
    model_run: Annotated[int, typer.Option(metavar="NUMBER", help="Of which run, from 0.")] = 0,
    as_json: Json = False,
) -> None:
    """Simulate a run file: test error, latency and privacy over many runs."""
    from ..models import load_model
    from ..runs import unsaid_data, with_changes  # loaded when the command runs
    from ..simulation import simulate as run_all

    run = with_changes(file, changes or [])
    folder = out if out is not None else Path(file.stem)
    began = time.perf_counter()
    words = ["simulate", file, "--out", folder, *(word for change in changes or [] for word in ("--set", change))]
    words += [] if threads is None else ["--threads", threads]
    words += [] if save_model is None else ["--save-model", save_model, "--model-run", model_run]
    words += ["--json"] if as_json else []

    def again() -> str:
        begun = ["--resume"] if (folder / "started.json").exists() else []
        return f"what is finished is in {folder}; go on with:\n  {command(*words, *begun)}"

    with counted_runs(run.simulation.runs, again) as (stop, progress):
        result = run_all(
            run,
            out=folder,
            resume=resume,
            threads=threads,
            stop=stop,
            progress=progress,
            save_model=save_model,
            model_run=model_run,
        )
    model: dict[str, Any] = {}
    claims: Sequence[EpsilonClaim] = ()
    if save_model is not None:
        claims = load_model(save_model).facts.epsilon
        model = {"model": str(save_model), "model_run": model_run, "model_epsilon": to_json(claims)}
    unsaid = unsaid_data(run)
    notes = [] if unsaid is None else [unsaid]
    _show(result, folder, time.perf_counter() - began, notes, as_json, model, claims)


def _show(
    result: Result,
    folder: Path,
    seconds: float,
    unsaid: Sequence[str],
    as_json: bool,
    model: dict[str, Any],
    claims: Sequence[EpsilonClaim],
) -> None:
    summary = result.summary()
    resolved, privacy = result.resolved, result.privacy
    if as_json:
        found = {
            "data": result.data,
            "seconds": seconds,
            "folder": str(folder),
            "resolved": resolved.to_json(),
            "remark": result.remark,
        }
        print_json(summary.to_json() | found | model)
        return

    def shown(spread: Spread) -> str:
        return f"{number(spread.mean)} ± {number(spread.std)}"

    rows: list[tuple[str, object]] = [
        ("data", result.data_words),
        ("runs", result.runs),
        ("test error", shown(summary.test_error)),
        ("latency", shown(summary.latency)),
        ("updates", shown(summary.updates)),
        ("skip rate", summary.skip_rate),
        ("timeout", resolved.timeout),
        ("noise multiplier", resolved.noise_multiplier),
    ]
    if privacy.unit != "node":
        rows.append(("noise std on the gradient", resolved.noise_std))
        rows.append(("rows per update", _batch(resolved)))
    rows += _privacy_rows(privacy)
    notes = ["Mean and standard deviation over runs; latency and timeout in the unit of the law of delays."]
    if result.remark is not None:
        notes.append(sentence(result.remark))
    if privacy.refused is None:
        notes.append(_terms(privacy))
    if privacy.view == "server":
        notes.append("The forecast is against the server, which sees every upload.")
    elif privacy.view == "any node":
        notes.append(
            "The forecast counts a node's own releases; realised: on the graphs of the first run, no final model."
        )
    elif privacy.not_amplified_because is not None:
        notes.append(f"The noise of others is not counted: {privacy.not_amplified_because}.")
    notes += map(sentence, unsaid)
    if privacy.unit != "node" and privacy.every < (resolved.parts or 1):
        notes.append(
            "Nodes have different numbers of parts; the forecast is the largest of what holds for each number."
        )
    if privacy.paper is not None and privacy.paper.doubt is not None:
        notes.append(f"Do not rely on the paper's epsilon: {privacy.paper.doubt}.")
    if privacy.not_covered is not None:
        notes.append(sentence(privacy.not_covered))
    notes += map(sentence, resolved.notes)
    if resolved.rows_left_out:
        from ..learning import FIRST_ROWS_ONLY

        notes.append(f"{resolved.rows_left_out} training rows are left out: {FIRST_ROWS_ONLY}.")
    if resolved.labels_clipped:
        notes.append(f"{resolved.labels_clipped} labels were clipped to model.label_bound.")
    if privacy.averaged:
        notes.append(sentence(privacy.averaged))
    elif privacy.realised is not None and privacy.forecast is not None:
        notes.append("A forecast counts every way to take part by its chance; one that happened may lie beyond it.")
    notes.append(f"Results are in {folder}.")
    if model:
        notes.append(f"The model of run number {model['model_run']} (from 0) is {model['model']}: skipring predict.")
        notes.append(
            "Its noise comes from the operating system, and not from simulation.seed: another call gives another."
        )
        notes += [claim.sentence() for claim in claims if claim.epsilon is None]
    print_rows(rows, "\n".join(notes))


def _terms(privacy: PrivacyReport) -> str:
    """Say what the epsilons cannot be read without, beside what they hide."""
    words = f"Epsilons are at delta {privacy.delta:g}"
    if privacy.view != "offered":  # a rival's; what is said next speaks of them
        return f"{words}."
    words += " against any other node that is always ready (view offered); the forecast is by the method tight"
    return f"{words}, realised by the transcript of the first run." if privacy.realised is not None else f"{words}."


def _batch(resolved: ResolvedFacts) -> str:
    parts = "" if resolved.parts in (None, 1) else f"; nodes rotate through up to {resolved.parts} parts"
    return f"at most {resolved.batch}{parts}"


def _privacy_rows(privacy: PrivacyReport) -> list[tuple[str, object]]:
    if privacy.refused is not None:
        return [("epsilon", privacy.refused)]
    rows: list[tuple[str, object]] = [("epsilon hides", privacy.hides)]
    if privacy.averaged and privacy.realised is not None:  # what holds for every pair comes first
        rows.append(("epsilon, realised, every pair", upper(privacy.realised.worst)))
    if privacy.forecast is not None:
        whose = ", average" if privacy.averaged else ", every pair" if privacy.holds_for_every_pair else ""
        rows.append((f"epsilon, forecast{whose}", _epsilon_or_why(privacy.forecast)))
    if privacy.final is not None:
        rows.append(("epsilon, final model only", _epsilon_or_why(privacy.final)))
    if privacy.whole_node:
        rows.append(("epsilon, whole node", privacy.whole_node))
    if privacy.paper is not None:
        said = f"epsilon, {privacy.paper.method or 'paper'}"
        rows.append(
            (said + (" (not proven)" if privacy.paper.trusted is False else ""), _epsilon_or_why(privacy.paper))
        )
    realised = privacy.realised
    if realised is not None:
        if privacy.view == "server":
            names = ("busiest node, server", "99 % node, server", "median node, server")
        else:
            sampled = "" if realised.pairs is None else f" of {realised.pairs}"
            names = (f"worst pair{sampled}", "99 % pair", "median pair")
        values = (realised.worst, realised.pair_99, realised.median)
        rows += [(f"epsilon, realised, {name}", upper(value)) for name, value in zip(names, values, strict=True)]
        if realised.final is not None:
            rows.append(("epsilon, realised, final model", upper(realised.final)))
        if realised.other_node is not None:
            rows.append(("epsilon, realised, another node", upper(realised.other_node)))
    return rows


def _epsilon_or_why(part: StatedEpsilon) -> str | None:
    return part.refused if part.epsilon is None else upper(part.epsilon)
