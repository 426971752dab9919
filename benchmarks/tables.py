"""Seconds and memory for reading a large table by a schema.

    python benchmarks/tables.py [--rows 10000000]

Eight columns of numbers and words, as a CSV file with semicolons and decimal commas, which is made first. The limit
beside it is pyarrow reading the same file as texts, which is what the schema's cells are made from. `node` is all that
a node does with its file before it takes part.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from skipring.data import Schema, read_with_schema
from skipring.data.schema_tables import csv_blocks
from skipring.network.node import OwnData, make_learner
from skipring.runs import parse_run

COLUMNS: list[dict[str, Any]] = [
    {"name": "age", "range": [20, 80]},
    {"name": "weight", "range": [40, 140], "missing": "indicator"},
    {"name": "pressure", "range": [80, 200]},
    {"name": "sugar", "range": [3, 12]},
    {"name": "sex", "categories": ["f", "m"]},
    {"name": "pain", "categories": ["none", "some", "much"]},
    {"name": "patient", "ignore": True},
    {"name": "ill", "label": True, "categories": ["no", "yes"]},
]


def write(path: Path, rows: int) -> None:
    rng = np.random.default_rng(1)
    with path.open("w") as file:
        file.write(";".join(str(column["name"]) for column in COLUMNS) + "\n")
        for first in range(0, rows, 100_000):
            count = min(100_000, rows - first)
            numbers = rng.normal((50, 80, 130, 6), (15, 20, 20, 2), size=(count, 4))
            sex, pain, ill = rng.integers(2, size=count), rng.integers(3, size=count), rng.integers(2, size=count)
            file.writelines(
                f"{age:.0f};{weight:.1f};{pressure:.0f};{sugar:.1f};".replace(".", ",")
                + f"{'fm'[sex[row]]};{('none', 'some', 'much')[pain[row]]};p{first + row};{('no', 'yes')[ill[row]]}\n"
                for row, (age, weight, pressure, sugar) in enumerate(numbers)
            )


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def read(path: Path, how: str) -> None:
    begin = time.perf_counter()
    if how == "node":
        values = {"learning": {"batch": 1000}, "privacy": {"protects": "record", "noise_multiplier": 4.0}}
        run = parse_run(values | {"column": COLUMNS, "model": {"name": "logistic"}})
        own = OwnData(path=path)
        learner, _ = make_learner(run, index=0, nodes=4, name="a", data=own, rng=np.random.default_rng(1))
        learner.test_error(learner.initial())
        rows = learner.all_units
    elif how == "schema":
        rows = len(read_with_schema(path, Schema.of(COLUMNS)).features)
    else:
        rows = sum(block.num_rows for _, block in csv_blocks(path, ";"))
    print(f"{how:8} {rows:,} rows: {time.perf_counter() - begin:.1f} s, at most {peak():.2f} GiB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--read", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        read(Path(options.read[0]), options.read[1])
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        write(path, options.rows)
        print(f"{path.stat().st_size / 2**20:.0f} MiB", flush=True)
        for how in ("texts", "schema", "node"):  # each in a process of its own, for its memory
            subprocess.run([sys.executable, __file__, "--read", str(path), how], check=True)


if __name__ == "__main__":
    main()
