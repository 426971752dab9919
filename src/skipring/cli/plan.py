"""From a budget to a plan: `skipring plan`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from .._command import command
from .._json import to_json
from ..errors import InvalidInput
from . import _options as options
from ._output import Json, print_json, rows_table
from ._plan_file import check_new, write_plan
from ._plan_notes import (
    Found,
    no_promise,
    on_delta,
    on_laps,
    on_walk,
    plan_rows,
    promise_of_laps,
    promise_of_walk,
    spent,
)

if TYPE_CHECKING:
    from ..planning import Budget, LapsBudget, Plans


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a run may cost, and what is known about nodes and model."""

    nodes: options.Nodes
    delay: options.Delay
    epsilon: Annotated[float, typer.Option(help="Privacy budget of what --protects says.")]
    dimension: Annotated[int, typer.Option(help="Number of the model's parameters.")]
    delta: Annotated[float, typer.Option(help="Privacy budget of what --protects says.")] = 1e-6
    time: Annotated[float | None, typer.Option(help="How long the run may take on average; or give --steps.")] = None
    steps: Annotated[int | None, typer.Option(help="Number of steps of a walk; or give --time.")] = None
    hop_latency: options.HopLatency = 0.01
    gradient_bound: Annotated[float, typer.Option(help="Largest norm of a node's (or row's) gradient, k.")] = 1.0
    diameter: Annotated[float, typer.Option(help="Diameter of the set the parameters are kept in.")] = 10.0
    schedule: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="laps, ring, random-ring, designed-ring or random-walk (default: compare)."),
    ] = None
    smoothness: options.Smoothness = None
    batch: Annotated[
        int | None,
        typer.Option(help="With record or person: the most rows of an update. By default proposed from --rows."),
    ] = None
    ready: options.Ready = None

    def walk(self, whose: options.Whose) -> Budget | None:
        """Return the budget of a walk, which checks every value; None where laps were asked for."""
        from ..delays import parse_delay
        from ..planning import Budget

        if self.schedule == options.LAPS:
            return None
        values = {"delay": parse_delay(self.delay), "ready": self.ready or "fresh"}
        return Budget(**vars(self) | vars(whose) | values | {"schedule": self.schedule or options.USUAL_SCHEDULE})

    def laps(self, whose: options.Whose, sums: options.Sums) -> LapsBudget | None:
        """Return the budget of laps, which checks every value; None where a walk was asked for, or a node protected."""
        from ..delays import parse_delay
        from ..planning import LapsBudget
        from ..schedules import Laps

        if self.schedule not in (None, options.LAPS):
            sums.require_none(self.schedule)
            return None
        if self.schedule is None and whose.protects == "node":
            sums.require_none("a walk: laps add up what records or persons contribute")
            return None
        for name in ("steps", "batch", "ready", "smoothness"):
            if self.schedule == options.LAPS and (given := getattr(self, name)) is not None:
                raise InvalidInput.because(name, given, "is for schedules with a token, and laps have none")
        usual = Laps.usual if self.dimension <= Laps.few_parameters else Laps.usual_by_gradients
        values = {name: getattr(self, name) for name in ("hop_latency", "epsilon", "delta", "dimension", "time")}
        return LapsBudget(
            among=Laps(nodes=self.nodes, coalition=sums.coalition, least_nodes=sums.least_nodes),
            delay=parse_delay(self.delay),
            laps=usual if sums.laps is None else sums.laps,
            extra=sums.extra or 0,
            floor=sums.floor or 0.0,
            **values,
            **vars(whose),
        )


