"""`skipring paper beyond traces`, on small traces of its own."""

from __future__ import annotations

import csv
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skipring.errors import InvalidInput
from skipring.experiments import TRACE_CASES, TRACE_PANELS, TraceStudy, trace_study
from skipring.experiments.traces import _answers, _setup
from skipring.simulation import Interrupted

Command = Callable[[str], Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Phones that are there one third of the time, workers of which some are slow, and links."""
    rng = np.random.default_rng(3)
    where = tmp_path / "traces"
    where.mkdir()
    starts = np.cumsum(rng.exponential(900.0, (20, 60)), axis=1)
    events = [
        (phone, int(second), int(number % 3 == 0)) for phone in range(20) for number, second in enumerate(starts[phone])
    ]
    np.savez(where / "phones.npz", events=np.array(events), training_seconds=rng.integers(2, 40, 20))
    rows = [(worker, time, 900 if worker < 3 else 60) for worker in range(10) for time in range(50)]
    np.savez(where / "alibaba-minibatch.npz", job4=np.array(rows))
    np.savez(where / "seattle-rtt.npz", rtt=rng.exponential(0.3, (2, 25, 25)))
    return where


def test_all_cases_of_all_traces_are_drawn_and_listed(skipring: Command, folder: Path, tmp_path: Path) -> None:
    answer = skipring(f"paper beyond traces --quick --traces {folder} --out {tmp_path / 'out'} --json")
    assert answer.code == 0, answer.err
    rows = answer.data["rows"]
    assert [(row["panel"], row["case"]) for row in rows] == [(p, c) for p in TRACE_PANELS for c in TRACE_CASES]
    assert all(Path(file).stat().st_size > 1000 for file in answer.data["files"])
    found = {(row["panel"], row["case"]): row for row in rows}
    for panel in TRACE_PANELS:
        never = found[panel, "never skip"]
        assert never["updates_fewest"] == never["updates_most"] == 6.0
        assert never["time"] > found[panel, "ahead"]["time"]
        assert found[panel, "ahead"]["updates"] >= found[panel, "Lemma 2"]["updates"]
        assert found[panel, "ahead, fewer rows"]["updates"] >= found[panel, "ahead"]["updates"]
        assert all(found[panel, case]["epsilon"] > 0.0 for case in TRACE_CASES)
    # Three workers of ten need fifteen times as long: in time they never finish, but some of their rows do.
    assert found["cluster", "Lemma 2"]["updates_fewest"] == 0.0
    assert found["cluster", "ahead, fewer rows"]["updates_fewest"] > 4.0
    with (tmp_path / "out" / "traces-quick.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert {line["case"] for line in lines} == set(TRACE_CASES)
    last = [line for line in lines if line["panel"] == "links" and line["case"] == "kept"][-1]
    assert float(last["epsilon"]) == pytest.approx(found["links", "kept"]["epsilon"], rel=1e-5)


def test_it_tells_of_each_run_and_can_be_interrupted(folder: Path) -> None:
    stop, told = threading.Event(), list[int]()

    def until_a_run_of_the_second_case(done: int) -> None:
        told.append(done)
        if done == 3:
            stop.set()

    with pytest.raises(Interrupted, match=r"[3-4] of 36 runs are finished"):
        trace_study(folder, TraceStudy.quick(), stop=stop, progress=until_a_run_of_the_second_case)
    assert told in ([1, 2, 3], [1, 2, 3, 4])  # what has begun is finished


@pytest.mark.slow
def test_a_table_for_people(skipring: Command, folder: Path, tmp_path: Path) -> None:
    answer = skipring(f"paper beyond traces --quick --runs 1 --traces {folder} --out {tmp_path / 'out'}")
    assert answer.code == 0, answer.err
    assert max(map(len, answer.out.splitlines())) <= 100
    words = " ".join(answer.out.split())
    assert "Nothing is promised for a trace" in words
    assert "ahead, fewer rows" in words


def test_lemma_2_is_asked_about_the_times_of_whole_answers(folder: Path) -> None:
    setup = _setup(folder, TraceStudy.quick(), "cluster", "Lemma 2")
    law = _answers(setup)
    # 60 and 900 units of 5 ms, for preparing and again for computing.
    assert law.support == pytest.approx((0.6, 9.0))
    assert setup.timeout == pytest.approx(0.6)
    phones = _setup(folder, TraceStudy.quick(), "phones", "Lemma 2")
    assert _answers(phones).mean > phones.delay.mean  # most are not there when they are asked


def test_a_folder_without_the_traces_is_refused(
    skipring: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidInput, match=r"phones\.npz is not in it"):
        trace_study(tmp_path, TraceStudy.quick())
    monkeypatch.delenv("SKIPRING_DATA", raising=False)
    for line in ("paper beyond traces", "paper beyond skew --traces x", f"paper beyond traces --cells {tmp_path}"):
        answer = skipring(line)
        assert answer.code == 2
        assert answer.err.strip().count("\n") == 0
