"""Schemas of the small tables that nodes of tests bring along."""

from __future__ import annotations

from typing import Any


def columns(*, person: str | None = None) -> list[dict[str, Any]]:
    """Return what the columns of `first,second,outcome` mean, and of the one that says whose a row is."""
    numbers: list[dict[str, Any]] = [{"name": name, "range": [-3.0, 3.0]} for name in ("first", "second")]
    whose = [] if person is None else [{"name": person, "person": True}]
    return [*numbers, *whose, {"name": "outcome", "label": True, "categories": ["no", "yes"]}]
