"""Setups for tests, from plain keywords: a run without a run file, and others that differ from it."""

from __future__ import annotations

import dataclasses
from typing import Any

from skipring.learning import Protection
from skipring.runs import ResolvedRun, parse_run, units_of_nodes
from skipring.simulation.setup import Setup

#: Where the run file has what a simulation reads of it alone.
_KEYS = {
    "seed": "simulation",
    "evaluate_every": "simulation",
    "hop_latency": "delay",
    "patient_every": "delay",
    "clip_noisy": "learning",
    "device": "model",
}
_PROTECTION = {"protects": "unit", "batch": "batch", "rows_per_person": "rows_per_person"}
#: What a run file comes to.
_RESOLVED = ("model", "steps", "delay", "timeout", "step_sizes", "noise_multiplier", "why_no_privacy")


def setup_of(**values: Any) -> Setup:
    """Return a setup; of what is not given, the run file's defaults count."""
    resolved = ResolvedRun(
        run=parse_run({}),
        nodes=values["data"].nodes,
        epsilon=None,
        protection=Protection(**{field: values.pop(name) for name, field in _PROTECTION.items() if name in values}),
        units=(),
        **{name: values.pop(name) for name in _RESOLVED if name in values},
    )
    own = {name: values.pop(name) for name in list(values) if name not in _KEYS}
    resolved = dataclasses.replace(resolved, **_changes(resolved, own["data"], values))
    return Setup(resolved=resolved, **own)


def changed(setup: Setup, **values: Any) -> Setup:
    """Return the same setup with other values, wherever they stand."""
    own = {name: values.pop(name) for name in list(values) if name in Setup.__dataclass_fields__}
    resolved = _changes(setup.resolved, own.get("data", setup.data), values)
    return dataclasses.replace(setup, resolved=dataclasses.replace(setup.resolved, **resolved), **own)


def _changes(resolved: ResolvedRun, data: Any, values: dict[str, Any]) -> dict[str, Any]:
    run, protection, others = resolved.run, resolved.protection, {}
    assert protection is not None
    for name, value in values.items():
        if name in _KEYS:
            run = run.having(**{_KEYS[name]: {name: value}})
        elif name in _PROTECTION:
            protection = dataclasses.replace(protection, **{_PROTECTION[name]: value})
        else:
            others[name] = value
    return {"run": run, "protection": protection, "units": units_of_nodes(data, protection)} | others
