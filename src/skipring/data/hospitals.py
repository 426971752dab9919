"""The patients of four real hospitals, as numbers that follow from public ranges and categories alone.

What the columns become is written down here and was not read off the rows, so that protecting a row protects all of it.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from ..errors import InvalidInput
from .schema import Schema
from .sources import Dataset, data_folder

HOSPITALS = ("cleveland", "budapest", "zurich", "long-beach")

#: Columns are in this order. No row can be longer than they allow, whatever it says.
_SCHEMA = Schema.of(
    [
        {
            "name": "age",
            "range": [20, 80],
        },  # years; adults are sent to a coronary angiography, and few of them above 80
        {"name": "trestbps", "range": [80, 200]},  # mm Hg at rest: below 90 is low, and above 180 a crisis
        # mg/dl: below 200 is desirable, 240 is high, inherited excess begins at about 300
        {"name": "chol", "range": [100, 400]},
        {"name": "thalach", "range": [60, 200]},  # beats per minute in exercise: from rest to the limit at 20 years
        {"name": "oldpeak", "range": [0, 4]},  # mm by which the ST segment falls in exercise: 1 is a finding, 3 grave
        {"name": "sex", "categories": [0, 1]},  # 1: male
        {"name": "fbs", "categories": [0, 1]},  # fasting blood sugar above 120 mg/dl
        {"name": "exang", "categories": [0, 1]},  # pain in exercise
        {"name": "cp", "categories": [1, 2, 3, 4]},  # kind of chest pain
        {"name": "restecg", "categories": [0, 1, 2]},  # electrocardiogram at rest
        {"name": "num", "label": True, "categories": {"healthy": [0], "sick": [1, 2, 3, 4]}},
    ]
)
_FILE = "heart-disease.csv"


def hospitals_file() -> Path:
    """Return where the table is: in the folder that SKIPRING_DATA names, beside this module, or in the repository."""
    folders = [Path(__file__).parent / "files" / "hospitals", Path(__file__).parents[3] / "examples" / "hospitals"]
    if (own := data_folder()) is not None:
        folders.insert(0, own)
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
    number = {hospital: i for i, hospital in enumerate(HOSPITALS)}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if all(row[column.name] for column in _SCHEMA.features)]
        values = {column.name: np.array([float(row[column.name]) for row in rows]) for column in _SCHEMA.columns}
        groups = np.array([number[row["hospital"]] for row in rows])
    except (OSError, KeyError, ValueError, csv.Error) as error:
        reason = f"{path} is not the table of the four hospitals: {error!r}"
        raise InvalidInput.because("name", name, reason) from None
    for column in _SCHEMA.features:
        if column.categories:  # they are whole numbers, one after another
            low, high = float(column.names[0]), float(column.names[-1])
            values[column.name] = np.clip(values[column.name], low, high) - low
    return Dataset(
        name,
        _SCHEMA.exact(values, len(rows)),
        values["num"] > 0.0,
        _SCHEMA.classes,
        _SCHEMA.feature_names,
        groups,
        HOSPITALS,
    )
