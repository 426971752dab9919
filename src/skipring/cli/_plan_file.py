"""A plan as a run file: `skipring plan --write`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._writing import write_output
from ..errors import InvalidInput
from ._plan_notes import Found, spent

if TYPE_CHECKING:
    from ..planning import LapsPlan, Plans


def check_new(path: Path) -> None:
    """Refuse a file that is there already, before the work for it is done."""
    if path.exists():
        raise InvalidInput.because("write", path, "exists already; choose another name")
    if not path.parent.is_dir():
        raise InvalidInput.because("write", path, "there is no such folder")


def write_plan(path: Path, found: Found, law: str) -> None:
    """Write the chosen plan as a run file; `law` spells the delays.

    It says epsilon and not the noise. The rows (how many a node has, and in how many turns it uses them) may ask for
    another noise than was planned with.
    """
    walk, laps = found.walk, found.laps
    if laps is not None and found.chosen == laps.run.among.name:
        text = _laps_file(laps, law)
    else:
        assert walk is not None
        text = _walk_file(walk, law)
    write_output(path, text, "write")


def _walk_file(plans: Plans, law: str) -> str:
    best, budget = plans.best, plans.budget
    most = next((other for other in plans.alternatives if other.name == "most updates"), None)
    sections: dict[str, dict[str, Any]] = {
        "data": {"nodes": budget.nodes, "rows_per_person": budget.rows_per_person},
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
    timeout = "best for this budget" + ("" if most is None else f'; "most-updates" would be {most.timeout:.4g}')
    head = f"# A plan for {budget.nodes} nodes and {spent(budget)}; next: skipring worth FILE, skipring simulate FILE."
    return _as_toml(head, sections, {"timeout": timeout}, best.noise_multiplier)


def _laps_file(plan: LapsPlan, law: str) -> str:
    from ..runs import LapsSection  # loaded when the command runs

    budget, among = plan.budget, plan.budget.among
    sections: dict[str, dict[str, Any]] = {
        "data": {"nodes": among.nodes, "rows_per_person": budget.rows_per_person},
        "schedule": {"name": among.name},
        among.name: {key: value for key, value in plan.run.keywords.items() if key in LapsSection.model_fields}
        | {"deadline": plan.deadline.deadline},
        "delay": {"law": law, "hop_latency": budget.hop_latency},
        "privacy": {"protects": budget.protects, "epsilon": budget.epsilon, "delta": budget.delta},
    }
    head = f"# A plan for {among.nodes} nodes and {budget.laps} laps; next: skipring simulate FILE."
    return _as_toml(
        head,
        sections,
        {"deadline": "as long as the time allows" if budget.time else "the most rows per time"},
        plan.run.noise_multiplier,
    )


def _as_toml(head: str, sections: dict[str, dict[str, Any]], remarks: dict[str, str], noise: float) -> str:
    """Return a run file with a remark beside some keys; what is None is left out."""
    from ..runs import toml_value  # loaded when the command runs

    beside = remarks | {
        "nodes": 'of your own file: path = "rows.csv", label = "...", and node = "..." in place of nodes',
        "epsilon": f"planned with noise_multiplier = {noise:.4g}",
    }
    lines = [head]
    for section, values in sections.items():
        lines.append(f"[{section}]")
        for key, value in values.items():
            if value is not None:
                remark = f"    # {beside[key]}" if key in beside else ""
                lines.append(f"{key} = {toml_value(value)}{remark}")
    return "\n".join(lines) + "\n"
