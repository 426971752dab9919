"""Data sets that skipring knows by name, and what every data set consists of."""

from __future__ import annotations

import hashlib
import os
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from http.client import HTTPException
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import Doubles, Ints
from ..errors import InvalidInput

Arrays = dict[str, NDArray[Any]]
#: Tables that are not read: what a cell holds in them is more than its text.
_SPREADSHEETS = {".xlsx", ".xlsm", ".xlsb", ".xls", ".ods", ".numbers"}


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows of numbers with a label each, and possibly the node that each row belongs to.

    Labels are class numbers, and `classes` names the classes; without classes the labels are numbers to predict.
    `groups` says which node owns a row, `persons` whose it is, and `test_rows` which rows the publisher of the data set
    put aside for testing. `ranges` has the least and the largest usual value of each column, known without the rows.
    """

    name: str
    features: NDArray[np.floating[Any]]
    labels: NDArray[Any]
    classes: tuple[str, ...]
    feature_names: tuple[str, ...]
    groups: Ints | None = None
    group_names: tuple[str, ...] = ()
    test_rows: NDArray[np.bool_] | None = None
    persons: Ints | None = None
    person_names: tuple[str, ...] = ()
    ranges: Doubles | None = None

    def __post_init__(self) -> None:
        if self.features.ndim != 2 or len(self.features) < 2 or self.features.shape[1] < 1:
            allowed = "at least 2 rows of at least 1 feature each"
            raise InvalidInput("features", f"an array of shape {self.features.shape}", allowed)
        rows, columns = self.features.shape
        if len(self.feature_names) != columns:
            raise InvalidInput("feature_names", f"{len(self.feature_names)} names", f"{columns}, one for each feature")
        if self.ranges is not None and not (
            self.ranges.shape == (2, columns) and np.all(self.ranges[0] < self.ranges[1])
        ):
            raise InvalidInput("ranges", f"an array of shape {self.ranges.shape}", f"2 rising rows of {columns} values")
        for what in ("labels", "groups", "test_rows", "persons"):
            given = getattr(self, what)
            if given is not None and given.shape != (rows,):
                raise InvalidInput(what, f"an array of shape {given.shape}", f"{rows} values, one for each row")
        if bad := first_not_finite(self.features):
            row, column = bad
            where = f"{self.feature_names[column]!r} of row {row + 1}"
            raise InvalidInput("features", f"{self.features[bad]} ({where})", "finite numbers")
        object.__setattr__(self, "labels", self.labels.astype(np.int64 if self.classes else np.float64, copy=False))
        if not self.classes and not np.isfinite(self.labels).all():
            raise InvalidInput("labels", "some that are not finite", "finite numbers")
        low, high = self.labels.min(), self.labels.max()
        if self.classes and not 0 <= low <= high < len(self.classes):
            raise InvalidInput("labels", f"{low} to {high}", f"class numbers from 0 to {len(self.classes) - 1}")
        if self.groups is not None and not 0 <= self.groups.min() <= self.groups.max() < len(self.group_names):
            allowed = f"node numbers from 0 to {len(self.group_names) - 1}"
            raise InvalidInput("groups", f"{self.groups.min()} to {self.groups.max()}", allowed)

    def part(self, rows: NDArray[Any], test_rows: NDArray[np.bool_] | None = None) -> Dataset:
        """Return some rows as a data set of their own; `test_rows` says which of them are for testing."""
        return replace(
            self,
            features=self.features[rows],
            labels=self.labels[rows],
            groups=None if self.groups is None else self.groups[rows],
            persons=None if self.persons is None else self.persons[rows],
            test_rows=test_rows,
        )


def require_two_kinds(dataset: Dataset) -> None:
    """Refuse rows that all have the same label; those of one node among others may."""
    low, high = dataset.labels.min(), dataset.labels.max()
    if low == high:
        only = dataset.classes[low] if dataset.classes else low
        raise InvalidInput("labels", f"all of them {only}", "of at least two kinds: there is nothing to learn")


def load_dataset(name: str = "breast-cancer") -> Dataset:
    """Return the data set of this name.

    `breast-cancer`, `digits` and `hospitals` are always there. The others are looked up in the folder that the
    environment variable SKIPRING_DATA names (houses.npz, mnist.npz, cifar10.npz) and otherwise downloaded from OpenML,
    once. Rows of `hospitals` are scaled by public ranges already, and have norms of at most 1: a run that says
    ``standardise = false`` and ``unit_rows = false`` reads nothing off them. So are those of `consortium:NAME`: real
    tables with sites, which the packages of skipring[consortia] have.

    >>> dataset = load_dataset("breast-cancer")
    >>> dataset.features.shape, dataset.classes
    ((569, 30), ('malignant', 'benign'))
    """
    if name.startswith("consortium:"):
        from .consortia import load_consortium  # which needs what stands here

        return load_consortium(name)
    if name not in _LOADERS:
        raise InvalidInput("name", name, f"one of {', '.join(DATASETS)} or consortium:NAME")
    return _LOADERS[name](name)


def is_published(name: str) -> bool:
    """Say whether a name stands for a data set whose classes are published with it, and not read off its rows."""
    return name in DATASETS or name.startswith("consortium:")


def not_a_table(parameter: str, path: Path, endings: Iterable[str]) -> InvalidInput:
    """Return the refusal of a file with another ending than those of tables; a spreadsheet's says what to do."""
    if path.suffix.lower() in _SPREADSHEETS:
        return InvalidInput.because(parameter, path, "is a spreadsheet; save it as CSV (UTF-8), and name that file")
    return InvalidInput(parameter, path, f"a file that ends in {', '.join(endings)}")


