"""What is said beside the numbers: rows that go to waste, whom a silent file hides, and what is not covered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skipring.data import DATASETS
from skipring.learning import Protection
from skipring.network.setup import agreed_run, notes_on
from skipring.runs import not_covered, parse_run, rows_notes, turns_per_node
from skipring.simulation import Result, simulate

Command = Callable[[str], Any]
OWN = {"path": "own.csv", "label": "ill"}
WALK = {"name": "random-ring"}
QUICK = "--set simulation.runs=2 --set simulation.record_path=false"
QUICK += " --set schedule.name=random-ring --set schedule.steps=226"


@pytest.mark.parametrize(
    ("protection", "units", "turns", "said"),
    [
        (Protection(unit="record", batch=50), 50, 30, []),
        (
            Protection(unit="record", batch=51),
            50,
            30,
            ["no node has learning.batch = 51 rows: the largest node has"],
        ),
        (Protection(unit="record", batch=10), 300, 30, []),
        (
            Protection(unit="record", batch=10),
            301,
            30,
            ["some rows are never used: the largest node deals its"],
        ),
        (
            Protection(unit="person", batch=61, rows_per_person=3),
            20,
            30,
            ["no node has learning.batch = 61 rows:"],
        ),
        (Protection(unit="person", batch=60, rows_per_person=3), 20, 30, []),
        (Protection(unit="person", batch=3, rows_per_person=3), 20, 1, ["some rows are never used"]),
        (Protection(unit="node", batch=500), 1, 1, []),
    ],
)
def test_rows_that_go_to_waste_are_told(protection: Protection, units: int, turns: int, said: list[str]) -> None:
    notes = rows_notes(protection, units, turns)
    assert len(notes) == len(said)
    assert all(note.startswith(words) for note, words in zip(notes, said, strict=True))
    if said and said[0].startswith("no node"):
        assert rows_notes(protection, units, turns, largest=False) == ()  # others may have more


def test_turns_are_those_of_a_node() -> None:
    assert turns_per_node(10, 95) == 10
    assert turns_per_node(10, 95, iterations=True) == 95


def test_a_simulation_keeps_and_prints_its_notes(skipring: Command, tmp_path: Path) -> None:
    skipring("init")
    for batch, words in (
        (
            50,
            "No node has learning.batch = 50 rows: the largest node has 5 training rows, and every sum is divided",
        ),
        (
            1,
            "Some rows are never used: the largest node deals its rows into 5 parts, one for each turn, and has 2",
        ),
        (5, ""),
    ):
        answer = skipring(f"simulate run.toml --out of-{batch} {QUICK} --set learning.batch={batch}")
        assert (answer.code, answer.err) == (0, "")
        text = " ".join(answer.out.split())
        assert words in text
        assert ("divided by" in text or "never used" in text) == bool(words)
        kept = Result.load(tmp_path / f"of-{batch}").resolved.notes
        assert [words[1:] in note for note in kept] == ([True] if words else [])


def test_without_a_token_every_iteration_is_a_turn() -> None:
    run: dict[str, Any] = {
        "schedule": {"name": "federated", "steps": 5},
        "learning": {"batch": 1},
        "privacy": {"protects": "record", "noise_multiplier": 5.0},
        "simulation": {"runs": 1},
    }
    assert simulate(run).resolved.notes == ()
    assert len(simulate(run | {"schedule": {"name": "federated", "steps": 4}}).resolved.notes) == 1


def test_compare_says_that_a_silent_file_hides_records(skipring: Command, tmp_path: Path) -> None:
    quick = "[schedule]\nname = 'random-ring'\nsteps = 226\n[simulation]\nruns = 2\nrecord_path = false\n"
    quick += "[privacy]\nnoise_multiplier = 5.0\n"
    shown: list[Any] = []
    for protects in ("", 'protects = "record"\n', 'protects = "node"\n'):
        (tmp_path / "run.toml").write_text(quick + protects)
        answer = skipring(f"compare run.toml --timeouts most-updates,inf --out out{len(shown)}")
        assert max(map(len, answer.out.splitlines())) <= 80
        shown.append(" ".join(answer.out.split()).replace(f"out{len(shown)}", "out"))
    assert shown[0] == shown[1]
    assert "Epsilon protects one record (replace-one)" in shown[0]
    assert "Epsilon protects all data of a node (replace-one)" in shown[2]


def test_a_shared_data_set_is_not_covered_and_files_of_ones_own_are() -> None:
    shared = {"privacy": {"noise_multiplier": 3.0, "protects": "record"}, "learning": {"batch": 2}}
    notes = notes_on(agreed_run(parse_run(shared | {"schedule": {"name": "random-ring", "steps": 40}}), 4), 4)
    assert "the largest node deals its rows into 57 parts, one for each turn, and has 10 turns" in notes[0]
    assert notes[1].startswith("unless nodes have files of their own, features are standardised by the mean and deviat")
    large = shared | {"learning": {"batch": 500}}
    assert notes_on(agreed_run(parse_run(large), 4), 4)[0].startswith("no node has learning.batch = 500 rows")
    own = shared | {"model": {"name": "logistic", "classes": ["no", "yes"]}, "data": {"standardise": False}}
    assert notes_on(agreed_run(parse_run(own), 4), 4) == ()


def test_networks_say_what_is_not_covered() -> None:
    assert not_covered(parse_run({"data": OWN, "model": {"name": "mine:net"}})) == (
        "features are standardised by the mean and deviation of all nodes' rows (data.standardise), and classes are "
        "read off all nodes' labels (model.classes), which no epsilon covers"
    )
    for name in ("cnn", "small-cnn"):  # which take pixels as they are
        found = not_covered(parse_run({"data": OWN, "model": {"name": name}}))
        assert found == "classes are read off all nodes' labels (model.classes), which no epsilon covers"


@pytest.mark.parametrize("name", [*DATASETS, "consortium:radon"])
def test_laps_on_a_published_data_set_read_nothing_off_all_rows(name: str) -> None:
    assert not_covered(parse_run({"data": {"name": name}})) is None
    for changes in ({"data": {"name": name, "standardise": True}}, {"data": {"name": name}, "schedule": WALK}):
        assert not_covered(parse_run(changes)) == (
            "features are standardised by the mean and deviation of all nodes' rows (data.standardise), which no "
            "epsilon covers"
        )


def test_laps_on_rows_of_ones_own_say_what_their_scales_are() -> None:
    rows = np.random.default_rng(1).normal(size=(60, 2)) * [1.0, 1000.0]
    quick: dict[str, Any] = {"privacy": {"noise_multiplier": 8.0, "delta": 1e-3}, "simulation": {"runs": 1}}
    for data, unscaled, read in (
        ({}, True, "classes are read off"),
        ({"standardise": False}, False, "classes are read off"),
        ({"standardise": True}, False, "features are standardised by"),
    ):
        found = simulate(quick | {"data": {"nodes": 5} | data}, rows, rows[:, 0] > 0.0)
        assert any("give a schema with their ranges" in note for note in found.resolved.notes) == unscaled
        assert (found.privacy.promised.not_covered or "").startswith(read)
    cancer = simulate(quick | {"data": {"nodes": 5}})
    assert not any("schema" in note for note in cancer.resolved.notes)
    assert (cancer.privacy.promised.not_covered or "").startswith("no epsilon covers the test errors")


@pytest.mark.parametrize("split", ["dirichlet", "dirichlet-even", "shards", "iid", "power-law"])
@pytest.mark.parametrize("protects", ["record", "person", "node"])
def test_labels_that_decide_whose_rows_are_whose_are_not_covered(split: str, protects: str) -> None:
    told = str(not_covered(parse_run({"data": {"split": split}, "privacy": {"protects": protects}})))
    assert ("labels decide which node a row is dealt to" in told) == (
        split not in ("iid", "power-law") and protects != "node"
    )


def test_laps_say_where_they_are_local_releases_and_what_they_do_not_use() -> None:
    """Whether or not rows take turns."""
    for nodes, batch in ((2, None), (2, 100), (6, None), (6, 30)):
        values = {
            "data": {"nodes": nodes},
            "learning": {"rate": 0.5, **({} if batch is None else {"batch": batch})},
            "privacy": {"noise_multiplier": 8.0, "delta": 0.1},
            "simulation": {"runs": 1},
        }
        notes = simulate(values).resolved.notes
        assert [note for note in notes if "local releases" in note] == [
            "with two nodes, each hides its own contribution by itself (local releases): a sum gains nothing then"
        ] * (nodes == 2)
        assert "laps do not use learning.rate; laps.rate is for those that learn by gradients" in notes
        assert sum("one over the number of records" in note for note in notes) == 1
