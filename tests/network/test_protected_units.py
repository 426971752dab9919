"""Real nodes that protect records or persons: rotation, the account of each part, and rows that must not change."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from own_tables import columns
from test_nodes import QUICK, final_models, make, run_nodes

from skipring.errors import InvalidInput
from skipring.network.setup import agreed_run, given_away, load_node, open_journal
from skipring.network.storage import read_journal
from skipring.privacy import ANOTHER_NODE, OUTSIDER, WHOLE_NODE, Transcript, TranscriptAccountant, gdp_epsilon
from skipring.runs import parse_run

RECORDS = QUICK | {"privacy": {"noise_multiplier": 3.0, "protects": "record"}, "learning": {"batch": 50}}


def test_nodes_rotate_and_account_for_the_part_that_is_known_best(tmp_path: Path) -> None:
    """Two hundred rows in batches of 50: two or more parts each, accounted for as the finished transcript is."""
    configs = make(tmp_path / "net", 4, RECORDS)
    nodes = run_nodes(configs)
    assert len({model.tobytes() for model in final_models(configs)}) == 1
    setups = [node.setup for node in nodes]
    parts = [setup.learner.parts for setup in setups]
    assert parts == [3] * 4
    readings = [read_journal(config.with_name("journal.sqlite")) for config in configs]
    path = np.array(setups[0].rules.path)
    updated = np.zeros(len(path), dtype=bool)
    for reading in readings:
        updated[[release.hop - 1 for release in reading.releases]] = True
    run: dict[str, Any] = {
        "nodes": 4,
        "offered": path,
        "updated": updated,
        "step_sizes": np.asarray(setups[0].terms.step_sizes)[: updated.sum()],
        "noise_multiplier": 3.0,
        "parts": parts,
        "protects": "record",
    }
    whole, final = (TranscriptAccountant(Transcript(**run, against=against)) for against in ("node", "outsider"))
    in_full = TranscriptAccountant(Transcript(**(run | {"parts": 1}))).matrix()
    for me, config in enumerate(configs):
        told = given_away(config.parent)
        known = np.array([one.mu for one in told.observers])
        others = [v for v in range(4) if v != me]
        assert (known >= whole.matrix()[me][others] * (1.0 - 1e-12)).all()
        assert (known < in_full[me][others]).all()
        stated = told.guarantee
        assert (stated.protects, stated.relation, told.parts) == ("record", "replace-one", 3)
        assert (stated.method, stated.against) == ("own account", ANOTHER_NODE)
        assert any(note.startswith("Nodes share a data set: features are standardised") for note in told.notes)
        status = nodes[me].status()
        shown = status.guarantee
        assert (shown.protects, shown.relation, shown.method, shown.against) == (
            *("record", "replace-one"),
            *("own account", ANOTHER_NODE),
        )
        assert "standardised by the mean and deviation of all nodes' rows" in (shown.not_covered or "")
        outsider, whole_node = stated.beside(OUTSIDER), stated.beside(WHOLE_NODE)
        assert outsider is not None
        assert whole_node is not None
        assert outsider.epsilon == pytest.approx(gdp_epsilon(float(final.seen_outside()[me]), stated.delta))
        assert outsider.epsilon is not None
        assert stated.epsilon is not None
        assert outsider.epsilon < stated.epsilon
        units = setups[me].learner.units
        assert whole_node.epsilon == pytest.approx(
            gdp_epsilon(np.sqrt(told.releases) * 2.0 * units / 3.0, stated.delta), rel=1e-6
        )
        assert nodes[me].status().guarantee.protects == "record"


def own_files(configs: list[Path], rows: int, person: bool) -> None:
    rng = np.random.default_rng(1)
    for number, config in enumerate(configs):
        x = rng.normal(size=(rows, 2))
        lines = ["who,first,second,outcome" if person else "first,second,outcome"]
        for row, (a, b) in enumerate(x):
            who = f"{number}-{row // 3}," if person else ""
            lines.append(f"{who}{a},{b},{'yes' if a + b > 0.0 else 'no'}")
        config.with_name("rows.csv").write_text("\n".join(lines) + "\n")
        if "rows.csv" not in config.read_text().partition("[data]")[2].partition("#")[0]:
            text = config.read_text().replace("[data]\n", '[data]\npath = "rows.csv"\nlabel = "outcome"\n', 1)
            config.write_text(text)


def test_persons_are_hidden_with_files_of_ones_own(tmp_path: Path) -> None:
    run = RECORDS | {
        "data": {"rows_per_person": 2},
        "column": columns(person="who"),
        "model": {"name": "logistic", "classes": ["no", "yes"], "columns": 2},
        "privacy": {"noise_multiplier": 1.0, "protects": "person"},
        "learning": {"batch": 20, "rate": 2.0},
    }
    configs = make(tmp_path / "net", 3, run)
    own_files(configs, 90, person=True)
    nodes = run_nodes(configs)
    assert len({model.tobytes() for model in final_models(configs)}) == 1
    learner = nodes[0].setup.learner
    assert (learner.all_units, learner.parts, learner.units) == (24, 3, 8)  # 30 persons, of whom 6 are for testing
    assert given_away(configs[0].parent).guarantee.protects == "person"
    assert not any("share" in note for note in given_away(configs[0].parent).notes)
    assert nodes[0].status().guarantee.not_covered is None
    (note,) = nodes[0].setup.notes
    assert note.startswith("no budget: node1;")
    assert np.mean([node.updater.test_error for node in nodes]) < 0.3


@pytest.mark.parametrize(
    ("protects", "own", "told"),
    [
        ("record", None, ""),
        ("record", 0.01, "delta 0.01 is above 1 / 152, one over the number of records: .*budget.delta"),
        ("node", 0.3, ""),
        ("node", 0.4, "delta 0.4 is above 1 / 3, one over the number of nodes: .*budget.delta"),
    ],
)
def test_a_node_warns_of_the_delta_that_it_goes_by(tmp_path: Path, protects: str, own: float | None, told: str) -> None:
    """An owner may choose another delta than the one that was agreed on."""
    run = RECORDS | {"learning": {"batch": 20}, "privacy": {"noise_multiplier": 4.0, "protects": protects}}
    config = make(tmp_path / "net", 3, run)[0]
    if own is not None:
        config.write_text(config.read_text().replace("[budget]", f"[budget]\nepsilon = 9.0\ndelta = {own}"))
    found = [note for note in load_node(config).notes if " is above 1 / " in note]
    assert len(found) == bool(told)
    assert all(re.match(told, note) for note in found)


def test_a_run_goes_on_with_as_many_rows_as_it_began_with(tmp_path: Path) -> None:
    """With more rows a record might come into another part, and be released twice as often as accounted for."""
    run = RECORDS | {
        "data": {},
        "column": columns(),
        "model": {"name": "logistic"},
    }
    configs = make(tmp_path / "net", 3, run)
    own_files(configs, 150, person=False)
    open_journal(load_node(configs[0])).close()
    open_journal(load_node(configs[0])).close()
    own_files(configs, 151, person=False)
    own = load_node(configs[0])
    with pytest.raises(InvalidInput, match=r"data = 121 records: the run began with 120 records"):
        open_journal(own)


def test_the_batch_is_agreed_before_anybody_looks(tmp_path: Path) -> None:
    asked = {"privacy": {"noise_multiplier": 3.0, "protects": "record"}, "delay": {"timeout": 1.0}}
    agreed = agreed_run(parse_run(asked), 4)
    assert agreed.learning.batch == 114  # of 455 rows, shared by four
    own = asked | {"model": {"name": "logistic", "classes": ["no", "yes"], "columns": 2}}
    with pytest.raises(InvalidInput, match=r"learning\.batch = missing: .* files of their own"):
        agreed_run(parse_run(own | {"data": {"standardise": False}}), 4)
    with pytest.raises(InvalidInput, match=r"data\.standardise = True: .* one record moves all others"):
        agreed_run(parse_run(own), 4)


def test_rows_in_another_order_are_refused_in_the_middle_of_a_run(tmp_path: Path) -> None:
    """As many rows, but a record would come into another part."""
    run = RECORDS | {
        "data": {},
        "column": columns(),
        "model": {"name": "logistic"},
    }
    configs = make(tmp_path / "net", 3, run)
    own_files(configs, 150, person=False)
    open_journal(load_node(configs[0])).close()
    rows = configs[0].with_name("rows.csv")
    head, *lines = rows.read_text().splitlines()
    rows.write_text("\n".join([head, *sorted(lines)]) + "\n")
    own = load_node(configs[0])
    with pytest.raises(InvalidInput, match="another order of them: the run began with 120 records"):
        open_journal(own)


def test_noise_that_rounding_would_swallow_is_refused(tmp_path: Path) -> None:
    run = RECORDS | {"learning": {"batch": 50, "rate": 1e-10, "gradient_bound": 1e-5}}
    configs = make(tmp_path / "net", 3, run)
    with pytest.raises(InvalidInput, match=r"learning\.rate = .* is lost in parameters up to 5"):
        load_node(configs[0])
