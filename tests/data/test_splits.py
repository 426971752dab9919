"""Who holds what: every row has one owner, every node has a row, and skew is what was asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skipring.data import SPLITS, Dealing, NodeData, load_dataset, split_over_nodes
from skipring.errors import InvalidInput

DIGITS = load_dataset("digits")


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def numbered(rows: int) -> np.ndarray:
    """Features that tell which row it was."""
    return np.arange(rows, dtype=np.float64)[:, None]


def split(
    features: Any,
    labels: Any,
    nodes: int | None,
    generator: np.random.Generator,
    *,
    groups: Any = None,
    persons: Any = None,
    **how: Any,
) -> NodeData:
    return split_over_nodes(features, labels, nodes, generator, Dealing(**how), groups=groups, persons=persons)


def digits(nodes: int | None, seed: int = 1, **how: Any) -> NodeData:
    return split(numbered(len(DIGITS.labels)), DIGITS.labels, nodes, rng(seed), **how)


def label_shares(data: NodeData) -> np.ndarray:
    counts = np.array([np.bincount(part, minlength=10) for part in np.split(data.labels, data.start[1:-1])])
    shares: np.ndarray = counts / data.sizes[:, None]
    return shares


@pytest.mark.parametrize("kind", SPLITS)
def test_every_row_has_one_owner_and_keeps_its_label(kind: str) -> None:
    groups = rng().integers(0, 20, len(DIGITS.labels))
    data = digits(20, kind=kind, groups=groups)
    assert data.nodes == 20
    assert data.start.dtype == np.int64
    assert (data.start[0], data.start[-1]) == (0, 1797)
    assert (data.sizes >= 1).all()
    rows = data.features[:, 0].astype(int)
    assert sorted(rows) == list(range(1797))
    np.testing.assert_array_equal(data.labels, DIGITS.labels[rows])


@pytest.mark.parametrize("kind", SPLITS)
def test_the_same_generator_gives_the_same_split(kind: str) -> None:
    groups = rng().integers(0, 20, len(DIGITS.labels))
    one, same = digits(20, kind=kind, groups=groups), digits(20, kind=kind, groups=groups)
    np.testing.assert_array_equal(one.features, same.features)
    if kind != "groups":
        assert not np.array_equal(one.features, digits(20, seed=2, kind=kind).features)


@settings(max_examples=100, deadline=None)
@given(rows=st.integers(1, 300), data=st.data())
def test_sizes_of_a_random_deal_differ_by_at_most_one(rows: int, data: st.DataObject) -> None:
    nodes = data.draw(st.integers(1, rows))
    sizes = split(numbered(rows), np.zeros(rows, int), nodes, rng()).sizes
    assert sizes.sum() == rows
    assert np.ptp(sizes) <= 1


def test_a_random_deal_gives_every_node_every_row_equally_often() -> None:
    deals, first = 4000, np.zeros(10)
    generator = rng()
    for _ in range(deals):
        dealt = split(numbered(10), np.zeros(10, int), 5, generator)
        first[dealt.features[:2, 0].astype(int)] += 1
    # Each row is with node 0 with probability 1/5: six standard deviations of the count are 152.
    assert np.abs(first - deals / 5).max() < 152


def test_a_smaller_alpha_means_more_skewed_labels() -> None:
    def skew(alpha: float) -> float:
        return float(
            np.mean([label_shares(digits(20, seed, kind="dirichlet", alpha=alpha)).max() for seed in range(5)])
        )

    assert skew(0.3) > skew(1.0) > skew(10.0) > skew(1e4)


@pytest.mark.parametrize("alpha", [1e4, 1e308])
def test_a_huge_alpha_means_no_skew(alpha: float) -> None:
    counts = label_shares(digits(20, kind="dirichlet", alpha=alpha)) * 89.85
    expected = np.bincount(DIGITS.labels) / 20
    assert np.abs(counts - expected).max() < 3.0


def test_shares_of_a_class_have_the_variance_of_the_dirichlet_law() -> None:
    nodes, alpha, shares = 10, 0.7, []
    for seed in range(300):
        data = split(numbered(20_000), np.arange(20_000) % 2, nodes, rng(seed), kind="dirichlet", alpha=alpha)
        shares.append(np.add.reduceat(data.labels, data.start[:-1]) / 10_000)
    expected = (1 / nodes) * (1 - 1 / nodes) / (nodes * alpha + 1)
    # 3000 shares: their variance is known to about 5 %; 20 % is four standard deviations.
    assert abs(np.var(shares) / expected - 1.0) < 0.2


def test_a_node_holds_few_labels_if_it_holds_few_shards() -> None:
    for shards_per_node in (1, 2, 3):
        kinds = (label_shares(digits(30, kind="shards", shards_per_node=shards_per_node)) > 0).sum(axis=1)
        # 1797 rows in shards of at least 19 rows: a shard crosses at most one border between labels.
        assert kinds.max() <= 2 * shards_per_node
        assert kinds.mean() <= 1.4 * shards_per_node
    assert np.ptp(digits(30, kind="shards").sizes) <= 2


@settings(max_examples=100, deadline=None)
@given(rows=st.integers(1, 500), exponent=st.floats(0.0, 1000.0), data=st.data())
def test_power_law_sizes_follow_their_ranks(rows: int, exponent: float, data: st.DataObject) -> None:
    nodes = data.draw(st.integers(1, rows))
    generator = rng()
    sizes = split(numbered(rows), np.zeros(rows, int), nodes, generator, kind="power-law", exponent=exponent)
    weights = [(rank + 1.0) ** -exponent for rank in range(nodes)]
    for size, weight in zip(sorted(sizes.sizes, reverse=True), weights, strict=True):
        assert size >= 1
        assert abs(size - 1 - (rows - nodes) * weight / sum(weights)) <= 1.0


def test_large_and_small_nodes_are_not_neighbours_by_rank() -> None:
    sizes = digits(100, kind="power-law").sizes
    assert sizes.max() > 10 * np.median(sizes)
    assert sizes.tolist() != sorted(sizes, reverse=True)


def test_groups_are_the_files_own_nodes() -> None:
    groups = np.array([2, 0, 1, 0, 2])
    for nodes in (None, 3):
        data = split(numbered(5), np.arange(5) % 2, nodes, rng(), kind="groups", groups=groups)
        assert data.features[:, 0].tolist() == [1, 3, 2, 0, 4]
        assert data.start.tolist() == [0, 2, 3, 5]


@pytest.mark.parametrize("kind", ["dirichlet", "shards"])
def test_amounts_are_skewed_by_their_tenths(kind: str) -> None:
    amounts = rng().exponential(size=5000)
    tenth = np.searchsorted(np.quantile(amounts, np.arange(1, 10) / 10), amounts, side="right")
    data = split(numbered(5000), amounts, 10, rng(), kind=kind, shards_per_node=1)
    by_tenth = split(numbered(5000), tenth, 10, rng(), kind=kind, shards_per_node=1)
    np.testing.assert_array_equal(data.features, by_tenth.features)
    np.testing.assert_array_equal(data.labels, amounts[data.features[:, 0].astype(int)])


def test_whole_amounts_are_not_mistaken_for_classes() -> None:
    def widest(labels: Any) -> int:
        data = split(numbered(1000), labels, 20, rng(), kind="shards", shards_per_node=1)
        return int(max(np.ptp(part) for part in np.split(data.labels, data.start[1:-1])))

    assert widest(np.arange(1000)) == 49  # a thousand classes, cut into twenty stretches
    assert 90 <= widest(np.arange(1000.0)) <= 99  # ten tenths, each dealt to two nodes at random


@pytest.mark.parametrize(
    ("nodes", "how", "line"),
    [
        (1798, {}, "nodes = 1798: there are only 1797 rows; use at most 1797 nodes"),
        (0, {}, "nodes = 0: must be a whole number of at least 1"),
        (None, {}, "nodes = None: must be a whole number of at least 1"),
        (
            10,
            {"kind": "random"},
            "split = random: must be one of iid, dirichlet, dirichlet-even, shards, power-law, groups",
        ),
        (
            500,
            {"kind": "dirichlet", "alpha": 0.01},
            r"alpha = 0.01: leaves \d+ of 500 nodes without a row; use a larger",
        ),
        (10, {"kind": "dirichlet", "alpha": 0.0}, "alpha = 0.0: must be a finite number above 0"),
        (10, {"kind": "dirichlet", "alpha": 1e-300}, r"alpha = 1e-300: leaves \d of 10 nodes without a row"),
        (10, {"kind": "shards", "shards_per_node": 0}, "shards_per_node = 0: must be a whole number"),
        (900, {"kind": "shards"}, r"shards_per_node = 2: 900 nodes need 1800 shards .* only 1797 rows; use fewer"),
        (10, {"kind": "power-law", "exponent": -1.0}, "exponent = -1.0: must be a finite number of at least 0"),
        (None, {"kind": "groups"}, "split = groups: the data does not say which node owns a row"),
        (3, {"kind": "groups", "groups": DIGITS.labels}, "nodes = 3: the data's own node column has 10; leave it out"),
        (None, {"kind": "groups", "groups": DIGITS.labels[:5]}, "groups = .*: must be 1797 node numbers"),
        (None, {"kind": "groups", "groups": DIGITS.labels * 2}, "split = groups: leaves 9 of 19 nodes without a row"),
    ],
)
def test_a_split_that_cannot_be_is_refused_with_a_way_out(nodes: int | None, how: dict[str, Any], line: str) -> None:
    with pytest.raises(InvalidInput, match=line) as refusal:
        digits(nodes, **how)
    assert "\n" not in str(refusal.value)


def test_labels_and_rows_must_match() -> None:
    with pytest.raises(InvalidInput, match="features and labels = arrays of shapes"):
        split(numbered(5), np.zeros(4, int), 2, rng())


@pytest.mark.sample(6)
@pytest.mark.parametrize("kind", SPLITS)
@pytest.mark.parametrize(("rows", "nodes"), [(60_000, 60_000), (1_000_000, 100_000)])
def test_many_rows_and_nodes(kind: str, rows: int, nodes: int) -> None:
    features, labels = np.zeros((rows, 8)), np.arange(rows) % 10
    groups = rng().permutation(np.arange(rows) % nodes)
    how: dict[str, Any] = {"kind": kind, "groups": groups, "alpha": 1e9, "shards_per_node": 1}
    if kind == "dirichlet" and rows == nodes:
        # Ten classes of 6000 rows over 60,000 nodes: somebody gets nothing, and that is found out as fast.
        with pytest.raises(InvalidInput, match="without a row"):
            split(features, labels, nodes, rng(), **how)
    else:
        assert split(features, labels, nodes, rng(), **how).nodes == nodes


def test_even_mixes_are_of_like_size_and_more_uneven_for_small_alpha() -> None:
    labels = np.repeat([0, 1, 2], [3000, 2000, 1000])
    spread = []
    for alpha in (0.05, 1.0, 1000.0):
        data = split(
            np.arange(6000.0)[:, None], labels, 300, np.random.default_rng(3), kind="dirichlet-even", alpha=alpha
        )
        assert data.sizes.tolist() == [20] * 300
        assert sorted(data.features.ravel().tolist()) == list(range(6000))  # every row once
        assert np.array_equal(data.labels, labels[data.features.ravel().astype(int)])
        shares = data.labels.reshape(300, 20) == 0
        spread.append(float(shares.mean(axis=1).std()))
    # 20 rows at random: the share of a class of one half has a standard deviation of 0.112.
    assert spread[0] > 0.4
    assert 0.2 < spread[1] < 0.35
    assert 0.09 < spread[2] < 0.13
