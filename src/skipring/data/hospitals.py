"""The patients of four real hospitals, as numbers that follow from public ranges and categories alone.

What the columns become is written down here and was not read off the rows, so that protecting a row protects all of it.
"""

from __future__ import annotations

import csv
import math
import os
from pathlib import Path

import numpy as np

from .._arrays import Floats
from ..errors import InvalidInput
from .sources import Dataset

HOSPITALS = ("cleveland", "budapest", "zurich", "long-beach")

#: What a value is clipped to before it is scaled to [-1, 1].
_RANGES = {
    "age": (20.0, 80.0),  # years; adults are sent to a coronary angiography, and few of them above 80
    "trestbps": (80.0, 200.0),  # mm Hg at rest: below 90 is low, and above 180 a crisis
    "chol": (100.0, 400.0),  # mg/dl: below 200 is desirable, 240 is high, inherited excess begins at about 300
    "thalach": (60.0, 200.0),  # beats per minute in exercise: from a resting heart to the limit of a 20-year-old
    "oldpeak": (0.0, 4.0),  # mm by which the ST segment falls in exercise: 1 is a finding, and 3 a grave one
}
#: Columns of 0 and 1, which become -1 and 1: male, fasting blood sugar above 120 mg/dl, pain in exercise.
_TWO = ("sex", "fbs", "exang")
#: Columns of categories (kind of chest pain, electrocardiogram at rest), which become a column for each category.
_CATEGORIES = {"cp": (1, 2, 3, 4), "restecg": (0, 1, 2)}
#: Any two categories are then 2 apart, as -1 and 1 are.
_CATEGORY = math.sqrt(2.0)
#: No row can be longer, whatever it says: 1 for each range and for each -1 or 1, and the square above for categories.
_LONGEST = math.sqrt(len(_RANGES) + len(_TWO) + 2.0 * len(_CATEGORIES))
_FILE = "heart-disease.csv"


def hospitals_file() -> Path:
    """Return where the table is: in the folder that SKIPRING_DATA names, beside this module, or in the repository."""
    folders = [Path(__file__).parent / "files" / "hospitals", Path(__file__).parents[3] / "examples" / "hospitals"]
    if own := os.environ.get("SKIPRING_DATA", ""):
        if not Path(own).is_dir():
            raise InvalidInput("SKIPRING_DATA", own, "an existing folder")
        folders.insert(0, Path(own))
    for folder in folders:
        if (folder / _FILE).is_file():
            return folder / _FILE
    reason = f"{_FILE} is not there; set SKIPRING_DATA to a folder that holds it"
    raise InvalidInput.because("name", "hospitals", reason)


def hospitals(name: str) -> Dataset:
    """Return the patients of whom no value is missing; all rows have a norm of at most 1.

    All are divided by one constant, which is the largest norm that the ranges allow.
    """
    path = hospitals_file()
    needed, number = (*_RANGES, *_TWO, *_CATEGORIES), {hospital: i for i, hospital in enumerate(HOSPITALS)}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if all(row[column] for column in needed)]
        values = {column: np.array([float(row[column]) for row in rows]) for column in (*needed, "num")}
        groups = np.array([number[row["hospital"]] for row in rows])
    except (OSError, KeyError, ValueError, csv.Error) as error:
        reason = f"{path} is not the table of the four hospitals: {error!r}"
        raise InvalidInput.because("name", name, reason) from None
    columns: dict[str, Floats] = {}
    for column, (low, high) in _RANGES.items():
        columns[column] = (2.0 * np.clip(values[column], low, high) - low - high) / (high - low)
    for column in _TWO:
        columns[column] = np.where(values[column] > 0.5, 1.0, -1.0)
    for column, categories in _CATEGORIES.items():
        for category in categories:
            columns[f"{column}={category}"] = np.where(values[column] == category, _CATEGORY, 0.0)
    return Dataset(
        name,
        np.column_stack(list(columns.values())) / _LONGEST,
        values["num"] > 0.0,
        ("healthy", "sick"),
        tuple(columns),
        groups,
        HOSPITALS,
    )
