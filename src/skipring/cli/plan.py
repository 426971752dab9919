"""From a budget to a plan: `skipring plan`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from .._command import command
from .._json import to_json
from . import _options as options
from ._output import Json, print_json, sentence
from ._plan_file import check_new, write_plan
from ._protected import delta_note, same_parts

if TYPE_CHECKING:
    from ..planning import Budget, Plans
    from ..privacy import Guarantee


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a run may cost, and what is known about nodes and model."""

    nodes: options.Nodes
    delay: options.Delay
    epsilon: Annotated[float, typer.Option(help="Privacy budget of what --protects says.")]
    dimension: Annotated[int, typer.Option(help="Number of the model's parameters.")]
    delta: Annotated[float, typer.Option(help="Privacy budget of what --protects says.")] = 1e-6
    time: Annotated[float | None, typer.Option(help="How long the run may take on average; or give --steps.")] = None
    steps: Annotated[int | None, typer.Option(help="Number of steps; or give --time.")] = None
    hop_latency: options.HopLatency = 0.01
    gradient_bound: Annotated[float, typer.Option(help="Largest norm of a node's (or row's) gradient, k.")] = 1.0
    diameter: Annotated[float, typer.Option(help="Diameter of the set the parameters are kept in.")] = 10.0
    schedule: options.Schedule = options.USUAL_SCHEDULE
    smoothness: options.Smoothness = None
    batch: Annotated[
        int | None,
        typer.Option(help="With record or person: the most rows of an update. By default proposed from --rows."),
    ] = None
    ready: options.Ready = None

    def budget(self, whose: options.Whose) -> Budget:
        """Return the budget, which checks every value and names what is allowed."""
        from ..delays import parse_delay
        from ..planning import Budget

        values = vars(self) | vars(whose) | {"delay": parse_delay(self.delay), "ready": self.ready or "fresh"}
        return Budget(**values)

    @property
    def spent(self) -> str:
        """What may be spent, in words."""
        return f"time {self.time:g}" if self.time is not None else f"{self.steps} steps"


