"""Whom a run file protects: records, persons or nodes, from the file to the rows that an update takes."""

from __future__ import annotations

import itertools
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skipring import SkipRingClassifier
from skipring.errors import InvalidInput
from skipring.experiments import worth
from skipring.network.setup import agreed_run, notes_on
from skipring.privacy import OUTSIDER
from skipring.runs import (
    change_value,
    dealt_rows,
    example_run_file,
    parse_change,
    parse_run,
    protection_of,
    with_changes,
)
from skipring.simulation import Result, simulate
from skipring.simulation.build import build


def table(folder: Path, rows: list[tuple[str, str]], name: str = "patients.csv") -> str:
    """A file with a hospital and a patient for each row, and labels that depend on one feature."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((len(rows), 2))
    lines = ["hospital,patient,a,b,sick"]
    lines += [f"{h},{p},{a:.4f},{b:.4f},{int(a > 0)}" for (h, p), (a, b) in zip(rows, x, strict=True)]
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def persons_run(path: str, **privacy: Any) -> dict[str, Any]:
    return {
        "data": {
            "path": path,
            "label": "sick",
            "node": "hospital",
            "person": "patient",
            "rows_per_person": 2,
            "standardise": False,
        },
        "privacy": {"protects": "person", "noise_multiplier": 2.0, **privacy},
        "simulation": {"runs": 2, "evaluate_every": 1000},
    }


PATIENTS = [(f"h{p % 3}", f"p{p}") for p in range(30) for _ in range(1 + p % 4)]


def test_a_file_that_does_not_say_whom_the_noise_hides_protects_records(tmp_path: Path) -> None:
    (tmp_path / "new.toml").write_text(example_run_file())
    assert with_changes(tmp_path / "new.toml", []).privacy.protects == "record"
    silent = parse_run({"data": {"nodes": 7}, "privacy": {"noise_multiplier": 2.0}, "simulation": {"runs": 1}})
    assert (
        silent.privacy.protects
        == build(silent).protection.unit
        == simulate(silent).privacy.promised.protects
        == "record"
    )
    assert agreed_run(silent, 7).privacy.protects == "record"


def test_a_delta_above_one_over_the_number_of_protected_units_is_noted() -> None:
    for unit, units, also in (("record", 455, {}), ("node", 7, {"learning": {"batch": 3}})):
        for delta in (0.9 / units, 1.1 / units):
            privacy = {"protects": unit, "noise_multiplier": 2.0, "delta": delta}
            run = parse_run({"data": {"nodes": 7}, "privacy": privacy, "simulation": {"runs": 1}} | also)
            said = [f"delta {delta:g} is above 1 / {units}, one over the number of {unit}s"]
            for notes in (simulate(run).resolved.notes, notes_on(agreed_run(run, 7), 7)):
                found = [note.partition(":")[0] for note in notes if note.endswith("(privacy.delta)")]
                assert found == (said if delta * units > 1.0 else [])


def test_the_estimator_and_worth_warn_of_a_large_delta() -> None:
    rows, labels = np.eye(80), np.arange(80) % 2
    learner = SkipRingClassifier(nodes=8, noise_multiplier=4.0, delta=0.1, rounds=2, random_state=1)
    with pytest.warns(UserWarning, match=r"delta 0\.1 is above 1 / 80, one over the number of records"):
        learner.fit(rows, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner.set_params(delta=0.01).fit(rows, labels)
    for delta in (0.002, 0.003):
        run = parse_run(
            {"data": {"nodes": 7}, "schedule": {"name": "random-ring", "steps": 14}, "privacy": {"delta": delta}}
        )
        found = worth(run, epsilons=[8.0], splits=2).large_delta
        assert found is None if delta == 0.002 else str(found).startswith("delta 0.003 is above 1 / 455")


def test_the_usual_batch_is_the_largest_node_and_nobody_rotates() -> None:
    setup = build(parse_run({"data": {"nodes": 7, "split": "power-law"}, "privacy": {"protects": "record"}}))
    assert setup.protection.batch == setup.data.sizes.max()
    assert setup.part_counts == (1,)
    assert all(len(parts) == 1 for parts in setup.parts)
    assert protection_of(parse_run({"privacy": {"protects": "record"}})) is None  # nobody has looked at the rows


def test_larger_nodes_rotate_and_all_divide_by_the_batch() -> None:
    run = parse_run({"data": {"nodes": 9}, "learning": {"batch": 20}, "privacy": {"protects": "record"}})
    setup = build(run)
    assert {len(parts) for parts in setup.parts} == {3}
    assert setup.part_counts == (3,)
    assert setup.most_units <= 20


def test_nodes_with_different_numbers_of_parts_keep_a_budget_and_a_folder(tmp_path: Path) -> None:
    """Ten, fifteen and thirty rows for training, five at a time; what is kept tells what the forecast was made from."""
    rows = [(f"h{node}", "") for node, size in enumerate((10, 15, 30)) for _ in range(size)]
    values: dict[str, Any] = {
        "data": {"path": table(tmp_path, [(h, f"p{i}") for i, (h, _) in enumerate(rows)]), "label": "sick"},
        "learning": {"batch": 5},
        "schedule": {"name": "random-ring", "steps": 30},
        "privacy": {"protects": "record", "epsilon": 4.0, "delta": 1e-5},
        "simulation": {"runs": 1, "evaluate_every": 1000},
    }
    values["data"] |= {"node": "hospital", "person": "patient", "standardise": False, "test_share": 1e-9}
    result = simulate(values)
    planned = result.privacy.planned
    assert planned is not None
    assert (planned.unit.parts, planned.unit.every, result.resolved.parts) == ((2, 3), 1, 6)
    assert result.privacy.epsilon == pytest.approx(4.0, rel=1e-6)
    outsider = result.privacy.promised.beside(OUTSIDER)
    assert outsider is not None
    assert (outsider.epsilon or math.inf) < 4.0
    result.save(tmp_path / "folder")
    assert Result.load(tmp_path / "folder").privacy == result.privacy
    at_every_turn = dict(values, privacy=values["privacy"] | {"protects": "node"}, learning={})
    assert result.resolved.noise_multiplier < 0.8 * simulate(at_every_turn).resolved.noise_multiplier


def test_persons_keep_their_first_rows_and_stay_together(tmp_path: Path) -> None:
    run = parse_run(persons_run(table(tmp_path, PATIENTS)))
    dataset, ready, owned = dealt_rows(run)
    assert owned.persons is not None
    assert ready.train_persons is not None
    assert np.bincount(owned.persons).max() == 2
    assert len(owned.labels) < len(ready.train_y)
    # No person is both in training and in test rows.
    assert len(ready.test_y) + len(ready.train_y) == len(PATIENTS)
    tested = set(range(30)) - set(ready.train_persons.tolist())
    assert len(ready.test_y) == sum(1 + int(dataset.person_names[p][1:]) % 4 for p in tested)
    for node in range(owned.nodes):
        rows = slice(owned.start[node], owned.start[node + 1])
        names = {dataset.person_names[p] for p in owned.persons[rows]}
        assert {int(name[1:]) % 3 for name in names} == {int(dataset.group_names[node][1:])}
    setup = build(run)
    assert setup.rows_left_out == len(ready.train_y) - len(owned.labels) > 0
    assert setup.protection.contribution(setup.model) == 2.0
    walk = run.having(schedule={"name": "random-ring"})
    setup, result = build(walk), simulate(walk)
    assert result.privacy.promised.protects == "person"
    assert result.resolved.rows_left_out == setup.rows_left_out
    assert setup.protection.batch is not None
    assert result.resolved.noise_std == pytest.approx(2.0 * 2.0 / setup.protection.batch)


def test_a_person_at_two_nodes_is_refused_by_name(tmp_path: Path) -> None:
    path = table(tmp_path, [*PATIENTS, ("h1", "p0"), ("h1", "p0")])
    values = persons_run(path)
    values["data"]["test_share"] = 0.01  # one person, and not this one
    with pytest.raises(InvalidInput, match=r"data\.person = patient: 'p0' has rows at h0 and h1"):
        dealt_rows(parse_run(values))


def test_without_a_node_column_whole_persons_are_dealt(tmp_path: Path) -> None:
    path = Path(table(tmp_path, PATIENTS))
    path.write_text("".join(line.partition(",")[2] for line in path.read_text().splitlines(keepends=True)))
    values = persons_run(str(path))
    del values["data"]["node"]
    for split in ("iid", "power-law"):
        values["data"] |= {"nodes": 5, "split": split}
        _, _, owned = dealt_rows(parse_run(values))
        assert owned.persons is not None
        homes = [set(owned.persons[low:high].tolist()) for low, high in itertools.pairwise(owned.start)]
        assert sum(map(len, homes)) == len(set(owned.persons.tolist())) == 24
    assert max(map(len, homes)) > 5  # of power-law
    values["data"]["split"] = "shards"
    with pytest.raises(InvalidInput, match=r"data\.split shards deals rows; iid and power-law deal persons"):
        dealt_rows(parse_run(values))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["data.rows_per_person=0"], "data.rows_per_person = 0"),
        (["privacy.protects=household"], "privacy.protects"),
        (["data.person=nobody"], "data.person = nobody"),
        (["data.person=sick"], "data.person = sick"),
        (["learning.batch=1"], "learning.batch = 1"),
        (["privacy.protects=record"], "data.rows_per_person = 2: is for persons"),
    ],
)
def test_bad_input_is_named_by_its_key(tmp_path: Path, changes: list[str], message: str) -> None:
    values = persons_run(table(tmp_path, PATIENTS))
    for change in changes:
        change_value(values, *parse_change(change))
    with pytest.raises(InvalidInput) as refusal:
        build(parse_run(values))
    assert str(refusal.value).startswith(message)


def test_persons_need_a_column_and_a_most(tmp_path: Path) -> None:
    path = table(tmp_path, PATIENTS)
    for key in ("person", "rows_per_person"):
        values = persons_run(path)
        del values["data"][key]
        with pytest.raises(InvalidInput, match=rf"data.{key} = missing"):
            dealt_rows(parse_run(values))


def test_a_person_column_with_gaps_is_refused(tmp_path: Path) -> None:
    path = table(tmp_path, [*PATIENTS[:5], ("h1", ""), *PATIENTS[5:]])
    with pytest.raises(InvalidInput, match=r"column 'patient', row 6 \(line 7\): '' is not a value"):
        dealt_rows(parse_run(persons_run(path)))


def test_the_usual_batch_does_not_tell_how_many_rows_a_person_has(tmp_path: Path) -> None:
    rows = [(f"h{p % 3}", f"p{p}") for p in range(30) for _ in range(2)]
    fewer = [row for row in rows if row[1] != "p7"] + [("h1", "p7")]
    found = {build(parse_run(persons_run(table(tmp_path, some)))).protection.batch for some in (rows, fewer)}
    assert len(found) == 1


def test_whose_a_row_is_changes_nothing_if_records_are_protected(tmp_path: Path) -> None:
    values = persons_run(table(tmp_path, PATIENTS), protects="record")
    del values["data"]["rows_per_person"]
    one = dealt_rows(parse_run(values))[2]
    renamed = [(h, "somebody" if place == 40 else p) for place, (h, p) in enumerate(PATIENTS)]
    values["data"]["path"] = table(tmp_path, renamed, "renamed.csv")
    other = dealt_rows(parse_run(values))[2]
    assert (one.features == other.features).all()
    assert one.persons is None
