"""The story of four hospitals works as it is written: their files, worth, a network of four processes, predictions."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from networks import free_ports

from skipring.models import load_model

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "hospitals.md").read_text()
LINES = re.findall(r"^\$ (.*)$", "".join(re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)), re.MULTILINE)


@pytest.mark.early
def test_from_four_files_to_predictions(tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    said: dict[str, str] = {}
    for line in LINES:
        words = line.split()
        if words[:3] == ["skipring", "network", "init"]:
            words += ["--port", str(free_ports(4))]
        if words[:2] == ["skipring", "worth"]:
            words += ["--splits", "2"]
        started = [sys.executable, *(["-m", *words] if words[0] == "skipring" else words[1:])]
        done = subprocess.run(
            started,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=os.environ | {"COLUMNS": "80"},
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert max(map(len, done.stdout.splitlines()), default=0) <= 80
        said[" ".join(words[:3])] = done.stdout
    assert len(LINES) == 7
    assert "4 of 4 nodes hold the same final model" in said["skipring network up"]
    rows = re.findall(r"^ *(\S+) +\d+ +\d+ +\S+ +\S+ +(\S+) +(\S+) +ended", said["skipring network up"], re.MULTILINE)
    assert {name for name, _, _ in rows} == {"cleveland", "budapest", "zurich", "long-beach"}
    for _, epsilon, error in rows:
        assert 0.5 < float(epsilon) <= 1.0
        assert float(error) < 0.45  # always "sick", or always "healthy", is worse at most of them
    assert "of 2 splits" in said["skipring worth examples/hospitals/network.toml"]
    models = [load_model(tmp_path / "demo" / name / "model.npz") for name, _, _ in rows]
    assert all(np.array_equal(model.parameters, models[0].parameters) for model in models)
    with (tmp_path / "predictions.csv").open() as file:
        predictions = list(csv.DictReader(file))
    assert len(predictions) == 4
    # The same patients in another order of columns, with semicolons, and decimal commas.
    with (ROOT / "examples" / "hospitals" / "new-patients.csv").open() as file:
        patients = list(csv.DictReader(file))
    names = sorted(patients[0], reverse=True)
    lines = [";".join(names), *(";".join(each[name].replace(".", ",") for name in names) for each in patients)]
    (tmp_path / "other.csv").write_text("\ufeff" + "\r\n".join(lines) + "\r\n")
    again = [sys.executable, "-m", "skipring", "predict", "demo/budapest/model.npz", "other.csv", "--out", "again.csv"]
    subprocess.run(again, cwd=tmp_path, capture_output=True, check=True, timeout=60)
    assert (tmp_path / "again.csv").read_text() == (tmp_path / "predictions.csv").read_text()
