"""Nodes with files of their own, as the hospitals have: what all are told says nothing of the preparer's machine."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from networks import free_ports

from skipring.network.setup import agreement_of, load_node
from skipring.network.transport import read_roster
from skipring.runs import parse_run, read_run_file

Command = Callable[..., Any]
HOSPITALS = Path(__file__).parents[2] / "examples" / "hospitals"
NAMES = ("cleveland", "budapest", "zurich", "long-beach")


@pytest.fixture
def net(skipring_words: Command, tmp_path: Path) -> Path:
    """The four hospitals, prepared from a folder whose name is nobody's business."""
    private = tmp_path / "of-the-preparer"
    shutil.copytree(HOSPITALS, private)
    subprocess.run([sys.executable, private / "sites.py", tmp_path / "sites"], check=True, capture_output=True)
    words = ("--nodes", ",".join(NAMES), "--port", str(free_ports(5)), "--data", "sites")
    made = skipring_words("network", "init", "net", "--run", str(private / "network.toml"), *words)
    assert made.code == 0, made.err
    return tmp_path / "net"


def test_no_path_of_the_preparer_is_in_what_all_are_told(net: Path, skipring_words: Command, tmp_path: Path) -> None:
    def told() -> None:
        for path in (net / "run.toml", *(net / name / "run.toml" for name in NAMES), net / "update.json"):
            if path.exists():
                assert "of-the-preparer" not in path.read_text()
                assert "heart-disease.csv" not in path.read_text()

    told()
    assert read_run_file(net / "run.toml").data.path is None
    assert skipring_words("network", "check", "net").code == 0
    # It is no part of the agreement, wherever it is said.
    run, roster = read_run_file(net / "run.toml"), read_roster(net / "roster.toml")
    values = run.model_dump(mode="json", exclude_unset=True)
    values["data"]["path"] = str(HOSPITALS / "heart-disease.csv")
    assert agreement_of(parse_run(values), roster, {}).digest == agreement_of(run, roster, {}).digest
    # Another run, from the same file or from what was asked for, says it no more than the first.
    assert skipring_words("network", "new-run", "net").code == 0
    told()
    run_file = str(tmp_path / "of-the-preparer" / "network.toml")
    assert skipring_words("network", "new-run", "net", "--run", run_file).code == 0
    told()
    assert json.loads((net / "update.json").read_text())
    shutil.copy(tmp_path / "sites" / "cleveland.csv", tmp_path / "sites" / "basel.csv")
    assert skipring_words("network", "new-run", "net", "--add", "basel", "--data", "sites").code == 0
    told()
    assert load_node(net / "basel" / "node.toml").learner.all_units > 100


def test_nodes_that_share_a_file_find_it(skipring_words: Command, tmp_path: Path) -> None:
    words = ("--nodes", ",".join(NAMES), "--port", str(free_ports(4)), "--run", str(HOSPITALS / "network.toml"))
    assert skipring_words("network", "init", "net", *words).code == 0
    assert read_run_file(tmp_path / "net" / "run.toml").data.path == str(HOSPITALS / "heart-disease.csv")
    assert skipring_words("network", "check", "net").code == 0
    assert skipring_words("network", "new-run", "net").code == 0
    assert skipring_words("network", "check", "net").code == 0


def test_one_leaves_and_the_steps_are_whole_rounds_of_those_who_stay(net: Path, skipring_words: Command) -> None:
    assert read_run_file(net / "run.toml").schedule.steps == 80
    again = skipring_words("network", "new-run", "net", "--remove", "zurich")
    assert again.code == 0, again.err
    assert "The run has 78 steps in place of 80: whole rounds of 3 nodes" in " ".join(again.out.split())
    run = read_run_file(net / "run.toml")
    assert (run.schedule.steps, run.schedule.name, run.data.nodes) == (78, "designed-ring", 3)
    assert skipring_words("network", "check", "net").code == 0
    # What was asked for stays asked for: with five there are 80 again.
    words = ("--add", "basel=127.0.0.1:9,bern=127.0.0.1:10", "--json")
    again = skipring_words("network", "new-run", "net", *words)
    assert again.code == 0, again.err
    assert read_run_file(net / "run.toml").schedule.steps == 80
    assert not any("in place of" in note for note in again.data["notes"])
    # A file that is given now must fit, and is not changed.
    (net.parent / "next.toml").write_text((HOSPITALS / "network.toml").read_text().replace("80 ", "81 "))
    shutil.copy(HOSPITALS / "schema.toml", net.parent)
    shutil.copy(HOSPITALS / "heart-disease.csv", net.parent)
    refused = skipring_words("network", "new-run", "net", "--run", "next.toml", "--remove", "bern")
    assert (refused.code, "such as 80 or 84" in " ".join(refused.err.split())) == (2, True)
