"""Four hospitals: noise, splits and search of the study, and its way to files."""

from __future__ import annotations

import csv
import dataclasses
import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skipring.data import load_dataset
from skipring.experiments import ALWAYS_SICK, METHODS, Study, StudyRow, hospital_study
from skipring.experiments import hospitals as module
from skipring.experiments.central import Tuning, central_noise, descend
from skipring.learning import LOGISTIC, LinearLearner, LinearModel, Protection, Rows, StepSizes
from skipring.privacy import gdp_epsilon
from skipring.runs import read_run_file
from skipring.simulation import Interrupted, build, simulate

Command = Callable[[str], Any]
ROOT = Path(__file__).resolve().parents[2]
TUNINGS = [
    Tuning(rounds=7, rate=1.5, step_size="constant", gradient_bound=0.3),
    Tuning(rounds=4, rate=4.0, step_size="sqrt", gradient_bound=1.0),
    Tuning(rounds=7, rate=8.0, step_size="constant", gradient_bound=0.05),
]
SMALL = dataclasses.replace(Study.quick(), splits=2, draws=2, epsilons=(5.0,), grid=Study.quick().grid[1:])


class Replayed:
    """Noise that was drawn before."""

    def __init__(self, drawn: list[Any]) -> None:
        self._drawn = iter(drawn)

    def add(self, vector: Any, std: float) -> None:
        vector += std * next(self._drawn)


@pytest.mark.parametrize("noise", [0.0, 3.0])
def test_many_descents_at_once_are_a_node_that_learns_alone(noise: float) -> None:
    dataset = load_dataset("hospitals")
    x, y = dataset.features[:50], dataset.labels[:50]
    rng = np.random.default_rng(3)
    found = descend(x, y, TUNINGS, [noise] * 3, np.random.default_rng(7), diameter=2.0)
    same = np.random.default_rng(7)
    drawn = [same.standard_normal((3, x.shape[1])) for _ in range(7)]
    for number, tuning in enumerate(TUNINGS):
        model = LinearModel(loss=LOGISTIC, features=x.shape[1], diameter=2.0, clip=tuning.gradient_bound)
        learner = LinearLearner(model, Rows(x, y, x, y, 2), protection=Protection(unit="record", batch=50), rng=rng)
        w, source = learner.initial(), Replayed([step[number] for step in drawn])
        for turn, size in enumerate(StepSizes(tuning.rate, tuning.step_size).first(tuning.rounds)):
            w = learner.update(w, turn=turn, step_size=float(size), noise_multiplier=noise, noise=source)
        np.testing.assert_allclose(found[number], w, rtol=1e-9, atol=1e-12)
    assert np.linalg.norm(found, axis=1).max() > 0.5


@pytest.mark.parametrize(("steps", "epsilon"), [(1, 0.1), (20, 1.0), (5, 10.0)])
def test_the_noise_of_one_place_is_that_of_composed_gaussian_mechanisms(steps: int, epsilon: float) -> None:
    noise = central_noise(steps, epsilon, 1e-4)
    # Replacing a record moves a sum by twice the bound; k releases of sensitivity 2 at std z are one of 2 sqrt(k) / z.
    assert gdp_epsilon(2.0 * math.sqrt(steps) / noise, 1e-4) == pytest.approx(epsilon, rel=1e-6)


def test_splits_take_a_third_of_every_hospital_and_folds_stay_within_the_training_rows() -> None:
    dataset = load_dataset("hospitals")
    numbered = dataclasses.replace(
        dataset, features=np.arange(740.0)[:, None] @ np.ones((1, 2)), feature_names=("a", "b")
    )
    work = module._Split(Study(), numbered, 3)
    whole, *folds = work._rows
    assert whole.groups is not None
    assert whole.test_rows is not None
    assert np.bincount(whole.groups[whole.test_rows]).tolist() == [103, 89, 16, 44]
    tested = set(whole.features[whole.test_rows, 0])
    assert len(folds) == Study().folds
    for fold in folds:
        assert fold.groups is not None
        assert fold.test_rows is not None
        assert tested.isdisjoint(fold.features[:, 0])
        assert np.bincount(fold.groups[fold.test_rows]).tolist() == [67, 57, 10, 29]
    assert set(folds[0].features[folds[0].test_rows, 0]) != set(folds[1].features[folds[1].test_rows, 0])
    other = module._Split(Study(), numbered, 4)._rows[0]
    assert other.test_rows is not None
    assert not np.array_equal(other.test_rows, whole.test_rows)


def test_a_column_for_each_hospital_keeps_rows_within_norm_one() -> None:
    rows = module._with_hospital(load_dataset("hospitals"))
    assert rows.feature_names[-4:] == ("cleveland", "budapest", "zurich", "long-beach")
    assert rows.features.shape == (740, 19)
    assert np.linalg.norm(rows.features, axis=1).max() <= 1.0
    # Two hospitals are as far apart as two kinds of chest pain.
    kinds = rows.features[:, 8:12]
    assert kinds.max() == pytest.approx(math.sqrt(1.0 / 7.0), rel=1e-12)
    assert rows.features[:, -4:].max() == pytest.approx(kinds.max(), rel=1e-12)


@pytest.fixture(scope="module")
def rows() -> list[StudyRow]:
    return hospital_study(SMALL)


