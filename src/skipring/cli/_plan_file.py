"""A plan as a run file: `skipring plan --write`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._writing import write_output
from ..errors import InvalidInput

if TYPE_CHECKING:
    from ..planning import Plans


def check_new(path: Path) -> None:
    """Refuse a file that is there already, before the work for it is done."""
    if path.exists():
        raise InvalidInput.because("write", path, "exists already; choose another name")
    if not path.parent.is_dir():
        raise InvalidInput.because("write", path, "there is no such folder")


def write_plan(path: Path, plans: Plans, law: str) -> None:
    """Write the best plan as a run file; `law` spells the delays."""
    write_output(path, plan_file(plans, law), "write")


def plan_file(plans: Plans, law: str) -> str:
    """Return the best plan as the text of a run file.

    It says epsilon and not the noise. The rows (how many a node has, and in how many turns it uses them) may ask for
    another noise than was planned with.
    """
    from ..runs import toml_value  # loaded when the command runs

    best, budget = plans.best, plans.budget
    most = next((other for other in plans.alternatives if other.name == "most updates"), None)
    sections: dict[str, dict[str, Any]] = {
        "data": {"nodes": budget.nodes} | budget.keys_of_persons,
        "schedule": {"name": budget.schedule, "steps": best.steps},
        "delay": {"law": law, "hop_latency": budget.hop_latency, "timeout": best.timeout}
        | ({} if best.ready == "fresh" else {"ready": best.ready}),
        "learning": {
            "rate": best.learning_rate,
            "step_size": "sqrt",
            "batch": best.batch,
            "diameter": budget.diameter,
            "gradient_bound": budget.gradient_bound,
        },
        "privacy": {"protects": budget.protects, "epsilon": budget.epsilon, "delta": budget.delta},
    }
    beside = {
        "nodes": 'of your own file: path = "rows.csv", label = "...", and node = "..." in place of nodes',
        "timeout": "best for this budget" + ("" if most is None else f'; "most-updates" would be {most.timeout:.4g}'),
        "epsilon": f"planned with noise_multiplier = {best.noise_multiplier:.4g}",
    }
    spent = f"time {budget.time:g}" if budget.time is not None else f"{budget.steps} steps"
    lines = [f"# A plan for {budget.nodes} nodes and {spent}; next: skipring worth FILE, then skipring simulate FILE."]
    for section, values in sections.items():
        lines.append(f"[{section}]")
        for key, value in values.items():
            if value is not None:
                remark = f"    # {beside[key]}" if key in beside else ""
                lines.append(f"{key} = {toml_value(value)}{remark}")
    return "\n".join(lines) + "\n"