def plan(
    asked: Asked,
    whose: options.Whose,
    figure: Annotated[
        Path | None, typer.Option(help="Where to draw the trade-off (png, svg or pdf); an older figure is overwritten.")
    ] = Path("frontier.png"),
    no_figure: Annotated[bool, typer.Option("--no-figure", help="Draw nothing.")] = False,
    write: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the plan as a run file, for simulate and worth.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Choose timeout, length, noise and learning rate for a budget of time and privacy.

    The timeout is the one with the smallest error bound for this budget. The "most-updates" of run files (`skipring
    timeout`) has updates come soonest, whatever noise they then ask for: right without a budget of privacy.
    """
    from ..privacy import forecast, promise

    budget = asked.budget(whose)
    if write is not None:
        check_new(write)
    drawn = None if no_figure else figure
    plans = _planned(asked, budget, drawn)
    if write is not None:
        write_plan(write, plans, asked.delay)
    found = promise(forecast(plans.run), asked.delta, units=plans.budget.units_per_update, epsilon=asked.epsilon)
    if not as_json:
        _show(plans, found, drawn, write)
        return
    print_json(
        {
            "plan": dataclasses.asdict(plans.best),
            "alternatives": [dataclasses.asdict(other) for other in plans.alternatives],
            "left_out": [{"name": name, "reason": reason} for name, reason in plans.left_out],
            "batches": [dataclasses.asdict(other) for other in plans.batches],
            **to_json(found),
            "batch": plans.best.batch,
            "parts": plans.best.parts,
            "schedule": asked.schedule,
            "ready": plans.budget.ready,
            "nodes": asked.nodes,
            "smoothness": 2.0 / plans.budget.largest_rate,
            "smoothness_assumed": asked.smoothness is None,
            "remark": _no_promise(plans),
            "warning": next(iter(_on_delta(budget)), None),
            "figure": None if drawn is None else str(drawn),
            "run_file": None if write is None else str(write),
        }
    )


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
            order = asked.schedule if asked.ready is None else f"{asked.schedule}, ready {asked.ready}"
            title = f"{asked.nodes} nodes, {budget.delay} delays, {asked.spent}, {order}"
            draw_frontier(points, drawn, title=title)
    return plans


def _show(plans: Plans, found: Guarantee, drawn: Path | None, written: Path | None) -> None:
    from rich.console import Console

    from ..report import plan_table

    budget = plans.budget
    console = Console(highlight=False)
    spent = f"time {budget.time:g}" if budget.time is not None else f"{budget.steps} steps"
    console.print(
        f"{budget.nodes} nodes, {budget.delay} delays, {budget.schedule}, {spent},\n"
        f"epsilon {budget.epsilon:g} at delta {budget.delta:g}\n"
    )
    console.print(plan_table(plans))
    for name, reason in plans.left_out:
        console.print(f"\n{name}: {reason}", markup=False)
    notes = [
        *_on_the_paper(plans),
        _on_epsilon(plans, found),
        sentence(found.further),
        *_on_smoothness(plans),
        *_on_rows(plans),
        *_on_readiness(plans),
        *_on_delta(budget),
    ]
    trivial = budget.gradient_bound * budget.diameter
    notes.append(
        _no_promise(plans)
        or f"The error bound (Theorem 1) compares plans; above gradient bound x diameter = {trivial:g} it says no more."
    )
    if drawn is not None:
        notes.append(f"Trade-off between privacy and error: {drawn}")
    if written is not None:
        rows = "name your data in it" if budget.protects != "person" else "name your data and its persons in it"
        notes.append(f"{written} is written; {rows}; next:")
    console.print("\n" + "\n".join(notes), style="dim", markup=False)
    if written is not None:
        console.print(f"  {command('worth', written)}", style="dim", markup=False, soft_wrap=True)


def _no_promise(plans: Plans) -> str | None:
    """Say that the bound does not promise that anything is learned; None where it does.

    A bound from above cannot say that nothing is: only that it is not known.
    """
    budget, best = plans.budget, plans.best
    trivial = budget.gradient_bound * budget.diameter
    if best.error_bound < trivial:
        return None
    return (
        "Nothing promises that this plan beats guessing: its error bound (Theorem 1) is above gradient bound x"
        f" diameter = {trivial:g}, which every model keeps. It compares plans; what is learned, skipring worth"
        " shows on rows."
    )


def _on_the_paper(plans: Plans) -> list[str]:
    paper = next((other for other in plans.alternatives if other.accounting == "paper"), None)
    if paper is None:
        return []
    if paper.doubt:
        return [f"Do not use the noise of the paper's theorem: {paper.doubt}."]
    share = plans.best.noise_multiplier / paper.noise_multiplier
    return [f"The plan needs {100 * share:.0f} % of the noise that the paper's theorem asks for."]


def _on_epsilon(plans: Plans, found: Guarantee) -> str:
    from ..schedules import DesignedRing, schedule_kind

    most = 2 / plans.best.learning_rate
    advice = f"The loss may have a smoothness of at most {most:.3g} = 2 / learning rate."
    kind, on_orders = schedule_kind(plans.budget.schedule), ""
    if kind.is_drawn_in_rounds():
        on_orders = f" --schedule {DesignedRing.name} chooses an order for which it holds for every pair."
    elif kind.order_is_known:
        on_orders = " Timeout and length were compared by the average over orders."
    return f"{found.sentence()} {advice}{on_orders}"


def _on_delta(budget: Budget) -> list[str]:
    """Warn of a delta that is large for this number of rows, persons or nodes."""
    return delta_note(budget.protects, budget.units_of_a_node, budget.nodes, budget.delta)


def _on_smoothness(plans: Plans) -> list[str]:
    """Say what smoothness was assumed, where none was given."""
    budget = plans.budget
    if budget.smoothness is not None:
        return []
    return [
        f"Learning rates stay at {budget.largest_rate:g} = 2 / smoothness or below. Smoothness"
        f" {2 / budget.largest_rate:g} was assumed (logistic, rows of norm 1); say --smoothness 0.5 for softmax, 1 for"
        " squared loss."
    ]


def _on_readiness(plans: Plans) -> list[str]:
    """Say what the numbers of nodes that remember rest on; nothing where they begin anew."""
    best, run = plans.best, plans.run
    if best.ready == "fresh":
        return []
    return [
        f"Ready {best.ready}: times and skip probability are those of large rings, where a round's duration hardly"
        " varies; the error bound takes skips for independent, which they are not. Epsilon does not: it counts on"
        f" {run.keywords['others']} other nodes that update in each round wherever their turn comes."
    ]


def _on_rows(plans: Plans) -> list[str]:
    """Say what the rows of an update have to do with noise and error; nothing for nodes."""
    from ..schedules import schedule_kind

    budget, best = plans.budget, plans.best
    if budget.protects == "node":
        return []
    notes = [
        "Noise std on the gradient: noise multiplier x gradient bound"
        + (" x rows per person" if budget.protects == "person" else "")
        + " / rows per update.",
    ]
    if plans.batches:
        others = "; ".join(
            f"{other.batch} rows: noise multiplier {other.noise_multiplier:.3g}, error bound {other.error_bound:.4g}"
            for other in plans.batches
        )
        notes.append(
            "With fewer rows per update each row contributes at fewer turns, and a smaller noise multiplier will do;"
            f" but it is divided by fewer rows. The best here: {best.batch}. Else, {others}."
        )
    elif budget.rows is None:
        notes.append("It is not counted that rows may take turns; with --rows (of each node) it is.")
    if not schedule_kind(budget.schedule).has_rounds() and best.parts > 1:
        notes.append("On the random walk it is not counted that rows take turns.")
    return notes + same_parts(plans.run)