def plan(
    asked: Asked,
    whose: options.Whose,
    sums: options.Sums,
    figure: Annotated[
        Path | None, typer.Option(help="Where to draw the trade-off (png, svg or pdf); an older figure is overwritten.")
    ] = Path("frontier.png"),
    no_figure: Annotated[bool, typer.Option("--no-figure", help="Draw nothing.")] = False,
    write: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the plan as a run file, for simulate and worth.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Choose laps or a walk, how long to wait, length, noise and learning rate for a budget of time and privacy.

    A walk's timeout is the one with the smallest error bound for this budget. The "most-updates" of run files
    (`skipring timeout`) has updates come soonest, whatever noise they then ask for: right without a budget of privacy.
    """
    budget, of_laps = asked.walk(whose), asked.laps(whose, sums)
    if write is not None:
        check_new(write)
    drawn = None if no_figure or budget is None else figure
    found = _found(asked, budget, of_laps, drawn)
    if write is not None:
        write_plan(write, found, asked.delay)
    if as_json:
        print_json(_facts(asked, found) | {"figure": drawn and str(drawn), "run_file": write and str(write)})
    else:
        _show(found, asked, drawn, write)


def _found(asked: Asked, budget: Budget | None, of_laps: LapsBudget | None, drawn: Path | None) -> Found:
    """Return what a budget comes to by laps, by a walk, or both; of both, one may have no plan."""
    from ..planning import plan_laps, verdict

    laps, walk, why_not = None, None, {}
    if of_laps is not None:
        try:
            laps = plan_laps(of_laps)
        except InvalidInput as refusal:
            if budget is None:
                raise
            why_not[options.LAPS] = f"{refusal.parameter} {refusal.reason}"
    if budget is not None:
        walk = _planned(asked, budget, drawn)
    if laps is not None and walk is not None:
        chosen, words = verdict(laps, walk)
    else:
        chosen, words = options.LAPS if walk is None else walk.budget.schedule, None
    return Found(laps=laps, walk=walk, chosen=chosen, verdict=words, why_not=why_not)


def _facts(asked: Asked, found: Found) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "chosen": found.chosen,
        "verdict": found.verdict,
        options.LAPS: None,
        "walk": None,
        "why_not": found.why_not,
    }
    if (laps := found.laps) is not None:
        facts[options.LAPS] = {
            **to_json(promise_of_laps(laps)),
            **laps.run.keywords,
            "deadline": to_json(laps.deadline),
            "expected_time": laps.expected_time,
            "rows_times_mu_over_parameters": laps.rows_times_mu,
            "excess_log_loss": laps.excess,
        }
    if (plans := found.walk) is not None:
        facts["walk"] = {
            "plan": dataclasses.asdict(plans.best),
            "alternatives": [dataclasses.asdict(other) for other in plans.alternatives],
            "left_out": [{"name": name, "reason": reason} for name, reason in plans.left_out],
            "batches": [dataclasses.asdict(other) for other in plans.batches],
            **to_json(promise_of_walk(plans)),
            "batch": plans.best.batch,
            "parts": plans.best.parts,
            "schedule": plans.budget.schedule,
            "ready": plans.budget.ready,
            "smoothness": 2.0 / plans.budget.largest_rate,
            "smoothness_assumed": asked.smoothness is None,
            "remark": no_promise(plans),
        }
    return facts | {"nodes": asked.nodes, "warning": next(iter(on_delta(found.budget)), None)}


def _planned(asked: Asked, budget: Budget, drawn: Path | None) -> Plans:
    """Return the plans of a budget, with a bar that says how far they are; draw the trade-off where that is wanted."""
    from rich.console import Console  # loaded when the command runs, as in all commands
    from rich.progress import Progress

    from .. import planning

    modes: list[planning.Ready] = []
    if asked.ready is not None:  # who asks for one is shown what the others give
        modes = [mode for mode in get_args(planning.Ready) if mode != asked.ready]
    if drawn is not None:
        from ..report import check_writable, draw_frontier

        check_writable(drawn)
    errors = Console(stderr=True)
    with Progress(console=errors, transient=True, disable=not errors.is_terminal) as progress:
        task = progress.add_task("planning", total=None)
        plans = planning.plan(budget, modes)
        if drawn is not None:
            epsilons = [asked.epsilon * 2.0**i for i in range(-3, 4)]
            progress.update(task, description="trade-off", total=len(epsilons))
            points = planning.frontier(
                plans.budget, epsilons, modes, progress=lambda n: progress.update(task, completed=n)
            )
            order = budget.schedule if asked.ready is None else f"{budget.schedule}, ready {asked.ready}"
            title = f"{asked.nodes} nodes, {budget.delay} delays, {spent(budget)}, {order}"
            draw_frontier(points, drawn, title=title)
    return plans


def _show(found: Found, asked: Asked, drawn: Path | None, written: Path | None) -> None:
    from rich.console import Console

    from ..report import plan_table

    budget, console = found.budget, Console(highlight=False)
    words = "" if found.walk is None else f", {spent(found.walk.budget)}"
    console.print(
        f"{asked.nodes} nodes, {budget.delay} delays, {found.chosen if found.verdict is None else 'laps and walk'}"
        f"{words},\nepsilon {budget.epsilon:g} at delta {budget.delta:g}\n"
    )
    if found.verdict is not None:
        console.print(f"{found.verdict}\n", markup=False)
    notes: list[str] = []
    if found.laps is not None:
        console.print(rows_table(plan_rows(found.laps)))
        notes += on_laps(found.laps) if found.chosen == options.LAPS else []
    if found.walk is not None:
        console.print("" if found.laps is None else "\n", end="")
        console.print(plan_table(found.walk))
        notes += on_walk(found.walk) if found.chosen != options.LAPS else []
    for name, reason in (*found.why_not.items(), *(() if found.walk is None else found.walk.left_out)):
        console.print(f"\n{name}: {reason}", markup=False)
    notes += on_delta(budget)
    if found.verdict is not None and found.walk is not None:
        other = found.walk.budget.schedule if found.chosen == options.LAPS else options.LAPS
        notes.append(f"What the other plan rests on: --schedule {other}.")
    if drawn is not None:
        notes.append(f"Trade-off between privacy and error: {drawn}")
    if written is not None:
        rows = "name your data in it" if budget.protects != "person" else "name your data and its persons in it"
        notes.append(f"{written} is written; {rows}; next:")
    console.print("\n" + "\n".join(notes), style="dim", markup=False)
    if written is not None:
        following = "simulate" if found.chosen == options.LAPS else "worth"
        console.print(f"  {command(following, written)}", style="dim", markup=False, soft_wrap=True)
