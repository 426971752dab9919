"""What `skipring plan` says of its plans: what they promise, and what their numbers rest on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ._laps import laps_rows
from ._output import sentence
from ._protected import delta_note, same_parts

if TYPE_CHECKING:
    from ..planning import Budget, LapsBudget, LapsPlan, Plans
    from ..privacy import Guarantee


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a budget comes to by laps, by a walk, or both; which of them was chosen, and why the other has no plan."""

    laps: LapsPlan | None
    walk: Plans | None
    chosen: str
    verdict: str | None
    why_not: dict[str, str]

    @property
    def budget(self) -> Budget | LapsBudget:
        """What both have in common."""
        if self.walk is not None:
            return self.walk.budget
        assert self.laps is not None
        return self.laps.budget


def promise_of_laps(plan: LapsPlan) -> Guarantee:
    """Return what planned laps promise."""
    from ..privacy import LapsAccountant, promise

    budget = plan.budget
    return promise(LapsAccountant(plan.run), budget.delta, units=budget.units_of_a_node, epsilon=budget.epsilon)


def promise_of_walk(plans: Plans) -> Guarantee:
    """Return what a planned walk promises."""
    from ..privacy import forecast, promise

    budget = plans.budget
    return promise(forecast(plans.run), budget.delta, units=budget.units_per_update, epsilon=budget.epsilon)


def spent(budget: Budget) -> str:
    """Return what may be spent on a walk, in words."""
    return f"time {budget.time:g}" if budget.time is not None else f"{budget.steps} steps"


def plan_rows(plan: LapsPlan) -> list[tuple[str, object]]:
    """Return what a table says of planned laps."""
    deadline = plan.deadline
    return [
        *laps_rows(plan.run)[:1],
        ("noise multiplier", plan.run.noise_multiplier),
        *laps_rows(plan.run)[1:],
        ("deadline", deadline.deadline),
        ("left out by then", f"{100.0 * deadline.skip_probability:.0f} % of the nodes"),
        ("expected time", plan.expected_time),
        ("N mu / d", "unknown" if plan.rows_times_mu is None else plan.rows_times_mu),
    ]


def on_laps(plan: LapsPlan) -> list[str]:
    """Say what planned laps promise to the data, and what is known of the model."""
    found = promise_of_laps(plan)
    alone = plan.run.among.alone
    return [
        found.sentence(),
        sentence(found.further),
        *([] if alone is None else [sentence(alone)]),
        sentence(plan.promise),
        "What follows from N mu / d was measured on 26 real tables (logistic loss, five laps), and is not proven.",
    ]


def on_walk(plans: Plans) -> list[str]:
    """Say what a planned walk promises, and what its numbers rest on."""
    trivial = plans.budget.gradient_bound * plans.budget.diameter
    says = f"The error bound (Theorem 1) compares plans; above gradient bound x diameter = {trivial:g} it says no more."
    return [
        *_on_the_paper(plans),
        _on_epsilon(plans),
        sentence(promise_of_walk(plans).further),
        *_on_smoothness(plans),
        *_on_rows(plans),
        *_on_readiness(plans),
        no_promise(plans) or says,
    ]


def no_promise(plans: Plans) -> str | None:
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


def _on_epsilon(plans: Plans) -> str:
    from ..schedules import DesignedRing, schedule_kind

    most = 2 / plans.best.learning_rate
    advice = f"The loss may have a smoothness of at most {most:.3g} = 2 / learning rate."
    kind, on_orders = schedule_kind(plans.budget.schedule), ""
    if kind.is_drawn_in_rounds():
        on_orders = f" --schedule {DesignedRing.name} chooses an order for which it holds for every pair."
    elif kind.order_is_known:
        on_orders = " Timeout and length were compared by the average over orders."
    return f"{promise_of_walk(plans).sentence()} {advice}{on_orders}"


def on_delta(budget: Budget | LapsBudget) -> list[str]:
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
