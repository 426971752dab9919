"""The privacy of a simulated run: what it promises, the paper's theorem, and what the recorded path gave away."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..delays import Availability, PairLatency, Trace
from ..errors import InvalidInput
from ..learning import NeuralModel
from ..privacy import (
    Guarantee,
    Histogram,
    InThisRun,
    PaperBound,
    PlannedRun,
    PrivacyReport,
    Remembering,
    Transcript,
    TranscriptAccountant,
    calibrate,
    forecast,
    gdp_epsilon,
    gdp_mu,
    nothing_promised,
    planned_run,
    promise,
    sure_others,
)
from ..schedules import DesignedRing, Laps, Ring, Rival, Schedule
from ..timeouts import no_update_probability, skip_probability
from .lap_account import noise_of_laps, privacy_of_laps
from .setup import Course, RunOutput, Setup

#: Beyond this many nodes the matrix of all pairs is not computed.
_MOST_NODES = 3000
_BINS = 40
#: How much of delta is for rounds in which fewer nodes update than a promise counts on.
_SHARE_OF_DELTA = 1e-2


def planned(setup: Course, steps: int | None = None, *, delta: float | None = None) -> PlannedRun:
    """Return the record of a simulated run (as if it ended after `steps`); refuse what nothing is promised for.

    Where nodes remember what they have prepared, a hundredth of `delta` is for rounds in which fewer of them update
    than the record says.
    """
    steps = setup.steps if steps is None else steps
    if setup.why_no_privacy:
        raise InvalidInput.because("epsilon", "asked for", setup.why_no_privacy)
    convex = setup.model.contracts(setup.step_sizes.largest)
    # Where a node's own releases alone are accounted for, it does not matter how large the steps made from them are.
    law = "constant" if setup.iterations or not convex else setup.step_sizes.law
    _require_forecast(setup, law)
    if setup.iterations:
        # The bound from below: the node at stake is charged for each update that it may make.
        return _own_releases(setup, steps, _late_or_lost(setup)[0])
    if setup.lateness.ready != "fresh":
        who = _remembering(setup, steps, delta) if convex else {"skip": 0.0}
    else:
        least, most = _late_or_lost(setup)
        who = {"skip": most} if least == most else {"skip": most, "target_skip": least}
    return planned_run(
        schedule=setup.schedule.name,  # the record refuses one that it does not know
        nodes=setup.nodes,
        steps=steps,
        noise_multiplier=setup.noise_multiplier,
        convex=convex,
        step_size=law,
        protects=setup.protection.unit,
        parts=setup.part_counts,
        **who,
        **_design(setup),
    )


def _remembering(setup: Course, steps: int, delta: float | None) -> dict[str, Any]:
    """Return how many nodes are sure to update where readiness is kept, or prepared ahead."""
    lateness, nodes = setup.lateness, setup.nodes
    if not (isinstance(setup.schedule, Schedule) and setup.schedule.is_drawn_in_rounds()):
        reason = (
            f"nothing is promised for it on {setup.schedule.name}: only a random ring draws each round's order anew"
        )
        raise InvalidInput.because("ready", lateness.ready, f"{reason}; see epsilon in this run")
    if delta is None:
        raise InvalidInput.because("delta", "missing", "how many nodes are sure to take part depends on it")
    failure = _SHARE_OF_DELTA * delta
    assert lateness.ready != "fresh"
    late = Remembering(
        delay=setup.delay,
        timeout=setup.timeout,
        ready=lateness.ready,
        hop_latency=setup.run.delay.hop_latency,
        lost_link=setup.stragglers.lost_link,
        speeds=setup.stragglers.speeds,
        compute=lateness.compute,
        share=_least_share(setup),
    )
    others = sure_others(late, nodes=nodes, rounds=-(-steps // nodes), failure=failure)
    return {"skip": 0.0, "others": others, "failure": failure}


def _design(setup: Course) -> dict[str, Any]:
    """Return which order was designed, as the record says it; nothing where none was."""
    ring = setup.schedule
    if not isinstance(ring, DesignedRing):
        return {}
    return {"closing": ring.closing, "order_seed": ring.seed, "search": ring.search}


def _own_releases(setup: Course, iterations: int, skip: float) -> PlannedRun:
    """Return a record with as many releases as a rival's node makes, none of them hidden by the noise of others.

    The server sees every upload; with gossip, all that anyone sees is computed from all nodes' noisy gradients. A ring
    without convexity, where a node's turn comes once per round, is accounted for in just that way. With gossip nobody
    leaves out an iteration, late or not.
    """
    nodes = setup.nodes
    return planned_run(
        schedule=Ring.name,
        nodes=nodes,
        steps=nodes * iterations,
        skip=skip if isinstance(setup.schedule, Rival) and setup.schedule.leaves_late_out else 0.0,
        noise_multiplier=setup.noise_multiplier,
        convex=False,
        protects=setup.protection.unit,
        parts=setup.part_counts,
    )


def _require_forecast(setup: Course, law: str) -> None:
    """Refuse what nothing is promised for, for whatever readiness."""
    stragglers, lateness = setup.stragglers, setup.lateness
    if setup.run.delay.patient_every is not None:
        raise InvalidInput.because(
            "patient_every",
            setup.run.delay.patient_every,
            "to promise an epsilon needs the same timeout everywhere; see epsilon in this run",
        )
    if lateness.compute is not None and lateness.late == "decline":
        reason = "to promise an epsilon needs turns that do not depend on how long others took; see epsilon in this run"
        raise InvalidInput.because("late", lateness.late, reason)
    remembers = lateness.ready != "fresh"
    # Nodes that remember may have speeds of their own: those that are sure to update are counted one by one.
    alike = stragglers.model_copy(update={"speeds": None}) if remembers else stragglers
    if not alike.identical:
        raise InvalidInput.because(
            "stragglers",
            "not alike",
            "to promise an epsilon needs delays that are independent and alike; see epsilon in this run",
        )
    followed = [setup.delay, lateness.compute, lateness.latency, lateness.availability]
    if trace := next((each for each in followed if isinstance(each, Trace | PairLatency | Availability)), None):
        raise InvalidInput.because(
            "trace", trace, "to promise an epsilon needs laws, not a trace; see epsilon in this run"
        )
    if law == "own":
        raise InvalidInput.because(
            "step_size", "own", "an epsilon is promised for sqrt and constant; see epsilon in this run"
        )


def _least_share(setup: Course) -> float:
    """Return which share of a full batch is enough for an update."""
    return 1.0 / setup.full_batch if setup.lateness.late == "fewer-rows" else 1.0


def _late_or_lost(setup: Course) -> tuple[float, float]:
    """Return the probability that a node makes no update at its turn, bounded from below and from above.

    Passing the token on unchanged counts as no update: who looks is taken to do so at every turn.
    """
    lateness, lost = setup.lateness, setup.stragglers.lost_link
    if lateness.compute is None:
        late = skip_probability(setup.delay, setup.timeout)
        bounds = late, late
    else:
        bounds = no_update_probability(setup.delay, lateness.compute, setup.timeout, share=_least_share(setup))
    low, high = (late + lost - late * lost for late in bounds)
    return low, high


def noise_for(setup: Course, epsilon: float, delta: float) -> float:
    """Return the noise multiplier with which a simulated run keeps a budget."""
    if isinstance(setup.schedule, Laps):
        return noise_of_laps(setup, epsilon, delta)
    return calibrate(forecast(planned(setup.having(noise_multiplier=1.0), delta=delta)).with_noise, epsilon, delta)


def privacy_of(setup: Setup, delta: float, recorded: RunOutput | None) -> PrivacyReport:
    """Return what a run promises at delta, and what the recorded one gave away, or why nothing is said of either."""
    unit, refused = setup.protection.unit, _refused(setup)
    report = PrivacyReport(
        delta=delta,
        promised=nothing_promised(unit, delta, refused or "nothing is accounted for"),
        refused=refused or None,
        not_amplified_because=setup.model.why_not(setup.step_sizes.largest) or None,
        every=math.gcd(*setup.part_counts),
    )
    if refused:
        return report
    if isinstance(setup.schedule, Laps):
        return privacy_of_laps(setup, report, recorded)
    if setup.iterations:
        from .rivals.privacy import privacy_of_rival

        return privacy_of_rival(setup, planned, report, recorded)
    promised, paper = _promised(setup, delta)
    known = recorded is not None and setup.nodes <= _MOST_NODES
    return dataclasses.replace(
        report,
        promised=promised,
        paper=paper,
        in_this_run=_in_this_run(setup, delta, recorded, promised.epsilon) if known and recorded is not None else None,
        planned=_whole_rounds(setup, delta),
    )


def _refused(setup: Setup) -> str:
    """Say why no epsilon of any kind can be stated; empty if one can."""
    if setup.why_no_privacy:
        return setup.why_no_privacy
    if isinstance(setup.model, NeuralModel) and setup.model.why_no_privacy:
        return setup.model.why_no_privacy
    return "without noise there is no differential privacy" if setup.noise_multiplier == 0.0 else ""


def _promised(setup: Setup, delta: float) -> tuple[Guarantee, Guarantee]:
    """Return what a token's run promises, and what the paper states of it."""
    unit, half = setup.protection.unit, 0.5 * delta
    first = None
    try:
        run = planned(setup, delta=delta)
        first = promise(forecast(run), delta, units=setup.most_units)
        return first, PaperBound(run, delta_prime=half).guarantee(half)
    except InvalidInput as refusal:
        # A flag of the calculator is no word of a run file.
        why = refusal.reason if refusal.given == "" else str(refusal)
        paper = nothing_promised(unit, delta, why, method="paper")
        return first or nothing_promised(unit, delta, str(refusal)), paper