def first_not_finite(features: NDArray[np.floating[Any]]) -> tuple[int, int] | None:
    """Return row and column of the first value that is infinite or not a number, if there is one."""
    with np.errstate(all="ignore"):  # a finite sum clears everything at once; only otherwise look at each value
        if np.isfinite(features.sum()):
            return None
    bad = ~np.isfinite(features)
    if not bad.any():
        return None
    row = int(bad.any(axis=1).argmax())
    return row, int(bad[row].argmax())


def read_arrays(path: Path) -> Arrays:
    """Return all arrays of an npz file; a ValueError says why there are none."""
    try:
        if not zipfile.is_zipfile(path):
            raise ValueError("it is not an npz file")
        with np.load(path, allow_pickle=False) as arrays:
            return {key: arrays[key] for key in arrays.files}
    except OSError as error:
        raise ValueError(f"it cannot be read: {error.strerror or error}") from None
    except (zipfile.BadZipFile, zlib.error, EOFError):
        raise ValueError("it is damaged") from None


def _bundled(name: str) -> Dataset:
    from sklearn import datasets  # slow to import

    digits = name == "digits"
    data = datasets.load_digits() if digits else datasets.load_breast_cancer()
    features = data.data / 16.0 if digits else data.data
    ranges = np.repeat([[0.0], [1.0]], features.shape[1], axis=1) if digits else _of_consortium(name)
    return Dataset(name, features, data.target, _names(data.target_names), _names(data.feature_names), ranges=ranges)


def _of_consortium(name: str) -> Doubles:
    """Return the ranges of a table of which `consortia.toml` says what its columns mean."""
    from .consortia import consortium_tables  # which needs what stands here

    columns = consortium_tables()[name]["column"]
    return np.array([each["range"] for each in columns if "range" in each], np.float64).T


def _hospitals(name: str) -> Dataset:
    from .hospitals import hospitals  # which needs what stands here

    return hospitals(name)


#: Ranges of a district's columns. Value, income and age end where the census stops counting; districts are made for
#: some 600 to 3,000 people; and California lies between these latitudes.
_DISTRICTS = {
    "median_house_value": (0, 500_000),
    "median_income": (0, 15),
    "housing_median_age": (0, 52),
    "total_rooms": (0, 10_000),
    "total_bedrooms": (0, 2_000),
    "population": (0, 6_000),
    "households": (0, 2_000),
    "latitude": (32.5, 42),
}
#: The median price of the published table.
_MEDIAN_PRICE = 179_700


def _houses(name: str) -> Dataset:
    """The paper's task: is a district's longitude below the mean (class P), given its price and the rest.

    Or the same districts with the price as label; OpenML's table has no longitude, so neither has this one.
    """
    wanted = ("openml823_X", "openml823_feature_names", "openml823_label_P")
    if (stored := _stored(name, "houses.npz", wanted)) is not None:
        features, columns, label = (stored[key] for key in wanted)
        features, feature_names, west = features.astype(np.float64), _names(columns), label == 1
    else:
        data = _from_openml(name, "houses.npz", data_id=823)
        features, feature_names = np.asarray(data.data, dtype=np.float64), _names(data.feature_names)
        west = np.asarray(data.target, str) == "P"
    if unknown := [each for each in feature_names if each not in _DISTRICTS]:
        raise InvalidInput.because("name", name, f"the table that was found has another column, {unknown[0]}")
    ranges = np.array([_DISTRICTS[each] for each in feature_names], np.float64).T
    if name == "houses-openml":
        return Dataset(name, features, west, ("N", "P"), feature_names, ranges=ranges)
    price = feature_names.index("median_house_value")
    expensive = features[:, price] > _MEDIAN_PRICE
    others = feature_names[:price] + feature_names[price + 1 :]
    classes = ("at most the median price", "above the median price")
    features, ranges = (np.delete(each, price, axis=1) for each in (features, ranges))
    return Dataset(name, features, expensive, classes, others, ranges=ranges)


