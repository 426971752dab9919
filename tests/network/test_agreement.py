"""What all nodes must agree on: which keys count, and which are named if they differ."""

from __future__ import annotations

import re
from typing import Any

import pytest

from skipring.errors import InvalidInput
from skipring.network.setup import agreement_of, require_network_run
from skipring.network.transport import PROTOCOL, Address, Agreement, Roster
from skipring.runs import RunFile, change_value, parse_run

ROSTER = Roster(
    ("a", "b", "c"),
    tuple(Address("127.0.0.1", 7600 + node) for node in range(3)),
    tuple(f"{node:064x}" for node in range(3)),
    tuple(f"02{node:064x}" for node in range(3)),
)
RESOLVED = {"model.dtype": "<f8", "model.initial": "00" * 32}

#: Another value for each key of a run file that all nodes agree on.
AGREED: dict[str, Any] = {
    "data.name": "digits",
    "data.label": "outcome",
    "data.nodes": 3,
    "data.person": "patient",
    "data.rows_per_person": 4,
    "data.split": "shards",
    "data.alpha": 0.7,
    "data.shards_per_node": 3,
    "data.exponent": 2.5,
    "data.standardise": False,
    "data.unit_rows": False,
    "data.test_share": 0.3,
    "data.validation": 0.1,
    "model.name": "softmax",
    "model.intercept": True,
    "model.intercept_share": 0.1,
    "model.ridge": 0.1,
    "model.classes": ["no", "yes"],
    "model.features": "random-fourier:50",
    "model.columns": 7,
    "model.label_bound": 2.0,
    "schedule.name": "ring",
    "schedule.steps": 77,
    "schedule.closing": 3,
    "schedule.search": 9,
    "delay.timeout": 2.0,
    "delay.floor": 0.2,
    "learning.rate": 0.31,
    "learning.step_size": "constant",
    "learning.own": [0.1, 0.2],
    "learning.batch": 16,
    "learning.diameter": 11.0,
    "learning.gradient_bound": 0.9,
    "learning.clip_noisy": 3.0,
    "privacy.protects": "node",
    "privacy.noise_multiplier": 6.0,
    "simulation.seed": 2,
    "network.lease": 2.5,
    "network.silence": 31.0,
    "network.quorum": ["a", "c"],
    "network.identity": "2026-03-01-000102030405060708090a0b",
}
#: And for each key that is a node's own affair, or a simulation's.
OWN: dict[str, Any] = {
    "data.path": "elsewhere.csv",
    "data.node": "clinic",
    "model.device": "cpu",
    "delay.law": "exponential:2",
    "delay.hop_latency": 0.5,
    "delay.skip": 0.1,
    "delay.patient_every": 5,
    "delay.ready": "kept",
    "compute.law": "exponential:2",
    "compute.late": "fewer-rows",
    "network.latency": "trace:pairs.csv",
    "privacy.epsilon": 3.0,
    "privacy.delta": 1e-6,
    "simulation.runs": 3,
    "simulation.evaluate_every": 7,
    "simulation.record_path": False,
}


def agreed(run: RunFile | None = None, roster: Roster = ROSTER) -> Agreement:
    return agreement_of(run or RunFile(), roster, RESOLVED)


def changed(key: str, value: Any) -> RunFile:
    """Return the run of all defaults with one other value, whether or not it makes sense."""
    section, _, name = key.partition(".")
    run = RunFile()
    part = getattr(run, section).model_copy(update={name: value})
    return run.model_copy(update={section: part})


def test_every_key_of_a_run_file_is_either_agreed_on_or_not() -> None:
    fields = {
        f"{section}.{key}"
        for section, part in RunFile.model_fields.items()
        if section not in ("stragglers", "laps", "gossip", "federated", "column")
        for key in type(part.default).model_fields
    }
    assert AGREED.keys() | OWN.keys() == fields
    assert agreed().values.keys() == AGREED.keys() | RESOLVED.keys() | {"protocol", "version", "roster", "column"}
    assert agreed().values["protocol"] == PROTOCOL


