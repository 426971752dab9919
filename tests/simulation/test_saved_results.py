"""What a result folder holds: it can be read, and says the same."""

from __future__ import annotations

import json
import math
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from skipring._json import from_json, to_json
from skipring.errors import InvalidInput
from skipring.privacy import PrivacyReport, forecast
from skipring.runs import with_changes
from skipring.schedules import Federated, Gossip
from skipring.simulation import Interrupted, Result, simulate

SMALL = [
    "data.nodes=10",
    "schedule.name=random-ring",
    "schedule.steps=40",
    "simulation.runs=2",
    "simulation.evaluate_every=20",
]


def saved(folder: Path, *changes: str) -> Path:
    """Leave the result of a simulation in a folder."""
    simulate(with_changes(None, [*SMALL, *changes]), out=folder)
    return folder


@pytest.mark.parametrize("name", ["ring", "random-ring", "random-walk", "gossip", "federated"])
def test_a_folder_is_read_and_written_with_the_same_keys_and_values(name: str, tmp_path: Path) -> None:
    result = Result.load(saved(tmp_path / "before", f"schedule.name={name}"))
    assert result.schedule == name
    result.save(tmp_path / "after")
    for file in ("run.json", "privacy.json"):
        before, after = ((tmp_path / folder / file).read_text() for folder in ("before", "after"))
        assert after == before
    again = Result.load(tmp_path / "after")
    assert (again.privacy, again.resolved, again.summary()) == (result.privacy, result.resolved, result.summary())
    assert to_json(result.summary())["privacy"] == json.loads((tmp_path / "after" / "privacy.json").read_text())


def test_what_was_resolved_has_types(tmp_path: Path) -> None:
    gossip = Result.load(saved(tmp_path / "gossip", "schedule.name=gossip", "gossip.slots=5")).resolved.rival
    assert isinstance(gossip, Gossip)
    assert gossip.slots == 5.0
    assert isinstance(Result.load(saved(tmp_path / "federated", "schedule.name=federated")).resolved.rival, Federated)
    assert Result.load(saved(tmp_path / "ring", "schedule.name=ring")).resolved.rival is None


@pytest.mark.parametrize("schedule", ["ring", "random-ring", "random-walk", "gossip", "federated"])
def test_the_record_that_is_kept_gives_the_forecast_again(schedule: str, tmp_path: Path) -> None:
    run = with_changes(None, [*SMALL, f"schedule.name={schedule}"])
    result = simulate(run, out=tmp_path / "out")
    again = Result.load(tmp_path / "out").privacy
    assert again == result.privacy
    assert again.planned is not None
    # A simulation computes with one thread of linear algebra; more of them round the last digit differently.
    assert forecast(again.planned).epsilon(again.delta) == pytest.approx(again.epsilon, rel=1e-12)
    assert again.planned_for(40) == again.planned
    # After half of the steps it is what a run of half the length states.
    half = simulate(with_changes(None, [*SMALL, f"schedule.name={schedule}", "schedule.steps=20", _noise(result)]))
    assert again.planned_for(20) == half.privacy.planned
    if schedule in ("ring", "random-ring"):
        assert again.planned_for(11).steps == 20


def _noise(result: Result) -> str:
    return f"privacy.noise_multiplier={result.resolved.noise_multiplier!r}"


def test_a_ring_that_ends_within_a_round_has_no_forecast_but_a_record_for_whole_rounds() -> None:
    privacy = simulate(
        with_changes(None, [*SMALL, "schedule.name=random-ring", "schedule.steps=45", "privacy.noise_multiplier=4"])
    ).privacy
    assert "multiple of nodes" in str(privacy.promised.refused)
    assert privacy.epsilon is None
    assert privacy.planned_for(45).steps == 50


def test_where_there_is_no_record_it_is_said_why() -> None:
    for change, reason in (("privacy.noise_multiplier=0", "without noise"), ("stragglers.die=0.1", "alike")):
        changes = [*SMALL, "delay.timeout=1", "privacy.noise_multiplier=2", change]
        report = simulate(with_changes(None, changes)).privacy
        with pytest.raises(InvalidInput, match=reason):
            report.planned_for(10)


def test_a_later_version_may_add_keys_but_not_take_them_away(tmp_path: Path) -> None:
    folder = saved(tmp_path / "folder")
    path = folder / "privacy.json"
    privacy = json.loads(path.read_text())
    path.write_text(json.dumps(privacy | {"new": 1, "promised": privacy["promised"] | {"epsilon": 2.0, "newer": []}}))
    assert Result.load(folder).privacy.epsilon == 2.0
    for broken, words in (
        ({"delta": "1e-5"}, 'privacy.delta = "1e-5": must be a number'),
        ({"learns_by": "rote"}, 'privacy.learns_by = "rote": must be one of token, laps, gossip, server'),
        ({"in_this_run": {"guarantee": privacy["promised"]}}, "privacy.in_this_run.median = missing"),
        ({"promised": [1.0]}, r"privacy.promised = \[1.0\]: must be an object"),
        ({"planned": privacy["planned"] | {"order": {"kind": "ring"}}}, "privacy.planned.order.nodes = missing"),
    ):
        path.write_text(json.dumps(privacy | broken))
        with pytest.raises(InvalidInput, match=f"is damaged: {words}") as refusal:
            Result.load(folder)
        assert "\n" not in str(refusal.value)
    path.write_text("[]")
    with pytest.raises(InvalidInput, match="is damaged: privacy"):
        Result.load(folder)
    del privacy["promised"]["protects"]
    path.write_text(json.dumps(privacy))
    with pytest.raises(InvalidInput, match=r"is damaged: privacy\.promised\.protects = missing"):
        Result.load(folder)


def test_infinity_is_valid_json_and_comes_back(tmp_path: Path) -> None:
    result = Result.load(saved(tmp_path / "folder", "schedule.name=ring"))
    endless = replace(result.privacy, promised=replace(result.privacy.promised, epsilon=math.inf, refused=None))
    object.__setattr__(result, "privacy", from_json(PrivacyReport, to_json(endless)))
    result.save(tmp_path / "again")
    assert '"epsilon": 1e999' in (tmp_path / "again" / "privacy.json").read_text()
    assert Result.load(tmp_path / "again").privacy.epsilon == math.inf


def test_an_endless_timeout_is_one_in_the_folder_too(tmp_path: Path) -> None:
    run = with_changes(None, [*SMALL, "delay.timeout=inf", "learning.diameter=inf", "privacy.noise_multiplier=2"])
    result = simulate(run, out=tmp_path / "folder")
    assert '"timeout": 1e999' in (tmp_path / "folder" / "run.json").read_text()
    for found in (result, Result.load(tmp_path / "folder")):
        assert (found.settings["delay"]["timeout"], found.settings["learning"]["diameter"]) == (math.inf, math.inf)
        assert found.resolved.timeout == math.inf


def test_a_run_that_was_begun_with_an_endless_timeout_goes_on_with_no_other(tmp_path: Path) -> None:
    changes, stop = [*SMALL, "privacy.noise_multiplier=2"], threading.Event()
    stop.set()
    with pytest.raises(Interrupted):
        simulate(with_changes(None, [*changes, "delay.timeout=inf"]), out=tmp_path / "begun", stop=stop)
    with pytest.raises(InvalidInput, match="another run file"):
        simulate(with_changes(None, changes), out=tmp_path / "begun", resume=True)
    result = simulate(with_changes(None, [*changes, "delay.timeout=inf"]), out=tmp_path / "begun", resume=True)
    assert result.resolved.timeout == math.inf
