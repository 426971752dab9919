"""Cut the table into four files, one for each hospital, each written as that hospital's software might write it.

    python examples/hospitals/sites.py DIR

Another delimiter, order of columns, decimal mark, line end or word for a missing value each time; the same values.
"""

from __future__ import annotations

import csv
import random
import sys
from pathlib import Path

#: The delimiter, the decimal mark, the line end, the word for a missing value, and what stands before the first line.
WRITTEN = {
    "cleveland": (",", ".", "\n", "", ""),
    "budapest": (";", ",", "\r\n", "", "\ufeff"),
    "zurich": ("\t", ".", "\n", "NA", ""),
    "long-beach": ("|", ".", "\r\n", "?", ""),
}


def main(folder: Path) -> None:
    """Write the four files."""
    with (Path(__file__).parent / "heart-disease.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    folder.mkdir(parents=True, exist_ok=True)
    for number, (hospital, (mark, decimal, end, missing, first)) in enumerate(WRITTEN.items()):
        columns = [column for column in rows[0] if column != "hospital"]
        random.Random(number).shuffle(columns)
        columns.insert(number, "remarks")
        with (folder / f"{hospital}.csv").open("w", newline="", encoding="utf-8") as file:
            file.write(first)
            writer = csv.writer(file, delimiter=mark, lineterminator=end)
            writer.writerow(columns)
            for row in rows:
                if row["hospital"] == hospital:
                    writer.writerow(_cell(row, column, decimal, missing) for column in columns)
    print(f"{', '.join(f'{hospital}.csv' for hospital in WRITTEN)} are in {folder}")


def _cell(row: dict[str, str], column: str, decimal: str, missing: str) -> str:
    if column == "remarks":
        return "seen twice,\nonce at night" if row["age"].startswith("6") else ""
    return (row[column] or missing).replace(".", decimal)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("sites"))
