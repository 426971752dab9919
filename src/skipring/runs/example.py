"""Run files as text: one with every key and what it means, and values as TOML writes them."""

from __future__ import annotations

import math

from pydantic import BaseModel

from .runfile import RunFile


def example_run_file() -> str:
    """Return a run file with every key, its default and what it means."""
    lines = ["# A run for skipring. Every value has a default; lines that begin with # show it.", ""]
    for section, field in RunFile.model_fields.items():
        if section == "column":
            continue
        annotation = field.annotation
        assert isinstance(annotation, type)
        assert issubclass(annotation, BaseModel)
        lines.append(f"[{section}]    # {(annotation.__doc__ or '').partition('.')[0].lower()}")
        for name, key in annotation.model_fields.items():
            if key.default is None:
                lines.append(f"# {name} =    # {key.description}")
            else:
                lines.append(f"{name} = {toml_value(key.default)}    # {key.description}")
        lines.append("")
    return "\n".join(lines)


def toml_value(value: object) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, float) and math.isinf(value):
        return "inf"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml_value(str(key))} = {toml_value(each)}" for key, each in value.items()) + "}"
    return repr(value)
