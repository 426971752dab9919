"""A run file with nothing left open, for all nodes to share: what each computed for itself might differ."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InvalidInput
from ..simulation.runfile import RunFile, parse_run, toml_value
from .agreement import require_network_run
from .order import path_of

if TYPE_CHECKING:
    from ..simulation.setup import Setup

__all__ = ["agreed_run", "run_text"]

_ROUNDS = 30
_DEFAULT_EPSILON = 8.0


def agreed_run(run: RunFile, nodes: int) -> RunFile:
    """Return the run with its steps, timeout, noise and model written down.

    Without a timeout, a skip probability or a law of delays, nodes learn their timeout. No forecast covers that; the
    noise for a budget is then the least that keeps it on the agreed path if nobody is skipped, and each node's own
    account tells what it came to.
    """
    require_network_run(run, nodes)
    values = run.model_dump(mode="json", exclude_unset=True)
    for section in ("data", "model", "schedule", "delay", "privacy"):
        values.setdefault(section, {})
    delay, given = values["delay"], run.delay
    unknown = given.timeout is None and given.skip is None and "law" not in given.model_fields_set
    if unknown or given.timeout == "adaptive":
        delay["timeout"] = "adaptive"
    values["data"]["nodes"] = nodes
    values["schedule"].setdefault("steps", _ROUNDS * nodes)
    values["schedule"].setdefault("name", run.schedule.name)
    explicit = isinstance(delay.get("timeout"), float | int | str) and delay["timeout"] != "best"
    if not explicit or run.privacy.noise_multiplier is None or run.model.name is None:
        _resolve(values, adaptive=delay.get("timeout") == "adaptive")
    delay.pop("skip", None)
    if delay["timeout"] != "adaptive" and not math.isfinite(float(delay["timeout"])):
        raise InvalidInput.because(
            "delay.timeout", "infinity", 'a node that died would be waited for without end; give a time, or "adaptive"'
        )
    values["simulation"] = {"seed": run.simulation.seed}
    values["privacy"].setdefault("delta", run.privacy.delta)
    return parse_run(values)


def _resolve(values: dict[str, Any], *, adaptive: bool) -> None:
    from ..simulation.simulate import build  # it needs the data: which model, how many columns

    asked = dict(values) | {"delay": dict(values["delay"]), "privacy": dict(values["privacy"])}
    if adaptive:
        asked["delay"]["timeout"] = math.inf
        asked["privacy"] = {"noise_multiplier": 1.0}
    setup = build(parse_run(asked))
    values["model"]["name"] = values["model"].get("name") or setup.model.loss
    privacy = values["privacy"]
    epsilon = privacy.pop("epsilon", None)
    if privacy.get("noise_multiplier") is None:
        noise = setup.noise_multiplier
        if adaptive:
            run = parse_run(values)
            noise = _noise_on_path(setup, run, _DEFAULT_EPSILON if epsilon is None else epsilon, run.privacy.delta)
        privacy["noise_multiplier"] = noise
    if not adaptive:
        values["delay"]["timeout"] = setup.timeout


def _noise_on_path(setup: Setup, run: RunFile, epsilon: float, delta: float) -> float:
    """Return the noise with which no pair of nodes exceeds a budget on the agreed path, if every hop is an update."""
    from ..privacy import Transcript, TranscriptAccountant, gdp_mu  # numba is loaded only where it is needed

    path = np.array(path_of(run, setup.data.nodes, setup.steps))
    loud = Transcript(
        nodes=setup.data.nodes,
        offered=path,
        updated=np.ones(len(path), dtype=bool),
        step_sizes=setup.step_sizes.first(len(path)),
        noise_multiplier=1.0,
        convex=setup.model.contracts(setup.step_sizes.largest),
    )
    # mu is inversely proportional to the noise; rounding up keeps the budget.
    return TranscriptAccountant(loud).worst().mu / gdp_mu(epsilon, delta) * (1.0 + 1e-9)


def run_text(run: RunFile) -> str:
    """Return a run as the text of its file: the values that were given, and no others."""
    lines = ["# The run that all nodes agreed on: the same file at every node, byte for byte or not, value for value."]
    for section, keys in run.model_dump(mode="json", exclude_unset=True).items():
        lines += ["", f"[{section}]"]
        lines += [f"{key} = {toml_value(value)}" for key, value in keys.items() if value is not None]
    return "\n".join(lines) + "\n"
