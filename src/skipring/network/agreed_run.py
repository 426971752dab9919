"""A run file with nothing left open, for all nodes to share: what each computed for itself might differ."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..delays import parse_delay
from ..errors import InvalidInput, require_delta, require_positive
from ..learning import LinearModel, StepSizes
from ..learning.linear import LossName
from ..simulation.runfile import RunFile, parse_run, toml_value
from ..simulation.simulate import build, in_words_of_the_run_file
from ..timeouts import best_timeout, skip_probability, timeout_for_skip
from .agreement import require_network_run
from .config import NodeBudget
from .order import path_of

__all__ = ["agreed_run", "asked_budget", "contracts", "run_text", "step_sizes_of"]

_ROUNDS = 30
_DEFAULT_EPSILON = 8.0
#: So much more noise than the budget asks for: what a node adds for rounding must not cost it its last update.
_SPARE = 1.0 + 1e-7


def agreed_run(run: RunFile, nodes: int) -> RunFile:
    """Return the run with its steps, timeout, noise and model written down.

    Without a timeout, a skip probability or a law of delays, nodes learn their timeout. Data is looked at only if the
    run file does not name a model.
    """
    with in_words_of_the_run_file():
        return _agreed_run(run, nodes)


def _agreed_run(run: RunFile, nodes: int) -> RunFile:
    require_network_run(run, nodes)
    values = run.model_dump(mode="json", exclude_unset=True)
    for section in ("data", "model", "schedule", "delay", "privacy"):
        values.setdefault(section, {})
    values["data"]["nodes"] = nodes
    values["schedule"].setdefault("steps", _ROUNDS * nodes)
    values["schedule"].setdefault("name", run.schedule.name)
    if run.model.name is None:
        values["model"]["name"] = _usual_model(values)
    values["delay"].pop("skip", None)
    values["delay"]["timeout"] = _timeout(run)
    values["privacy"].setdefault("delta", run.privacy.delta)
    values["simulation"] = {"seed": run.simulation.seed}
    budget = asked_budget(run)
    if budget.epsilon is not None:
        values["privacy"].pop("epsilon", None)
        known_law = "law" in run.delay.model_fields_set
        values["privacy"]["noise_multiplier"] = _noise(parse_run(values), nodes, budget.epsilon, known_law)
    return parse_run(values)


def asked_budget(run: RunFile) -> NodeBudget:
    """Return the epsilon and delta that a run file asks for, for each node to keep; none if it gives the noise.

    The noise is chosen for them, but how many are skipped is known only afterwards, and who is not hidden by others
    gives away more. So what holds is what each node refuses.
    """
    if run.privacy.noise_multiplier is not None:
        return NodeBudget()
    epsilon = _DEFAULT_EPSILON if run.privacy.epsilon is None else run.privacy.epsilon
    with in_words_of_the_run_file():
        require_positive("epsilon", epsilon)
        require_delta(run.privacy.delta)
    return NodeBudget(epsilon=epsilon, delta=run.privacy.delta)


def _usual_model(values: Mapping[str, Any]) -> str:
    """Look at the labels."""
    return build(parse_run({**values, "delay": {}, "privacy": {"noise_multiplier": 1.0}})).model.loss


def _timeout(run: RunFile) -> float | str:
    given, known = run.delay, "law" in run.delay.model_fields_set
    if given.timeout == "adaptive" or (given.timeout is None and given.skip is None and not known):
        return "adaptive"
    delay = parse_delay(given.law)
    if given.skip is not None:
        timeout = timeout_for_skip(delay, given.skip)
    elif given.timeout is None or given.timeout == "best":
        timeout = best_timeout(delay, given.hop_latency)
    else:
        timeout = float(given.timeout)
    if not 0.0 < timeout < math.inf:
        raise InvalidInput.because(
            "delay.timeout", timeout, 'a node that died would be waited for without end; give a time, or "adaptive"'
        )
    return timeout


def _noise(run: RunFile, nodes: int, epsilon: float, known_law: bool) -> float:
    """Return the noise that a budget asks for.

    With a fixed timeout and a law of delays it is the forecast's, for a node that is always ready while others are
    skipped: how quick a node is, is its own affair. Else nobody knows how many are skipped: then it is the least with
    which no pair of nodes exceeds the budget on the agreed path, if every hop is an update. Where others are skipped,
    a node gives away more with each update, and the budget in its settings is spent earlier.
    """
    from ..privacy import PlannedRun, Transcript, TranscriptAccountant, gdp_mu, noise_for_budget  # slow to load

    steps, sizes, delta = run.schedule.steps, step_sizes_of(run), run.privacy.delta
    assert steps is not None
    convex = contracts(run, sizes.largest)
    if known_law and isinstance(run.delay.timeout, float) and sizes.law != "own":
        planned = PlannedRun(
            schedule=run.schedule.name,  # type: ignore[arg-type] # those without a token were refused
            nodes=nodes,
            steps=steps,
            skip=skip_probability(parse_delay(run.delay.law), run.delay.timeout),
            target_skip=0.0,
            noise_multiplier=1.0,
            convex=convex,
            step_size=sizes.law,
        )
        return noise_for_budget(planned, epsilon, delta)
    path = np.array(path_of(run, nodes, steps))
    loud = Transcript(
        nodes=nodes,
        offered=path,
        updated=np.ones(len(path), dtype=bool),
        step_sizes=sizes.first(len(path)),
        noise_multiplier=1.0,
        convex=convex,
    )
    # mu is inversely proportional to the noise.
    return TranscriptAccountant(loud).worst().mu / gdp_mu(epsilon, delta) * _SPARE


def run_text(run: RunFile) -> str:
    """Return a run as the text of its file: the values that were given, and no others."""
    lines = ["# The run that all nodes agreed on: the same file at every node, byte for byte or not, value for value."]
    for section, keys in run.model_dump(mode="json", exclude_unset=True).items():
        lines += ["", f"[{section}]"]
        lines += [f"{key} = {toml_value(value)}" for key, value in keys.items() if value is not None]
    return "\n".join(lines) + "\n"


def step_sizes_of(run: RunFile) -> StepSizes:
    """Return how far updates go."""
    return StepSizes(run.learning.rate, run.learning.step_size, tuple(run.learning.own))


def contracts(run: RunFile, step_size: float) -> bool:
    """Say whether updates are contractions, which follows from the model and needs no data."""
    names: dict[str | None, LossName] = {"logistic": "logistic", "softmax": "softmax", "squared": "squared"}
    name = names.get(run.model.name)
    if name is None:
        return False
    diameter = 10.0 if run.learning.diameter is None else run.learning.diameter
    clip, ridge = run.learning.gradient_bound, run.model.ridge
    model = LinearModel(loss=name, features=1, diameter=diameter, ridge=ridge, clip=clip)
    return model.contracts(step_size)