@pytest.mark.parametrize("key", AGREED)
def test_a_key_that_differs_is_named_on_both_sides(key: str) -> None:
    ours, theirs = agreed(), agreed(changed(key, AGREED[key]))
    assert ours.digest != theirs.digest
    assert ours.differing(theirs.marks) == theirs.differing(ours.marks) == (key,)
    assert key in ours.marks.keys() & theirs.marks.keys()  # neither side has to believe the other one's words


@pytest.mark.parametrize("key", OWN)
def test_what_is_a_nodes_own_affair_does_not_matter(key: str) -> None:
    assert agreed(changed(key, OWN[key])).digest == agreed().digest


def test_two_runs_with_several_differences() -> None:
    values: dict[str, Any] = {}
    change_value(values, "schedule.steps", 9)
    change_value(values, "privacy.noise_multiplier", 2.0)
    assert agreed().differing(agreed(parse_run(values)).marks) == ("privacy.noise_multiplier", "schedule.steps")


def test_the_roster_is_agreed_on() -> None:
    other = Roster(ROSTER.names, ROSTER.addresses, (*ROSTER.fingerprints[:2], "f" * 64), ROSTER.keys)
    assert agreed().differing(agreed(roster=other).marks) == ("roster",)


def test_how_a_number_is_written_does_not_matter() -> None:
    written = [parse_run({"delay": {"timeout": given}, "learning": {"rate": given}}) for given in (1, 1.0)]
    assert agreed(written[0]).digest == agreed(written[1]).digest


def test_the_order_does_not_matter_and_everything_else_does() -> None:
    assert Agreement({"a": 1, "b": [2, 3]}).digest == Agreement({"b": (2, 3), "a": 1}).digest
    values: list[Any] = [1, 2, "1", 1.5, [1], None, True, [], ""]
    different: list[dict[str, Any]] = [*({"a": value} for value in values), {"b": 1}, {"a": 1, "b": 1}, {}]
    assert len({Agreement(one).digest for one in different}) == len(different)


def test_marks_do_not_show_values() -> None:
    marks = agreed().marks
    assert all(re.fullmatch(r"[0-9a-f]{16}", mark) for mark in marks.values())
    assert Agreement({"a": 1}).marks["a"] == Agreement({"a": 1, "b": 2}).marks["a"]  # each stands for itself


def test_a_key_that_only_one_side_has() -> None:
    ours, theirs = Agreement({"a": 1, "b": 2}), Agreement({"b": 2, "c": 3})
    assert ours.differing(theirs.marks) == theirs.differing(ours.marks) == ("a", "c")
    assert ours.differing({}) == ("a", "b")
    assert ours.differing(ours.marks) == ()


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"schedule": {"name": "gossip"}}, "schedule.name"),
        ({"schedule": {"name": "federated"}}, "schedule.name"),
        ({"data": {"nodes": 4}}, "data.nodes"),
        ({"delay": {"patient_every": 3}}, "delay.patient_every"),
        ({"stragglers": {"die": 0.1}}, "stragglers"),
    ],
)
def test_runs_that_real_nodes_cannot_follow(values: dict[str, Any], key: str) -> None:
    require_network_run(RunFile(), 3)
    require_network_run(parse_run({"data": {"nodes": 3}}), 3)
    with pytest.raises(InvalidInput) as refused:
        require_network_run(parse_run(values), 3)
    assert refused.value.parameter == key


def test_nodes_whose_columns_mean_different_things_are_told_so() -> None:
    columns: list[dict[str, Any]] = [
        {"name": "age", "range": [20, 80]},
        {"name": "ill", "label": True, "categories": ["no", "yes"]},
    ]
    ours = agreed(parse_run({"column": columns}))
    theirs = agreed(parse_run({"column": [columns[0] | {"range": [20, 90]}, columns[1]]}))
    assert ours.digest != theirs.digest
    assert ours.differing(theirs.marks) == ("column.age",)
    swapped = agreed(parse_run({"column": [columns[1], columns[0]]}))
    assert ours.differing(swapped.marks) == ("column",)
    assert agreed(parse_run({"column": columns})).digest == ours.digest
