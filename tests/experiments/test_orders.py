"""Orders by design beside the others: `paper beyond order`."""

from __future__ import annotations

import csv
import json
import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skipring.errors import InvalidInput
from skipring.experiments import ORDER_BUDGET, OrderRow, OrderStudy, order_study, worst_pairs
from skipring.experiments.orders import _worst
from skipring.privacy import forecast, gdp_mu, planned_run
from skipring.report import order_findings
from skipring.schedules import DesignedRing, Ring
from skipring.simulation import Interrupted

Command = Callable[[str], Any]


def test_the_noise_is_that_of_the_worst_pair() -> None:
    study = OrderStudy(sizes=((6, 5),), runs=1, search=300, data="breast-cancer")
    rows = {row.schedule: row for row in order_study(study) if isinstance(row, OrderRow)}
    epsilon, delta = ORDER_BUDGET
    assert rows["ring"].leakage == pytest.approx(5.0)  # the next neighbour sees each update bare
    for row in rows.values():
        assert row.noise_multiplier == pytest.approx(2.0 * math.sqrt(row.leakage) / gdp_mu(epsilon, delta), rel=0.02)
    run = planned_run(
        schedule="designed-ring",
        nodes=6,
        steps=30,
        skip=0.0,
        noise_multiplier=rows["designed-ring"].noise_multiplier,
        search=300,
        protects="node",
    )
    # The study lets everybody update at each turn; the forecast's observer may also pass the token on.
    assert epsilon * (1.0 - 1e-6) <= forecast(run).epsilon(delta) <= 1.01 * epsilon
    assert rows["designed-ring"].noise_multiplier < rows["random-ring"].noise_multiplier < rows["ring"].noise_multiplier


def test_a_ring_of_any_size_leaks_a_release_per_round() -> None:
    assert _worst(Ring(7), 28, 0) == pytest.approx(4.0)
    assert _worst(DesignedRing(7, search=100), 28, 0) < 3.5


def test_the_table_is_of_worst_pairs() -> None:
    found = worst_pairs(10, 10, search=3000)
    assert found.median < found.closed < found.searched < found.rows < found.drawn


def test_it_can_be_interrupted() -> None:
    stop, told = threading.Event(), list[int]()
    study = OrderStudy(sizes=((6, 5),), runs=1, search=300, data="breast-cancer")

    def first(done: int) -> None:
        told.append(done)
        stop.set()

    with pytest.raises(Interrupted, match="1 of 5 cells are finished"):
        list(order_study(study, stop=stop, progress=first))
    assert told == [1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("nodes", "rounds", "most"),
    [(4, 20, 12.9), (10, 30, 10.6), (30, 30, 5.2), (90, 30, 3.4), (112, 30, 3.0), (1000, 24, 2.1)],
)
def test_the_table_of_the_results_is_kept(nodes: int, rounds: int, most: float) -> None:
    found = worst_pairs(nodes, rounds)
    assert found.searched <= most
    assert found.closed <= most


def test_the_command_leaves_figure_and_numbers(skipring: Command) -> None:
    answer = skipring("paper beyond order --quick --runs 1 --out out --json")
    assert answer.code == 0, answer.err
    found = json.loads(answer.out)
    assert {row["schedule"] for row in found["rows"]} == {"ring", "random-ring", "designed-ring", "random-walk"}
    assert [row["nodes"] for row in found["leakage"]] == [4, 12]
    for file in found["files"]:
        assert Path(file).stat().st_size > 0
    with Path("out/order-quick.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(found["rows"]) == 8


def test_what_goes_with_it_is_refused_in_one_line(skipring: Command, tmp_path: Path) -> None:
    answer = skipring("paper beyond order --cells x")
    assert answer.code == 2
    assert "--cells x: order keeps no simulations" in answer.err
    row = OrderRow(
        nodes=4, rounds=2, schedule="ring", leakage=2.0, noise_multiplier=3.0, rate=0.1, errors=tuple(np.ones(2))
    )
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match="cannot be written"):
        order_findings(OrderStudy(), [row]).write(tmp_path / "file" / "order.csv")
    order_findings(OrderStudy(), [row]).draw([tmp_path / "order.png"])
    assert (tmp_path / "order.png").stat().st_size > 0