_IMAGE_ARRAYS = ("x_train", "y_train", "x_test", "y_test")
#: What OpenML calls data sets of images, their classes, pixels in a row, and the names of colours.
_IMAGES = {
    "mnist": ("mnist_784", "0 1 2 3 4 5 6 7 8 9", 28, ("",)),
    "cifar10": ("CIFAR_10", "airplane automobile bird cat deer dog frog horse ship truck", 32, ("_r", "_g", "_b")),
}


def _images(name: str) -> Dataset:
    """Bytes become numbers from 0 to 1, an image one row; the last rows are the publisher's test part."""
    theirs, classes, side, colours = _IMAGES[name]
    if (stored := _stored(name, f"{name}.npz", _IMAGE_ARRAYS)) is not None:
        images = np.concatenate([stored["x_train"], stored["x_test"]])
        labels, tests = np.concatenate([stored["y_train"], stored["y_test"]]), len(stored["y_test"])
    else:
        data = _from_openml(name, f"{name}.npz", name=theirs, version=1)
        images, labels, tests = np.asarray(data.data), np.asarray(data.target), 10_000
        if name == "cifar10":
            images = _with_colours_last(images.astype(np.uint8), labels.astype(np.int64))
    features = images.reshape(len(labels), -1) / 255.0
    pixels = [f"pixel_{row}_{column}{colour}" for row in range(side) for column in range(side) for colour in colours]
    test_rows = np.arange(len(labels)) >= len(labels) - tests
    return Dataset(name, features, labels.astype(np.int64), tuple(classes.split()), tuple(pixels), test_rows=test_rows)


def _with_colours_last(planes: NDArray[np.uint8], labels: Ints) -> NDArray[np.uint8]:
    # Nothing in the download says which rows are the test rows or how colours are laid out; the checksum does.
    records = np.column_stack([labels[-10_000:].astype(np.uint8), planes[-10_000:]])
    if not hashlib.sha1(records.tobytes(), usedforsecurity=False).hexdigest().startswith("67eb016d"):
        reason = "OpenML's copy is not in the published order; set SKIPRING_DATA to a folder with cifar10.npz"
        raise InvalidInput.because("name", "cifar10", reason)
    return planes.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


def data_folder() -> Path | None:
    """Return the user's folder of data sets; None if there is none."""
    folder = os.environ.get("SKIPRING_DATA", "")
    if folder and not Path(folder).is_dir():
        raise InvalidInput("SKIPRING_DATA", folder, "an existing folder")
    return Path(folder) if folder else None


def _stored(name: str, file: str, wanted: Sequence[str]) -> Arrays | None:
    """Return the arrays of a file in the user's data folder; None if there is no such file."""
    if (folder := data_folder()) is None or not (path := folder / file).is_file():
        return None
    try:
        arrays = read_arrays(path)
    except ValueError as error:
        raise InvalidInput.because("name", name, f"{path}: {error}") from None
    if missing := [key for key in wanted if key not in arrays]:
        raise InvalidInput.because("name", name, f"{path}: it lacks the array {missing[0]}")
    return arrays


def _from_openml(dataset: str, file: str, **which: Any) -> Any:
    from sklearn.datasets import fetch_openml  # slow to import

    parser = "pandas" if find_spec("pandas") else "liac-arff"  # both read the same numbers, the first one faster
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scikit-learn warns before it tries again; the error below says it all
            return fetch_openml(as_frame=False, parser=parser, n_retries=1, **which)
    except (OSError, HTTPException, ValueError) as error:
        why = " ".join(str(error).split()) or type(error).__name__
        reason = f"it could not be loaded from OpenML ({why}); set SKIPRING_DATA to a folder that holds {file}"
        raise InvalidInput.because("name", dataset, reason) from None


def _names(values: Sequence[Any] | NDArray[Any]) -> tuple[str, ...]:
    return tuple(str(value) for value in values)


_LOADERS: dict[str, Callable[[str], Dataset]] = {
    "breast-cancer": _bundled,
    "digits": _bundled,
    "hospitals": _hospitals,
    "houses-openml": _houses,
    "houses-price": _houses,
    "mnist": _images,
    "cifar10": _images,
}
DATASETS = tuple(_LOADERS)
