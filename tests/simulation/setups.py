"""Setups for tests, from plain keywords: a run without a run file, and others that differ from it."""

from __future__ import annotations

import dataclasses
from typing import Any

from skipring.learning import Protection
from skipring.runs import parse_run, units_of_nodes
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


def setup_of(**values: Any) -> Setup:
    """Return a setup; of what is not given, the run file's defaults count."""
    usual = {"run": parse_run({}), "nodes": values["data"].nodes, "epsilon": None}
    protection = Protection(**{field: values.pop(name) for name, field in _PROTECTION.items() if name in values})
    own = {name: values.pop(name) for name in list(values) if name not in _KEYS}
    return Setup(**usual | own | _changes(usual["run"], protection, own["data"], values))


def changed(setup: Setup, **values: Any) -> Setup:
    """Return the same setup with other values, wherever they stand."""
    own = {name: values.pop(name) for name in list(values) if name in Setup.__dataclass_fields__}
    protection, data = own.pop("protection", setup.protection), own.get("data", setup.data)
    return dataclasses.replace(setup, **own | _changes(own.get("run", setup.run), protection, data, values))


def _changes(run: Any, protection: Protection, data: Any, values: dict[str, Any]) -> dict[str, Any]:
    for name, value in values.items():
        if name in _KEYS:
            run = run.having(**{_KEYS[name]: {name: value}})
        else:
            protection = dataclasses.replace(protection, **{_PROTECTION[name]: value})
    return {"run": run, "protection": protection, "units": units_of_nodes(data, protection)}
