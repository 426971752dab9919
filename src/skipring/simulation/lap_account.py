"""What simulated laps cost in privacy: their record before and after a run, and the noise for a budget."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..errors import InvalidInput, require_positive
from ..privacy import (
    InThisRun,
    Lap,
    LapsAccountant,
    LapsTranscript,
    PlannedLaps,
    PrivacyReport,
    Protected,
    calibrate,
    gdp_epsilon,
    nothing_promised,
)
from ..schedules import Laps
from .laps import lap_rule, moved_by_a_unit, share_in
from .setup import Course, RunOutput, Setup


def planned_laps(setup: Course) -> PlannedLaps:
    """Return the record of a setup's laps, before they happen; refuse what nothing is promised for."""
    assert isinstance(setup.schedule, Laps)
    if setup.why_no_privacy:
        raise InvalidInput.because("epsilon", "asked for", setup.why_no_privacy)
    return PlannedLaps(
        among=setup.schedule,
        laps=setup.steps,
        noise_multiplier=setup.noise_multiplier,
        weights=lap_rule(setup).weights,
        floor=setup.run.laps.floor,
        unit=Protected(protects=setup.protection.unit, parts=setup.part_counts),
        dimension=_coordinates(setup),
    )


def _coordinates(setup: Course) -> int:
    """Return how many numbers the longest sum has."""
    rule = lap_rule(setup)
    return max(len(rule.sum_of(lap).scales) for lap in range(min(2, rule.laps)))


def laps_that_happened(setup: Setup, recorded: RunOutput) -> LapsTranscript:
    """Return the record of the laps of a run, as they were opened."""
    assert isinstance(setup.schedule, Laps)
    rule, took_part = lap_rule(setup), recorded.updated.reshape(setup.steps, -1)
    opened = []
    for lap, ready in enumerate(took_part):
        kind, participants = rule.sum_of(lap), int(ready.sum())
        opened.append(
            Lap(
                participants=participants,
                sensitivity=moved_by_a_unit(setup, kind),
                share=share_in(setup, rule, lap, participants),
                grid=kind.grid,
                coordinates=kind.moved,
            )
        )
    return LapsTranscript(
        nodes=setup.data.nodes,
        opened=opened,
        took_part=took_part,
        withstood=setup.schedule.withstood,
        parts=[len(parts) for parts in setup.parts],
        protects=setup.protection.unit,
        dimension=_coordinates(setup),
    )


def noise_of_laps(setup: Course, epsilon: float, delta: float) -> float:
    """Return the noise multiplier with which planned laps keep a budget, whatever a floor adds to shares."""
    require_positive("epsilon", epsilon)
    run = replace(planned_laps(setup.having(noise_multiplier=1.0)), floor=0.0)
    return calibrate(lambda noise: LapsAccountant(replace(run, noise_multiplier=noise)), epsilon, delta)


def privacy_of_laps(setup: Setup, report: PrivacyReport, recorded: RunOutput | None) -> PrivacyReport:
    """Return a report with what planned laps promise, and what those of a run have told."""
    run, delta = planned_laps(setup), report.delta
    in_this_run = None
    if recorded is not None:
        happened = laps_that_happened(setup, recorded)
        found = LapsAccountant(happened).guarantee(delta)
        if found.epsilon is not None:
            left = delta - happened.tail(run.withstood)
            mu = np.quantile(np.sqrt(happened.by_node(run.withstood)), [0.5, 0.99])
            median, almost = (gdp_epsilon(float(each), left) for each in mu)
            in_this_run = InThisRun(guarantee=found, median=median, pair_99=almost, above=0.0)
    return replace(
        report,
        promised=LapsAccountant(run).guarantee(delta, units=setup.most_units),
        paper=nothing_promised(run.protects, delta, "the paper has no laps", method="paper"),
        in_this_run=in_this_run,
        not_amplified_because=None,  # the shares of others hide a unit, whatever the model
        learns_by=Laps.name,
    )