def _whole_rounds(setup: Setup, delta: float) -> PlannedRun | None:
    """Return the record of a token's run, on a ring lengthened to whole rounds; None where nothing is promised."""
    assert isinstance(setup.schedule, Schedule)
    unit = setup.schedule.unit(setup.nodes)
    try:
        return planned(setup, -(-setup.steps // unit) * unit, delta=delta)
    except InvalidInput:
        return None


def transcript_account(setup: Setup, recorded: RunOutput, hops: int | None = None) -> TranscriptAccountant:
    """Return the account of what was learned on the path that a run took, or on its first hops."""
    updated = recorded.updated[:hops]
    return TranscriptAccountant(
        Transcript(
            nodes=setup.nodes,
            offered=recorded.offered[:hops],
            updated=updated,
            step_sizes=setup.step_sizes.first(setup.hops)[: int(updated.sum())],
            noise_multiplier=setup.noise_multiplier,
            convex=setup.model.contracts(setup.step_sizes.largest),
            parts=[len(parts) for parts in setup.parts],
            protects=setup.protection.unit,
            passed_on=recorded.passed_on[:hops] if len(recorded.passed_on) else None,
            closing=setup.closing if hops is None else 0,
        )
    )


def _in_this_run(setup: Setup, delta: float, recorded: RunOutput, promised: float | None) -> InThisRun:
    account = transcript_account(setup, recorded)
    matrix = account.matrix()
    pairs = matrix[~np.eye(len(matrix), dtype=bool)]
    median, almost, worst = np.quantile(pairs, [0.5, 0.99, 1.0])
    return InThisRun(
        guarantee=account.guarantee(delta, gdp_epsilon(float(worst), delta)),
        median=gdp_epsilon(float(median), delta),
        pair_99=gdp_epsilon(float(almost), delta),
        histogram=_histogram(pairs, delta),
        above=None if promised is None else _share_above(pairs, promised, delta),
    )


def _share_above(pairs: NDArray[np.floating[Any]], epsilon: float, delta: float) -> float:
    """Return which share of pairs, given their mu, has an epsilon above this one; roundings are not."""
    return float(np.mean(pairs > gdp_mu(epsilon, delta) * (1.0 + 1e-6))) if epsilon > 0.0 else 1.0


def _histogram(pairs: NDArray[np.floating[Any]], delta: float) -> Histogram:
    """Return how many ordered pairs have which epsilon, given their mu."""
    low, high = gdp_epsilon(float(pairs.min()), delta), gdp_epsilon(float(pairs.max()), delta)
    if high <= low:  # all pairs alike
        low, high = 0.0, high or 1.0
    edges = np.linspace(low, high, _BINS + 1)
    # Epsilon grows with mu, so that the edges are converted instead of millions of pairs.
    inner = [gdp_mu(float(edge), delta) for edge in edges[1:-1]]
    counts = np.bincount(np.searchsorted(inner, pairs), minlength=_BINS)
    return Histogram(edges=tuple(edges.tolist()), counts=tuple(counts.tolist()))
