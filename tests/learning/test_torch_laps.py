"""What rows of a network add to a private sum, against a plain loop; and how far one unit can move it."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from skipring.errors import InvalidInput
from skipring.learning import NetworkSums, NeuralModel, torch_laps
from skipring.learning.gradient_laps import GradientLaps
from skipring.learning.torch_layers import ROUNDED

MODULES = """
import torch
from torch import nn

class Folded(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.last = nn.Conv2d(1, 4, 2), nn.Linear(8, 3)
    def forward(self, x):
        return self.last(torch.selu(self.layer(x.view(-1, 1, 2, 3))).flatten(1))

class Drawing(nn.Module):  # of units one after the other; it draws once, or twice for a row with a large number
    def __init__(self):
        super().__init__()
        self.layer, self.dropped, self.last = nn.Linear(6, 5), nn.Dropout(0.5), nn.Linear(5, 3)
    def forward(self, x):
        found = self.dropped(self.layer(x))
        return self.last(self.dropped(found) if x.abs().max().item() > 100.0 else found)

def drawing(): return Drawing()
def chain(): return nn.Sequential(nn.Linear(6, 5), nn.SELU(), nn.Linear(5, 3))
def folded(): return Folded()
def half():
    module = chain()
    module[0].weight.requires_grad_(False)
    return module
"""
CLIP = 0.3


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "lap_models.py").write_text(MODULES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "lap_models", raising=False)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def model_of(function: str, clip: float = CLIP) -> NeuralModel:
    return NeuralModel(name=f"lap_models:{function}", features=6, classes=3, clip=clip, device="cpu")


def rows_of(seed: int, rows: int = 40) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 6)) * rng.choice([0.1, 1.0, 10.0], size=(rows, 1))
    return x.astype(np.float32), rng.integers(3, size=rows)


def each_alone(rows: int) -> np.ndarray:
    return np.arange(rows)[:, None]


def sums_of(function: str, x: np.ndarray, y: np.ndarray, places: np.ndarray) -> tuple[NetworkSums, np.ndarray, Any]:
    model = model_of(function)
    kind = GradientLaps(model, 0.5, 3).sum_of(0)
    sums = NetworkSums(model, (x, y), (x[:5], y[:5]), places=places, grid=kind.grid)
    return sums, sums.begin(7), kind


def plain(function: str, seed: int, x: np.ndarray, y: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Add up in a loop: each unit's rows one by one through autograd, then its length, and the clip."""
    torch.manual_seed(seed)
    made = getattr(sys.modules["lap_models"], function)()
    learned = [each for each in made.parameters() if each.requires_grad]
    total = np.zeros(sum(each.numel() for each in learned))
    for unit in places:
        mine = np.zeros_like(total)
        for row in unit[unit >= 0]:
            loss = functional.cross_entropy(
                made(torch.from_numpy(x[row : row + 1])), torch.from_numpy(y[row : row + 1])
            )
            found = torch.autograd.grad(loss, learned)
            mine += np.concatenate([each.numpy().astype(np.float64).ravel() for each in found])
        length = math.sqrt(float((mine**2).sum()))
        total += mine * min(1.0, CLIP / length) if math.isfinite(length) else 0.0
    return total


def persons_of(rows: int, most: int, seed: int) -> np.ndarray:
    """Deal rows to persons of one to `most` of them."""
    rng, left, table = np.random.default_rng(seed), list(range(rows)), []
    while left:
        mine = [left.pop() for _ in range(min(len(left), int(rng.integers(1, most + 1))))]
        table.append(mine + [-1] * (most - len(mine)))
    return np.array(table)


@pytest.mark.parametrize("function", ["chain", "folded", "half"])
@pytest.mark.parametrize("most", [1, 3])
def test_sums_are_those_of_a_plain_loop(function: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(torch_laps._AT_ONCE, "cpu", 16)
    x, y = rows_of(1)
    places = each_alone(40) if most == 1 else persons_of(40, most, 2)
    sums, weights, kind = sums_of(function, x, y, places)
    taken = np.flatnonzero(np.arange(len(places)) % 4 != 1)
    found = sums.sum(weights, taken) * kind.grid
    assert found == pytest.approx(plain(function, 7, x, y, places[taken]), abs=1e-4 * CLIP * len(taken))
    assert np.linalg.norm(found) > CLIP


@pytest.mark.parametrize("function", ["chain", "folded"])
@pytest.mark.parametrize("seed", range(2))
def test_one_unit_moves_a_sum_by_at_most_its_sensitivity(
    function: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another unit, with other numbers of rows, of any size; in an adversary's order, and among sums of one sign."""
    monkeypatch.setitem(torch_laps._AT_ONCE, "cpu", 24)
    rng = np.random.default_rng(seed)
    x, y = rows_of(seed, 60)
    x[20:] = x[20] * 30.0  # all alike, so that the sum is as long as it can be, and rounding as coarse
    y[20:] = y[20]
    places = persons_of(60, 3, seed)
    for worth in (1.0, -1e3, 1e-30, 1e38):  # of the last, what a network makes is not finite
        other, labels, fewer = x.copy(), y.copy(), places.copy()
        changed = int(rng.integers(len(places)))
        mine = places[changed]
        other[mine[mine >= 0]] = rng.choice([-3.0, 2.0, 1.0], size=6) * worth
        labels[mine[mine >= 0]] = (labels[mine[mine >= 0]] + 1) % 3
        fewer[changed, 1 + rng.integers(2) :] = -1
        order = rng.permutation(len(places))
        (before, weights, kind), (after, _, _) = (
            sums_of(function, x, y, places),
            sums_of(function, other, labels, fewer),
        )
        for units in (np.arange(len(places)), order):
            moved = before.sum(weights, units) - after.sum(weights, units)
            assert sum(int(step) ** 2 for step in moved) <= (kind.sensitivity / kind.grid) ** 2
        swapped = before.sum(weights, np.arange(len(places))) - after.sum(weights, order)
        assert sum(int(step) ** 2 for step in swapped) <= (kind.sensitivity / kind.grid) ** 2


@pytest.mark.parametrize("function", ["chain", "folded"])
def test_a_person_s_rows_decide_nothing_about_those_of_others(function: str) -> None:
    """With and without some of one person's rows: what is left, without that person, is the same to the last step."""
    x, y = rows_of(5, 30)
    places = np.arange(30).reshape(10, 3)
    fewer = places.copy()
    fewer[4, 1:] = -1
    (all_rows, weights, _), (some, _, _) = sums_of(function, x, y, places), sums_of(function, x, y, fewer)
    broken = x.copy()
    broken[places[4]] = 3e38  # one whose gradient is not finite
    without, fewer_without = (sums_of(function, broken, y, table)[0] for table in (places, fewer))
    everyone = np.arange(10)
    spoilt = x.copy()
    spoilt[0] = 3e38  # the first row of all, which is nobody's but the first person's
    assert sums_of(function, spoilt, y, fewer)[0].sum(weights, everyone[1:]).any()
    assert np.array_equal(
        sums_of(function, spoilt, y, fewer)[0].sum(weights, everyone[1:]), some.sum(weights, everyone[1:])
    )
    assert np.array_equal(without.sum(weights, everyone), fewer_without.sum(weights, everyone))
    assert not np.array_equal(all_rows.sum(weights, everyone), some.sum(weights, everyone))


@pytest.mark.parametrize("fewer", [False, True])
def test_how_often_one_unit_draws_decides_nothing_about_others(fewer: bool) -> None:
    """With the same seed for a dropout: a person with fewer rows, or a row for which the module draws twice."""
    x, y = rows_of(6, 60)
    x, places = np.clip(x, -50.0, 50.0), np.arange(60).reshape(20, 3)
    other, table = x.copy(), places.copy()
    if fewer:
        table[0, 1:] = -1
    else:
        other[0] = 1000.0
    found = []
    for rows, those in ((x, places), (other, table)):
        sums, weights, kind = sums_of("drawing", rows, y, those)
        assert not sums._clipped._each.together
        with sums.drawing(5):
            found.append([sums.sum(weights, np.arange(20)) for _ in range(2)])
    for before, after in zip(*found, strict=True):
        assert 0.0 < np.linalg.norm((before - after) * kind.grid) <= kind.sensitivity
    assert not np.array_equal(found[0][0], found[0][1])


@pytest.mark.parametrize("function", ["chain", "folded"])
def test_a_unit_that_is_not_finite_adds_nothing(function: str) -> None:
    x, y = rows_of(3, 8)
    x[5] = 3e38
    sums, weights, _ = sums_of(function, x, y, each_alone(8))
    assert not sums.sum(weights, np.array([5])).any()
    rest = sums.sum(weights, np.array([0, 1, 2, 3, 4, 6, 7]))
    assert (
        np.abs(sums.sum(weights, np.arange(8)) - rest).max()
        <= 1e-5 * CLIP / GradientLaps(model_of(function), 0.5, 3).sum_of(0).grid
    )
    assert not sums.sum(np.full_like(weights, math.nan), np.arange(8)).any()


def test_a_unit_adds_less_than_its_bound_by_what_a_whole_piece_is_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a piece that is not full: its room follows from how many rows a piece may have."""
    monkeypatch.setitem(torch_laps._AT_ONCE, "cpu", 1 << 16)
    x, y = rows_of(4, 6)
    sums, weights, kind = sums_of("chain", x, y, np.arange(6).reshape(2, 3))
    found = np.linalg.norm(sums.sum(weights * 30.0, np.array([1])) * kind.grid)
    most = CLIP / (1.0 + ROUNDED * ((1 << 16) // 3 * 3))
    assert most * (1.0 - 1e-4) < found <= most + kind.grid * math.sqrt(len(weights))


def test_pieces_are_added_as_whole_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(torch_laps._AT_ONCE, "cpu", 8)
    x, y = rows_of(4)
    sums, weights, kind = sums_of("chain", x, y, each_alone(40))
    pieces = [sums.sum(weights, np.arange(first, first + 8)) for first in range(0, 40, 8)]
    whole = sums.sum(weights, np.arange(40))
    assert whole.dtype == np.int64
    assert np.array_equal(whole, sum(pieces))
    assert np.linalg.norm(whole * kind.grid) <= 40 * CLIP * (1.0 + 1e-6)


def test_a_model_too_large_for_exact_sums_is_refused() -> None:
    x, y = rows_of(1)
    with pytest.raises(InvalidInput, match="more parameters than exact sums"):
        NetworkSums(model_of("chain"), (x, y), (x, y), places=each_alone(40), grid=2.0**-60)
