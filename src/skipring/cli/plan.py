"""From a budget to a plan: `skipring plan`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import _options as options
from ._output import Json, print_json

if TYPE_CHECKING:
    from ..planning import Plans

__all__ = ["plan"]


def plan(
    nodes: options.Nodes,
    delay: options.Delay,
    epsilon: Annotated[float, typer.Option(help="Privacy budget of every node.")],
    dimension: Annotated[int, typer.Option(help="Number of the model's parameters.")],
    delta: Annotated[float, typer.Option(help="Privacy budget of every node.")] = 1e-6,
    time: Annotated[float | None, typer.Option(help="How long the run may take on average; or give --steps.")] = None,
    steps: Annotated[int | None, typer.Option(help="Number of steps; or give --time.")] = None,
    hop_latency: options.HopLatency = 0.01,
    gradient_bound: Annotated[float, typer.Option(help="Largest norm of a node's gradient, k.")] = 1.0,
    diameter: Annotated[float, typer.Option(help="Diameter of the set the parameters are kept in.")] = 10.0,
    schedule: options.Schedule = "random-ring",
    smoothness: options.Smoothness = None,
    figure: Annotated[
        Path | None, typer.Option(help="Where to draw the trade-off (png, svg or pdf); an older figure is overwritten.")
    ] = Path("frontier.png"),
    no_figure: Annotated[bool, typer.Option("--no-figure", help="Draw nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Choose timeout, length, noise and learning rate for a budget of time and privacy."""
    from rich.console import Console  # loaded when the command runs, as in all commands
    from rich.progress import Progress

    from .. import planning
    from ..delays import parse_delay

    budget = planning.Budget(
        nodes=nodes,
        delay=parse_delay(delay),
        hop_latency=hop_latency,
        epsilon=epsilon,
        delta=delta,
        dimension=dimension,
        gradient_bound=gradient_bound,
        diameter=diameter,
        time=time,
        steps=steps,
        schedule=schedule,  # type: ignore[arg-type] # the budget checks it and names what is allowed
        smoothness=smoothness,
    )
    errors = Console(stderr=True)
    drawn = None if no_figure else figure
    if drawn is not None:
        from ..report import check_writable, draw_frontier

        check_writable(drawn)
    with Progress(console=errors, transient=True, disable=not errors.is_terminal) as progress:
        task = progress.add_task("planning", total=None)
        plans = planning.plan(budget)
        if drawn is not None:
            epsilons = [epsilon * 2.0**i for i in range(-3, 4)]
            progress.update(task, description="trade-off", total=len(epsilons))
            points = planning.frontier(budget, epsilons, progress=lambda n: progress.update(task, completed=n))
            spent = f"time {time:g}" if time is not None else f"{steps} steps"
            draw_frontier(points, drawn, title=f"{nodes} nodes, {budget.delay} delays, {spent}, {schedule}")
    if as_json:
        print_json(
            {
                "plan": dataclasses.asdict(plans.best),
                "alternatives": [dataclasses.asdict(other) for other in plans.alternatives],
                "left_out": [{"name": name, "reason": reason} for name, reason in plans.left_out],
                "epsilon": epsilon,
                "delta": delta,
                "schedule": schedule,
                "nodes": nodes,
                "view": "offered",
                "figure": None if drawn is None else str(drawn),
            }
        )
        return
    _show(plans, drawn)


def _show(plans: Plans, drawn: Path | None) -> None:
    from rich.console import Console

    from ..report import plan_table

    budget, best = plans.budget, plans.best
    console = Console(highlight=False)
    spent = f"time {budget.time:g}" if budget.time is not None else f"{budget.steps} steps"
    console.print(
        f"{budget.nodes} nodes, {budget.delay} delays, {budget.schedule}, {spent},"
        f" epsilon {budget.epsilon:g} at delta {budget.delta:g}\n"
    )
    console.print(plan_table(plans))
    for name, reason in plans.left_out:
        console.print(f"\n{name}: {reason}", markup=False)
    paper = next(other for other in plans.alternatives if other.accounting == "paper")
    trivial = budget.gradient_bound * budget.diameter
    share = best.noise_multiplier / paper.noise_multiplier
    notes = [
        f"The plan needs {100 * share:.0f} % of the noise that the paper's theorem asks for.",
        "Epsilon protects all data of any node against any other node that is always ready, final model included; it"
        f" needs a convex loss of smoothness at most {2 / best.learning_rate:.3g}.",
        f"The error bound (Theorem 1) compares plans; above gradient bound x diameter = {trivial:g} it says no more.",
    ]
    if paper.doubt:
        notes[0] = f"Do not use the noise of the paper's theorem: {paper.doubt}."
    if drawn is not None:
        notes.append(f"Trade-off between privacy and error: {drawn}")
    console.print("\n" + "\n".join(notes), style="dim", markup=False)
