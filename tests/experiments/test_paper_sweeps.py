"""The sweeps that come with skipring have the paper's parameters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skipring.errors import InvalidInput
from skipring.experiments import Cell, Sweep
from skipring.experiments.curves import paper_sweep, shipped_sweeps
from skipring.experiments.rivals import DELTA_PRIME
from skipring.experiments.theory import LAWS
from skipring.privacy import calibrate, forecast, planned_run
from skipring.schedules import Laps
from skipring.timeouts import expected_latency, timeout_for_skip

Command = Callable[[str], Any]
ROOT = Path(__file__).resolve().parents[2]
SKIPS = [1e-4, 0.5, 0.7]


# From the paper: nodes, batch, learning rate, runs, data.
ROWS: dict[int, tuple[int, int, float, int, str]] = {
    1: (10, 100, 0.6, 200, "houses-openml"),
    2: (1000, 8, 0.3, 200, "houses-openml"),
    3: (60, 500, 0.003, 3, "mnist"),  # the paper: 30 runs; ours are longer
    4: (50, 500, 0.0007, 6, "cifar10"),
}


def cells_of(sweep: Sweep, schedule: str) -> list[Cell]:
    return [cell for cell in sweep.cells if cell.run.schedule.name == schedule]


def end_of(cell: Cell, law: str) -> float:
    """The average latency of a whole run of the token under a law of delays (Lemma 1)."""
    skip, steps = cell.run.delay.skip, cell.run.schedule.steps
    assert skip is not None
    assert steps is not None
    return expected_latency(LAWS[law], timeout_for_skip(LAWS[law], skip), cell.run.delay.hop_latency, steps)


def test_all_sweeps_of_the_paper_and_beyond_are_shipped() -> None:
    assert shipped_sweeps() == [
        "figure4-row1",
        "figure4-row2",
        "figure4-row2-tight",
        "figure4-row3",
        "figure4-row3-clipped",
        "figure4-row3-records",
        "figure4-row4",
        "figure4-row4-clipped",
        "figure4-row4-records",
        "figure5",
        "figure5-tight",
        "nodes",
        "rivals",
        "skew",
        "stragglers",
    ]
    with pytest.raises(InvalidInput, match="figure4-row1, "):
        paper_sweep("figure4-row5")


@pytest.mark.parametrize("name", shipped_sweeps())
def test_tokens_make_whole_rounds_also_in_a_quick_look(name: str) -> None:
    """A ring is accounted for in whole rounds, and a figure must not lack its epsilon because of one hop."""
    full, quick = paper_sweep(name), paper_sweep(name, quick=True)
    assert quick.runs <= full.runs
    for cell in (*full.cells, *quick.cells):
        steps, nodes = cell.run.schedule.steps, cell.run.data.nodes
        assert nodes
        if cell.run.schedule.name == Laps.name:  # as many as a run has by default
            assert steps is None
            continue
        assert steps
        if cell.run.schedule.name == "random-ring":
            assert steps % nodes == 0
        else:
            assert cell.run.schedule.name in ("gossip", "federated")
        assert cell.run.privacy.delta == 1e-6
        assert cell.run.delay.hop_latency == 0.01


def test_a_quick_look_is_quick() -> None:
    for name in shipped_sweeps():
        quick = paper_sweep(name, quick=True)
        for cell in quick.cells:
            network = cell.run.model.is_network
            assert cell.run.simulation.runs <= (1 if network else 10)
            assert not network or (cell.run.schedule.steps or 0) <= 120
    assert {cell.run.simulation.runs for cell in paper_sweep("figure5", quick=True).cells} == {10}
    named = paper_sweep("figure5", quick=True, changes=["simulation.runs=3"])
    assert {cell.run.simulation.runs for cell in named.cells} == {3}


@pytest.mark.parametrize("row", ROWS)
def test_a_row_of_figure_4_has_the_papers_parameters(row: int) -> None:
    nodes, batch, rate, runs, data = ROWS[row]
    sweep = paper_sweep(f"figure4-row{row}")
    assert [cell.run.delay.skip for cell in sweep.cells] == SKIPS
    for cell in sweep.cells:
        run = cell.run
        assert (run.data.nodes, run.data.name, run.data.split in (None, "iid")) == (nodes, data, True)
        assert (run.learning.batch, run.learning.rate, run.learning.step_size) == (batch, rate, "sqrt")
        assert (run.simulation.runs, run.schedule.name) == (runs, "random-ring")
        assert run.privacy.noise_multiplier == 10.5976
        assert run.learning.gradient_bound is None  # as in the paper: networks are not clipped
        assert run.model.name == ("cnn" if row >= 3 else None)
        assert run.data.test_share == 0.2
        assert run.standardises == (row < 3)
        assert run.data.unit_rows


@pytest.mark.parametrize("row", [3, 4])
def test_clipped_rows_differ_in_clipping_and_runs_only(row: int) -> None:
    plain = {cell.run.delay.skip: cell.run.model_dump() for cell in paper_sweep(f"figure4-row{row}").cells}
    clipped = paper_sweep(f"figure4-row{row}-clipped")
    assert clipped.cells
    for cell in clipped.cells:
        values, other = cell.run.model_dump(), plain[cell.run.delay.skip]
        assert values["learning"].pop("gradient_bound") == 1.0
        assert other["learning"].pop("gradient_bound") is None
        assert values["simulation"].pop("runs") <= other["simulation"].pop("runs")
        assert values == other


@pytest.mark.parametrize("row", [1, 2])
def test_rows_with_an_axis_reach_its_end_under_every_law(row: int) -> None:
    sweep = paper_sweep(f"figure4-row{row}")
    until = sweep.figure["until"]
    ends = {1: (1000, 1000, 1000), 2: (24000, 6000, 24000)}
    assert until == dict(zip(LAWS, ends[row], strict=True))
    for cell in sweep.cells:
        for law in LAWS:
            assert end_of(cell, law) >= until[law]
    for cell in sweep.cells:  # and no cell is longer than one of its panels needs
        assert min(end_of(cell, law) / until[law] for law in LAWS) < 1.05


@pytest.mark.parametrize("row", [3, 4])
def test_rows_with_records_differ_in_what_is_protected_and_in_the_rate(row: int) -> None:
    clipped = {cell.run.delay.skip: cell.run.model_dump() for cell in paper_sweep(f"figure4-row{row}-clipped").cells}
    records = paper_sweep(f"figure4-row{row}-records")
    assert records.cells
    for cell in records.cells:
        values, other = cell.run.model_dump(), clipped[cell.run.delay.skip]
        assert (values["privacy"].pop("protects"), other["privacy"].pop("protects", "node")) == ("record", "node")
        assert values["learning"].pop("rate") > 100.0 * other["learning"].pop("rate")
        for each in (values, other):
            del each["simulation"]["runs"]
        assert values == other


@pytest.mark.parametrize(("row", "length"), [(3, 20_040.0), (4, 9_000.0)])
def test_networks_make_as_many_updates_for_every_skip_probability(row: int, length: float) -> None:
    for kind in ("", "-clipped", "-records"):
        for cell in paper_sweep(f"figure4-row{row}{kind}").cells:
            updates = (1.0 - (cell.run.delay.skip or 0.0)) * (cell.run.schedule.steps or 0)
            assert updates == pytest.approx(length, rel=5e-4)


def test_the_tight_row_keeps_the_papers_epsilon_up_to_its_latency() -> None:
    sweep = paper_sweep("figure4-row2-tight")
    plain = paper_sweep("figure4-row2")
    assert sweep.figure["until"] == plain.figure["until"]
    for cell, other in zip(sweep.cells, plain.cells, strict=True):
        assert (cell.run.privacy.epsilon, cell.run.privacy.noise_multiplier) == (2.2, None)
        assert cell.run.learning == other.run.learning
        assert cell.run.data == other.run.data
        assert cell.run.simulation.runs == 200
        # The budget is spent at latency 24000 under exponential delays, to within a round.
        hop = end_of(cell, "exponential") / (cell.run.schedule.steps or 1)
        assert abs(end_of(cell, "exponential") - 24000) < 1000 * hop
    run = planned_run(schedule="random-ring", nodes=1000, steps=24000, skip=1e-4, noise_multiplier=1.0)
    assert calibrate(forecast(run).with_noise, 2.2, 1e-6) == pytest.approx(3.85, abs=5e-3)  # as `paper numbers` says


def test_figure_5_has_the_papers_parameters() -> None:
    sweep = paper_sweep("figure5")
    assert DELTA_PRIME == 1e-12
    tokens, gossip, server = (cells_of(sweep, name) for name in ("random-ring", "gossip", "federated"))
    row2 = paper_sweep("figure4-row2")
    assert [cell.run.delay.skip for cell in tokens] == SKIPS
    for cell, other in zip(tokens, row2.cells, strict=True):
        assert cell.run.learning == other.run.learning
        assert cell.run.privacy == other.run.privacy
        assert cell.run.data == other.run.data
        assert cell.run.simulation.runs == 200
        assert end_of(cell, "exponential") >= sweep.figure["until"] == 24000
    assert sorted((cell.run.delay.skip or 0.0, cell.run.privacy.noise_multiplier) for cell in gossip) == [
        (skip, noise) for skip in SKIPS for noise in (11.8, 60.0)
    ]
    assert [cell.run.delay.skip for cell in server] == SKIPS
    assert len(sweep.cells) == 12
    for cell in (*gossip, *server):
        run = cell.run
        assert (run.learning.rate, run.learning.step_size, run.learning.batch) == (0.7, "constant", None)
        assert (run.gossip.rounds, run.gossip.slots, run.gossip.acceleration) == (2, 175.0, False)
        assert (run.gossip.degree, run.federated.channels) == (None, 100)  # ln n neighbours; n / 100 turns
        assert (run.data.nodes, run.data.name, run.delay.law) == (1000, "houses-openml", "exponential:1")
        assert run.learning.clip_noisy == 0.4
    assert {cell.run.delay.law for cell in tokens} == {"exponential:1"}


def test_figure_5_at_a_budget_gives_everyone_the_same_one() -> None:
    sweep = paper_sweep("figure5-tight")
    for cell in sweep.cells:
        assert cell.run.learning.clip_noisy is None
        assert (cell.run.privacy.epsilon == 2.2) == (cell.run.schedule.name != "gossip")
        if cell.run.schedule.name == "random-ring":
            hop = end_of(cell, "exponential") / (cell.run.schedule.steps or 1)
            assert abs(end_of(cell, "exponential") - 24000) < 1000 * hop
        elif cell.run.schedule.name == "gossip":
            assert cell.run.gossip.slots is None  # simulated, not the paper's
    assert sweep.figure["top_epsilon"] > 2.2
