"""Images with each record hidden: the search, the runs and what is told of them, on a small data set."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from skipring.experiments import IMAGE_DELTA, ImageRow, ImageStudy, image_study
from skipring.experiments.images import IMAGE_WAYS, ImageWay, _run
from skipring.privacy import OUTSIDER, forecast, planned_run
from skipring.report import image_findings
from skipring.runs import parse_run
from skipring.simulation import simulate


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> list[ImageRow]:
    """Handwritten digits of 8 x 8 pixels, 12 nodes of 100 rows, two lengths, two rates."""
    digits = ImageWay(
        data="digits",
        name="convex head on pixels",
        nodes=12,
        rows=100,
        model={"name": "softmax"},
        epsilons=(20.0, 0.5),
        rounds=(5, 20),
        rates=(1.0, 4.0),
        bounds=(0.5,),
    )
    monkeypatch.setitem(IMAGE_WAYS, "digits", digits)
    seen: list[int] = []
    study = ImageStudy(ways=("digits",), runs=3, device="cpu")
    found = list(image_study(study, progress=seen.append))
    assert seen == list(range(1, study.pieces + 1))
    assert [row.accuracies for row in found] == [row.accuracies for row in image_study(study)]
    return found


def test_each_row_is_what_a_run_of_that_length_and_noise_costs(rows: list[ImageRow], tmp_path: Path) -> None:
    strict, loose = sorted(rows, key=lambda row: row.epsilon)
    assert loose.median > 0.6
    assert loose.median > strict.median
    for row in rows:
        rounds = int(row.chosen.split()[0])
        run = planned_run(
            schedule="random-ring",
            nodes=12,
            steps=12 * rounds,
            skip=0.3,
            noise_multiplier=row.noise_multiplier,
            step_size="constant",
            protects="record",
        )
        assert forecast(run).epsilon(IMAGE_DELTA) == pytest.approx(row.epsilon, rel=1e-9)
        final = forecast(run.replace(against="outsider")).epsilon(IMAGE_DELTA)
        assert final == pytest.approx(row.final_epsilon, rel=1e-9)
        assert row.final_epsilon < row.epsilon
        assert row.noise_std == pytest.approx(row.noise_multiplier * 0.5 / 100)
        assert (row.searched, len(row.accuracies), row.amplified) == (4, 3, True)
    image_findings(ImageStudy(), rows).write(tmp_path / "images.csv")
    with (tmp_path / "images.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [line["unit"] for line in lines] == ["record"] * 2
    assert float(lines[0]["accuracy_median"]) == pytest.approx(loose.median, abs=1e-4)


def test_laps_of_images_promise_what_their_run_file_does(monkeypatch: pytest.MonkeyPatch) -> None:
    digits = ImageWay(
        data="digits",
        name="convex head, laps",
        nodes=12,
        rows=100,
        model={"name": "softmax"},
        epsilons=(4.0,),
        rounds=(2, 5),
        rates=(None,),
        bounds=(0.5,),
        laps=True,
        coalition=1,
    )
    monkeypatch.setitem(IMAGE_WAYS, "digits", digits)
    (row,) = image_study(ImageStudy(ways=("digits",), runs=2, device="cpu"))
    assert row.epsilon == pytest.approx(4.0, rel=1e-6)
    assert (row.against, row.method, row.noise_std, row.amplified) == ("another node", "laps", None, True)
    laps = int(row.chosen.split()[0])
    assert row.chosen == f"{laps} laps, rate usual, bound 0.5"
    run = parse_run(
        {
            "data": {"name": "digits", "nodes": 12, "standardise": False, "test_share": 297 / 1797},
            "model": {"name": "softmax"},
            "schedule": {"name": "laps"},
            "laps": {"laps": laps, "coalition": 1},
            "delay": {"timeout": float("inf")},
            "learning": {"gradient_bound": 0.5},
            "privacy": {"protects": "record", "delta": IMAGE_DELTA, "epsilon": 4.0},
            "simulation": {"runs": 2},
        }
    )
    result = simulate(run)
    assert result.resolved.noise_multiplier == pytest.approx(row.noise_multiplier)
    outside = result.privacy.promised.beside(OUTSIDER)
    assert outside is not None
    assert outside.epsilon == pytest.approx(row.final_epsilon)
    # Other test rows, and fewer to learn from in the study: both are far from guessing (0.1 right).
    assert row.median > 0.5
    assert abs(1.0 - float(result.test_error[:, -1].mean()) - row.median) < 0.15


def test_all_ways_have_a_run_file_in_which_each_record_is_protected() -> None:
    for way in IMAGE_WAYS.values():
        for tried in way.grid:
            run = _run(way, way.nodes, tried, way.epsilons[0], 1, "cpu")
            assert (run.privacy.protects, run.privacy.epsilon) == ("record", way.epsilons[0])
            assert run.schedule.name == ("laps" if way.laps else "random-ring")


def test_the_figure_is_drawn(tmp_path: Path) -> None:
    row = ImageRow(
        way="mnist-head",
        data="mnist",
        name="convex head",
        epsilon=2.0,
        against="another node",
        method="tight",
        final_epsilon=1.0,
        accuracies=(0.95, 0.96),
        chosen="1 rounds",
        validation=0.9,
        searched=1,
        noise_multiplier=3.0,
        noise_std=0.1,
        amplified=True,
    )
    image_findings(ImageStudy(), [row]).draw([tmp_path / "a.png"])
    assert (tmp_path / "a.png").stat().st_size > 5000