def test_hiding_patients_leaves_a_model_where_hiding_hospitals_leaves_chance(rows: list[StudyRow]) -> None:
    found = {row.method: row for row in rows}
    assert list(found) == list(METHODS)
    # Four models each. Their accuracies are 0.02 (records) and 0.12 (hospitals) apart from each other.
    assert found["record"].all_rows.mean > 0.72
    assert found["record"].all_rows.mean > found["node"].all_rows.mean + 0.1
    assert found["no noise"].all_rows.mean > 0.74
    assert found["pooled"].all_rows.mean > 0.74
    assert found["alone"].all_rows.mean > 0.72
    assert found["own"].all_rows.mean > 0.72
    for row in rows:
        for spread in (row.mean_over_hospitals, row.all_rows):
            assert 0.0 <= spread.low <= spread.median <= spread.high <= 1.0
        assert np.mean(row.by_hospital) == pytest.approx(row.mean_over_hospitals.mean)
        assert row.runs == 4
        assert (row.realised is not None) == (row.method in ("record", "own", "node"))
    # What a pair named before is promised, and what the worst pair of one path has.
    assert found["record"].realised is not None
    assert 4.0 < found["record"].realised[0] <= found["record"].realised[1] < 7.5
    # A patient and a hospital are hidden by the same multiple of what they contribute.
    assert found["record"].noise_multiplier == found["node"].noise_multiplier


def test_a_study_is_the_same_for_the_same_seed_only(rows: list[StudyRow]) -> None:
    assert hospital_study(SMALL) == rows
    assert hospital_study(dataclasses.replace(SMALL, seed=2))[0].all_rows != rows[0].all_rows


def test_the_noise_is_what_a_run_file_with_that_epsilon_gets() -> None:
    sections = module._sections("record", TUNINGS[0])
    split = module._Split(SMALL, load_dataset("hospitals"), 0)
    end = split._ring(0, "record", 5.0, TUNINGS[0])
    del sections["privacy"]["noise_multiplier"]
    run = read_run_file(ROOT / "examples" / "hospitals" / "run.toml").model_validate(
        sections | {"privacy": sections["privacy"] | {"epsilon": 5.0}}
    )
    assert build(run, split._rows[0]).noise_multiplier == end.setup.noise_multiplier
    assert (end.setup.protection.batch, end.setup.most_units, end.setup.part_counts) == (200, 200, (1,))


def test_always_sick_is_what_it_is_said_to_be() -> None:
    dataset = load_dataset("hospitals")
    assert dataset.groups is not None
    shares = [dataset.labels[dataset.groups == hospital].mean() for hospital in range(4)]
    assert (round(float(np.mean(shares)), 3), round(float(dataset.labels.mean()), 3)) == ALWAYS_SICK


def test_ctrl_c_ends_a_study() -> None:
    stop, done = threading.Event(), []

    def progress(finished: int) -> None:
        done.append(finished)
        stop.set()

    with pytest.raises(Interrupted, match="0 of 2 splits are finished"):
        hospital_study(SMALL, stop=stop, progress=progress)
    assert done == [1]


def test_the_command_leaves_a_figure_and_its_numbers(
    skipring: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[StudyRow]
) -> None:
    asked = []

    def study(given: Study, **_: object) -> list[StudyRow]:
        asked.append(given)
        return rows

    monkeypatch.setattr(module, "hospital_study", study)
    monkeypatch.setattr("skipring.experiments.hospital_study", study, raising=False)
    answer = skipring("paper beyond hospitals --quick --runs 2 --out out --json")
    assert answer.code == 0, answer.err
    assert asked == [dataclasses.replace(Study.quick(), splits=2)]
    assert answer.data["files"] == [f"out/hospitals-quick.{suffix}" for suffix in ("png", "svg", "csv")]
    assert all((tmp_path / file).stat().st_size > 1000 for file in answer.data["files"])
    assert [row["method"] for row in answer.data["rows"]] == [row.method for row in rows]
    with (tmp_path / answer.data["files"][2]).open() as file:
        lines = list(csv.DictReader(file))
    assert [float(line["rows_mean"]) for line in lines] == pytest.approx([row.all_rows.mean for row in rows], rel=1e-5)
    assert [line["worst_pair_median"] == "" for line in lines] == [row.realised is None for row in rows]
    shown = skipring("paper beyond hospitals --out out")
    assert asked[-1] == Study()
    assert max(map(len, shown.out.splitlines())) <= 80
    words = " ".join(shown.out.split())
    assert f"together, each patient hidden {100.0 * rows[0].mean_over_hospitals.mean:.1f}" in words
    assert "No epsilon covers that search" in words
    assert "one row each, so a record is a person" in words


def test_the_example_hides_each_patient_and_reads_nothing_off_the_rows() -> None:
    result = simulate(ROOT / "examples" / "hospitals" / "run.toml")
    privacy = result.privacy
    assert (privacy.promised.protects, privacy.delta, privacy.not_amplified_because) == ("record", 1e-4, None)
    assert privacy.promised.not_covered is not None
    assert privacy.promised.not_covered.startswith(
        "no epsilon covers the test errors of tokens on their way"
    )  # and no rows
    assert privacy.epsilon == pytest.approx(1.0, rel=1e-6)
    assert result.summary().skip_rate == 0.0
    # 20 models on 252 patients, 0.02 apart from each other.
    assert 0.18 < result.summary().test_error.mean < 0.27
