"""The keys that say how nodes are late: read, refused, and left out of the settings of older run files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from skipring.errors import InvalidInput
from skipring.runs import example_run_file, parse_run, read_run_file
from skipring.simulation import simulate


@pytest.mark.parametrize(
    ("ready", "late"), [("fresh", "fewer-rows"), ("kept", "skip"), ("ahead", "decline"), ("kept", "fewer-rows")]
)
def test_what_is_said_is_kept(ready: str, late: str) -> None:
    said: dict[str, Any] = {"delay": {"ready": ready}, "compute": {"law": "exponential:1", "late": late}}
    values = parse_run(said).model_dump(mode="json")
    assert values["delay"]["ready"] == ready
    assert values["compute"] == said["compute"]
    assert parse_run(values) == parse_run(said)


@pytest.mark.parametrize(
    ("section", "key", "value"), [("delay", "ready", "sometimes"), ("compute", "late", "wait"), ("compute", "batch", 1)]
)
def test_other_words_are_refused_by_their_key(section: str, key: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=rf"{section}\.{key}"):
        parse_run({section: {key: value}})


def test_the_example_explains_them() -> None:
    text = example_run_file()
    for key in ("# ready =", "[compute]", "# late =", "# availability =", "# latency ="):
        assert key in text


def test_a_trace_may_lie_beside_the_run_file(tmp_path: Path) -> None:
    (tmp_path / "times.csv").write_text("node,seconds\n0,1\n")
    (tmp_path / "run.toml").write_text('[delay]\nlaw = "trace:times.csv"\n[network]\nlatency = "trace:gone.csv"\n')
    run = read_run_file(tmp_path / "run.toml")
    assert run.delay.law == f"trace:{tmp_path / 'times.csv'}"
    assert run.network.latency == "trace:gone.csv"


def test_updates_that_hide_persons_are_not_cut() -> None:
    """How many rows a person has is a secret, and would decide who else is in an update."""
    cut = {"compute": {"law": "constant:1", "late": "fewer-rows"}}
    parse_run(cut | {"privacy": {"protects": "record"}})
    with pytest.raises(InvalidInput, match=r"^compute\.late = fewer-rows"):
        parse_run(cut | {"privacy": {"protects": "person"}})


def test_nobody_is_skipped_unless_the_run_file_names_a_law_of_delays() -> None:
    small = {"data": {"nodes": 10}, "schedule": {"name": "random-ring", "steps": 40}, "simulation": {"runs": 1}}
    silent = simulate(small)
    assert silent.resolved.timeout == math.inf
    assert not silent.skipped.any()
    assert silent.latency[:, -1].min() > 40 * 0.01  # virtual time goes on: nodes take some
    named = simulate(small | {"delay": {"law": "gamma:0.25,1"}})
    assert named.resolved.timeout == pytest.approx(0.004802, rel=1e-3)
    assert named.skipped.any()
    asked = simulate(small | {"delay": {"timeout": "most-updates"}})  # who asks for skips gets them, by the usual law
    assert asked.resolved.timeout == named.resolved.timeout
