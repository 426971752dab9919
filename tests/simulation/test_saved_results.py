"""What a result folder holds, and what one of an earlier version held: both can be read, and say the same."""

from __future__ import annotations

import json
import math
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skipring._json import from_json, to_json
from skipring.errors import InvalidInput
from skipring.privacy import PrivacyReport, forecast
from skipring.report.page import load_folders, report_page
from skipring.runs import with_changes
from skipring.simulation import Interrupted, ResolvedFacts, Result, simulate
from skipring.simulation.rivals import Federated, Gossip

#: run.json and privacy.json of folders that skipring 0.1.0 wrote before privacy.json had a record of the planned run.
BEFORE: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("folders_of_0_1_0.json").read_text())

SMALL = ["data.nodes=10", "schedule.steps=40", "simulation.runs=2", "simulation.evaluate_every=20"]


def write_before(folder: Path, name: str) -> Path:
    """Write a folder as it was written then."""
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps(BEFORE[name]["run"], indent=2))
    (folder / "privacy.json").write_text(json.dumps(BEFORE[name]["privacy"] | {"unit": "node"}, indent=2))
    steps = int(BEFORE[name]["run"]["resolved"]["steps"])
    numbers = np.tile([0.5, 0.2], (2, 1))
    np.savez(
        folder / "metrics.npz",
        points=np.array([0, steps]),
        test_error=numbers,
        loss=numbers,
        latency=np.tile([0.0, 3.0], (2, 1)),
        updates=np.tile([0, 5], (2, 1)),
        models=np.zeros((2, 3)),
        offered=np.full(10, steps // 5),
        skipped=np.ones(10, dtype=np.int64),
    )
    return folder


@pytest.mark.parametrize("name", BEFORE)
def test_a_folder_of_before_is_read_and_written_with_the_same_keys_and_values(name: str, tmp_path: Path) -> None:
    result = Result.load(write_before(tmp_path / "before", name))
    assert result.schedule == BEFORE[name]["run"]["schedule"]["name"]
    assert result.privacy.planned is None
    result.save(tmp_path / "after")
    privacy = dict(BEFORE[name]["privacy"])
    if "epsilon" in privacy.get("paper", {}) and "method" not in privacy["paper"]:  # trusted then, and unchecked
        privacy["paper"] = privacy["paper"] | {"trusted": False, "doubt": "an earlier version wrote it unchecked"}
    privacy |= {"unit": "node", "every": 1}  # all that was protected then; now it is named
    for file, before in (("run.json", BEFORE[name]["run"]), ("privacy.json", privacy)):
        after = json.loads((tmp_path / "after" / file).read_text())
        assert after == before
        assert list(after) == list(before)
    again = Result.load(tmp_path / "after")
    assert (again.privacy, again.resolved, again.summary()) == (result.privacy, result.resolved, result.summary())
    assert result.summary().to_json()["privacy"] == privacy


def test_what_was_resolved_has_types(tmp_path: Path) -> None:
    found = {name: ResolvedFacts.from_json(parts["run"]["resolved"]) for name, parts in BEFORE.items()}
    assert math.isinf(found["ring"].timeout)
    assert found["ring"].rival is None
    assert isinstance(found["gossip"].rival, Gossip)
    assert found["gossip"].rival.slots == 5.0
    assert isinstance(found["federated"].rival, Federated)
    assert {resolved.nodes for resolved in found.values()} == {10}


def test_a_page_about_a_folder_of_before_has_all_but_the_lines_of_epsilon(tmp_path: Path) -> None:
    folders = load_folders([write_before(tmp_path / name, name) for name in BEFORE])
    page = report_page(folders)
    assert "kept no record of the planned run; simulate it again" in page
    assert '<div id="error"' in page
    assert '<div id="epsilon"' not in page


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
    privacy = simulate(with_changes(None, [*SMALL, "schedule.steps=45", "privacy.noise_multiplier=4"])).privacy
    assert privacy.forecast is not None
    assert "multiple of nodes" in str(privacy.forecast.refused)
    assert privacy.epsilon is None
    assert privacy.planned_for(45).steps == 50


def test_where_there_is_no_record_it_is_said_why() -> None:
    for name, reason in (("no-noise", "without noise"), ("not-alike", "alike"), ("ring", "kept no record")):
        report = from_json(PrivacyReport, BEFORE[name]["privacy"], "privacy")
        with pytest.raises(InvalidInput, match=reason):
            report.planned_for(10)


def test_a_later_version_may_add_keys_but_not_take_them_away(tmp_path: Path) -> None:
    folder = write_before(tmp_path / "folder", "random-ring")
    privacy = BEFORE["random-ring"]["privacy"] | {"unit": "node"}
    path = folder / "privacy.json"
    path.write_text(json.dumps(privacy | {"new": 1, "forecast": {"epsilon": 2.0, "newer": []}}))
    assert Result.load(folder).privacy.epsilon == 2.0
    for broken, words in (
        ({"delta": "1e-5"}, 'privacy.delta = "1e-5": must be a number'),
        ({"view": "someone"}, 'privacy.view = "someone": must be one of offered, any node, server'),
        ({"realised": {"worst": 1.0}}, "privacy.realised.median = missing"),
        ({"forecast": [1.0]}, r"privacy.forecast = \[1.0\]: must be an object"),
        ({"planned": {"schedule": "ring"}}, "privacy.planned.nodes = missing"),
    ):
        path.write_text(json.dumps(privacy | broken))
        with pytest.raises(InvalidInput, match=f"is damaged: {words}") as refusal:
            Result.load(folder)
        assert "\n" not in str(refusal.value)
    path.write_text("[]")
    with pytest.raises(InvalidInput, match="is damaged: privacy"):
        Result.load(folder)
    del privacy["unit"]
    path.write_text(json.dumps(privacy))
    with pytest.raises(InvalidInput, match=r"is damaged: .*does not say what its epsilon hides"):
        Result.load(folder)


def test_infinity_is_valid_json_and_comes_back(tmp_path: Path) -> None:
    result = Result.load(write_before(tmp_path / "folder", "ring"))
    endless = to_json(result.privacy) | {"forecast": {"epsilon": math.inf}}
    object.__setattr__(result, "privacy", from_json(PrivacyReport, endless))
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
    # Earlier versions wrote null, which is what a run file without a timeout is, too.
    path = tmp_path / "folder" / "run.json"
    path.write_text(path.read_text().replace('"timeout": 1e999', '"timeout": null'))
    before = Result.load(tmp_path / "folder")
    assert (before.settings["delay"]["timeout"], before.resolved.timeout) == (None, math.inf)


def test_a_run_that_was_begun_with_an_endless_timeout_goes_on_with_no_other(tmp_path: Path) -> None:
    changes, stop = [*SMALL, "privacy.noise_multiplier=2"], threading.Event()
    stop.set()
    with pytest.raises(Interrupted):
        simulate(with_changes(None, [*changes, "delay.timeout=inf"]), out=tmp_path / "begun", stop=stop)
    with pytest.raises(InvalidInput, match="another run file"):
        simulate(with_changes(None, changes), out=tmp_path / "begun", resume=True)
    result = simulate(with_changes(None, [*changes, "delay.timeout=inf"]), out=tmp_path / "begun", resume=True)
    assert result.resolved.timeout == math.inf
