"""The privacy of a simulated run: forecast, the paper's theorem, and what the recorded path really leaked."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..delays import Delay, parse_delay
from ..errors import InvalidInput
from ..learning import NeuralModel
from ..privacy import (
    PaperBound,
    PlannedRun,
    Transcript,
    TranscriptAccountant,
    forecast,
    gdp_epsilon,
    gdp_mu,
    noise_for_budget,
)
from ..runs import RIVALS
from ..timeouts import skip_probability
from .setup import RunOutput, Setup
from .stragglers import Stragglers

__all__ = ["noise_for", "planned", "planned_from_settings", "privacy_of"]

#: Beyond this many nodes the matrix of all pairs is not computed.
_MOST_NODES = 3000
_BINS = 40


def planned(setup: Setup) -> PlannedRun:
    """Return the record of a simulated run; refuse what no forecast covers."""
    if setup.why_no_privacy:
        raise InvalidInput.because("epsilon", "asked for", setup.why_no_privacy)
    # A rival is accounted for by its releases alone, however large the steps that are made from them.
    law = "constant" if setup.iterations else setup.step_sizes.law
    skip = _skip(setup.stragglers, law, setup.delay, setup.timeout, setup.patient_every)
    if setup.iterations:
        return _own_releases(setup.schedule.name, setup.data.nodes, setup.steps, skip, setup.noise_multiplier)
    return PlannedRun(
        schedule=setup.schedule.name,  # type: ignore[arg-type] # the record checks it
        nodes=setup.data.nodes,
        steps=setup.steps,
        skip=skip,
        noise_multiplier=setup.noise_multiplier,
        convex=setup.model.contracts(setup.step_sizes.largest),
        step_size=law,  # type: ignore[arg-type] # `_skip` refused the third
    )


def _own_releases(rival: str, nodes: int, iterations: int, skip: float, noise_multiplier: float) -> PlannedRun:
    """Return a record with as many releases as a rival's node makes, none of them hidden by the noise of others.

    The server sees every upload; with gossip, all that anyone sees is computed from all nodes' noisy gradients. A ring
    without convexity, where a node's turn comes once per round, is accounted for in just that way. With gossip nobody
    leaves out an iteration, late or not.
    """
    return PlannedRun(
        schedule="ring",
        nodes=nodes,
        steps=nodes * iterations,
        skip=0.0 if rival == "gossip" else skip,
        noise_multiplier=noise_multiplier,
        convex=False,
    )


def planned_from_settings(settings: Mapping[str, Any], privacy: Mapping[str, Any], steps: int) -> PlannedRun:
    """Return the record of a saved simulation as if it ended after so many steps; refuse what no forecast covers.

    On a ring, steps are rounded up to whole rounds, which a ring is accounted for in.
    """
    resolved, schedule = settings["resolved"], settings["schedule"]["name"]
    law = "constant" if schedule in RIVALS else settings["learning"]["step_size"]
    nodes = int(resolved["nodes"])
    delay = parse_delay(settings["delay"]["law"])
    if "refused" in privacy:
        raise InvalidInput.because("epsilon", "asked for", privacy["refused"])
    given = {key: settings["stragglers"][key] for key in Stragglers.__dataclass_fields__}
    patient = settings["delay"].get("patient_every")
    skip = _skip(Stragglers(**given), law, delay, float(resolved["timeout"]), patient)
    if schedule in RIVALS:
        return _own_releases(schedule, nodes, steps, skip, resolved["noise_multiplier"])
    return PlannedRun(
        schedule=schedule,
        nodes=nodes,
        steps=steps if schedule == "random-walk" else -(-steps // nodes) * nodes,
        skip=skip,
        noise_multiplier=resolved["noise_multiplier"],
        convex=bool(privacy["amplified"]),
        step_size=law,  # type: ignore[arg-type] # `_skip` refused the third
    )


def _skip(stragglers: Stragglers, law: str, delay: Delay, timeout: float, patient_every: int | None) -> float:
    """Return the skip probability of every node, where all are alike."""
    if patient_every is not None:
        raise InvalidInput.because(
            "patient_every", patient_every, "a forecast needs the same timeout everywhere; see the realised privacy"
        )
    if not stragglers.identical:
        raise InvalidInput.because(
            "stragglers",
            "not alike",
            "a forecast needs delays that are independent and alike; see the realised privacy",
        )
    if law == "own":
        raise InvalidInput.because("step_size", "own", "a forecast covers sqrt and constant; see the realised privacy")
    late, lost = skip_probability(delay, timeout), stragglers.lost_link
    return late + lost - late * lost


def noise_for(setup: Setup, epsilon: float, delta: float) -> float:
    """Return the noise multiplier with which a simulated run keeps a budget."""
    return noise_for_budget(planned(dataclasses.replace(setup, noise_multiplier=1.0)), epsilon, delta)


def privacy_of(setup: Setup, delta: float, recorded: RunOutput | None) -> dict[str, Any]:
    """Return epsilon at delta by each method, or the reason why there is none."""
    report: dict[str, Any] = {"delta": delta, "noise_multiplier": setup.noise_multiplier, "view": "offered"}
    why_not = setup.model.why_not(setup.step_sizes.largest)
    report["amplified"] = not why_not
    if why_not:
        report["not_amplified_because"] = why_not
    if setup.why_no_privacy:
        return report | {"refused": setup.why_no_privacy}
    if isinstance(setup.model, NeuralModel) and setup.model.why_no_privacy:
        return report | {"refused": setup.model.why_no_privacy}
    if setup.noise_multiplier == 0.0:
        return report | {"refused": "without noise there is no differential privacy"}
    if setup.iterations:
        from .baselines.account import privacy_of_rival

        return report | privacy_of_rival(setup, planned, delta, recorded)
    try:
        run = planned(setup)
        report["forecast"] = {"epsilon": forecast(run).epsilon(delta)}
        half = 0.5 * delta
        paper = PaperBound(run, delta_prime=half)
        doubt = paper.doubt(half)
        report["paper"] = {"epsilon": paper.epsilon(half), "trusted": not doubt} | ({"doubt": doubt} if doubt else {})
    except InvalidInput as refusal:
        report.setdefault("forecast", {"refused": str(refusal)})
        report.setdefault("paper", {"refused": str(refusal)})
    if recorded is not None and setup.data.nodes <= _MOST_NODES:
        report["realised"] = _realised(setup, delta, recorded)
    return report


def _realised(setup: Setup, delta: float, recorded: RunOutput) -> dict[str, Any]:
    updates = int(recorded.updated.sum())
    account = TranscriptAccountant(
        Transcript(
            nodes=setup.data.nodes,
            offered=recorded.offered,
            updated=recorded.updated,
            step_sizes=setup.step_sizes.first(setup.steps)[:updates],
            noise_multiplier=setup.noise_multiplier,
            convex=setup.model.contracts(setup.step_sizes.largest),
        )
    )
    matrix = account.matrix()
    pairs = matrix[~np.eye(len(matrix), dtype=bool)]
    median, almost, worst = np.quantile(pairs, [0.5, 0.99, 1.0])
    return {
        "worst": gdp_epsilon(float(worst), delta),
        "median": gdp_epsilon(float(median), delta),
        "pair_99": gdp_epsilon(float(almost), delta),
        "histogram": _histogram(pairs, delta),
    }


def _histogram(pairs: NDArray[np.floating[Any]], delta: float) -> dict[str, list[Any]]:
    """Return how many ordered pairs have which epsilon, given their mu."""
    low, high = gdp_epsilon(float(pairs.min()), delta), gdp_epsilon(float(pairs.max()), delta)
    if high <= low:  # all pairs alike
        low, high = 0.0, high or 1.0
    edges = np.linspace(low, high, _BINS + 1)
    # Epsilon grows with mu, so that the edges are converted instead of millions of pairs.
    inner = [gdp_mu(float(edge), delta) for edge in edges[1:-1]]
    counts = np.bincount(np.searchsorted(inner, pairs), minlength=_BINS)
    return {"edges": edges.tolist(), "counts": counts.tolist()}
