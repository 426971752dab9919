"""A user's own file: what is read from it, and the line that says what is wrong with it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from skipring.data import Dataset, from_arrays, load_dataset, read_table
from skipring.errors import InvalidInput

CLINICS = "age,weight,outcome,clinic\n50,70.5,sick,north\n61,80,well,south\n47,66,well,north\n38,1e2,sick,east\n"


@pytest.fixture
def csv_file(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str, encoding: str = "utf-8") -> Path:
        path = tmp_path / "clinics.csv"
        path.write_bytes(text.encode(encoding))
        return path

    return write


def write_parquet(folder: Path, columns: dict[str, Any]) -> Path:
    parquet.write_table(pa.table(columns), folder / "clinics.parquet")
    return folder / "clinics.parquet"


def assert_are_the_clinics(dataset: Dataset) -> None:
    assert dataset.name == "clinics"
    assert dataset.features.tolist() == [[50.0, 70.5], [61.0, 80.0], [47.0, 66.0], [38.0, 100.0]]
    assert dataset.feature_names == ("age", "weight")
    assert dataset.classes == ("sick", "well")
    assert dataset.labels.tolist() == [0, 1, 1, 0]
    assert dataset.group_names == ("east", "north", "south")
    assert dataset.groups is not None
    assert dataset.groups.tolist() == [1, 2, 1, 0]


@pytest.mark.parametrize(
    "text",
    [
        CLINICS,
        "\ufeff" + CLINICS.replace("\n", "\r\n"),
        CLINICS.replace(",", " , ") + "\n\n , , , \n",
        'age,weight,outcome,clinic\n"50","70.5","sick","north"\n61,80,well,south\n47,66,well,north\n38,1e2,sick,east',
    ],
    ids=["plain", "with BOM and CRLF", "with blanks", "quoted, no newline at the end"],
)
def test_a_csv_file_is_read_however_it_was_written(csv_file: Callable[[str], Path], text: str) -> None:
    assert_are_the_clinics(read_table(csv_file(text), label="outcome", node="clinic"))


def test_a_parquet_file_holds_the_same(tmp_path: Path) -> None:
    columns = {
        "age": [50, 61, 47, 38],
        "weight": [70.5, 80.0, 66.0, 100.0],
        "outcome": pa.array(["sick", "well", "well", "sick"]).dictionary_encode(),
        "clinic": ["north", "south", "north", "east"],
        "__index_level_0__": [7, 8, 9, 10],
    }
    assert_are_the_clinics(read_table(str(write_parquet(tmp_path, columns)), label="outcome", node="clinic"))


@pytest.mark.parametrize(
    ("names", "asked"),
    [
        (("X", "y", "groups"), {"label": "y"}),
        (("features", "labels", "node"), {"label": "y"}),
        (("X", "outcome", "clinic"), {"label": "outcome", "node": "clinic"}),
    ],
)
def test_an_npz_file_holds_the_same(tmp_path: Path, names: tuple[str, ...], asked: dict[str, str]) -> None:
    features = np.array([[50, 70.5], [61, 80], [47, 66], [38, 100]])
    outcome, clinic = np.array(["sick", "well", "well", "sick"]), np.array(["north", "south", "north", "east"])
    arrays: dict[str, Any] = dict(zip(names, (features, outcome, clinic), strict=True))
    np.savez(tmp_path / "clinics.npz", feature_names=np.array(["age", "weight"]), **arrays)
    assert_are_the_clinics(read_table(tmp_path / "clinics.npz", **asked))


def test_a_bundled_data_set_survives_the_way_through_a_csv_file(csv_file: Callable[[str], Path]) -> None:
    original = load_dataset("breast-cancer")
    lines = [",".join([*original.feature_names, "diagnosis"])]
    for row, label in zip(original.features.tolist(), original.labels, strict=True):
        lines.append(",".join([*map(repr, row), original.classes[label]]))
    read = read_table(csv_file("\n".join(lines)), label="diagnosis")
    np.testing.assert_array_equal(read.features, original.features)
    assert read.classes == ("benign", "malignant")  # sorted by name
    np.testing.assert_array_equal(read.labels, 1 - original.labels)
    assert read.groups is None


def with_labels(labels: list[Any]) -> str:
    return "x,y\n" + "".join(f"{row},{label}\n" for row, label in enumerate(labels))


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([1, 0, 1, 1], ("0", "1")),
        ([10, 9, 10, 9], ("9", "10")),
        (["1.0", "-1.0", "1.0", "1"], ("-1", "1")),
        (["yes", "no", "yes", "no"], ("no", "yes")),
        ([True, False, True, True], ("False", "True")),
        (["none", "mild", "none", "mild"], ("mild", "none")),
        (["0.5", "1.5", "1.5", "1.5"], ("0.5", "1.5")),
        ([3, 1, 2] * 5, ("1", "2", "3")),
        (["1.5", "2.5", "0.25"] * 5, ()),
        (list(range(300)), ()),
    ],
)
def test_text_and_few_whole_numbers_are_classes_and_other_numbers_amounts(
    csv_file: Callable[[str], Path], labels: list[Any], classes: tuple[str, ...]
) -> None:
    dataset = read_table(csv_file(with_labels(labels)), label="y")
    assert dataset.classes == classes
    if classes:
        assert dataset.labels.dtype == np.int64
        assert [classes[label] for label in dataset.labels] == [str(label).removesuffix(".0") for label in labels]
    else:
        assert dataset.labels.tolist() == [float(label) for label in labels]


@pytest.mark.parametrize(
    ("nodes", "names"),
    [(["10", "9", "10"], ("9", "10")), (["007", "70", "007"], ("007", "70")), (["b", "a", "b"], ("a", "b"))],
)
def test_nodes_are_sorted_as_numbers_only_if_they_are_plain_numbers(
    csv_file: Callable[[str], Path], nodes: list[str], names: tuple[str, ...]
) -> None:
    rows = [f"{row},{row % 2},{node}" for row, node in enumerate(nodes)]
    dataset = read_table(csv_file("\n".join(["x,y,n", *rows])), label="y", node="n")
    assert dataset.group_names == names
    assert dataset.groups is not None
    assert [names[group] for group in dataset.groups] == nodes


@pytest.mark.parametrize("ids", [["7", "8", "007"], ["7", "7.0", "8"], ["1e3", "1000", "a"], ["+5", "5", "b"]])
@pytest.mark.parametrize("option", ["node", "person"])
def test_ids_that_are_one_number_in_two_texts_are_refused(
    csv_file: Callable[[str], Path], ids: list[str], option: str
) -> None:
    rows = [f"{row},{row % 2},{one}" for row, one in enumerate(ids)]
    columns: dict[str, str] = {option: "who"}
    with pytest.raises(
        InvalidInput, match=rf"^{option} = who: '.+' and '.+' are the same number, but ids are compared"
    ):
        read_table(csv_file("\n".join(["x,y,who", *rows])), label="y", **columns)
    array = {"node": "groups", "person": "persons"}[option]
    with pytest.raises(InvalidInput, match=rf"^{array}: '.+' and '.+' are the same number"):
        from_arrays([[0.0], [1.0], [2.0]], [0, 1, 0], **{array: ids})


def test_long_ids_are_compared_exactly(csv_file: Callable[[str], Path]) -> None:
    ids = ["12345678901234567890", "12345678901234567891", "p7", "P7", "007"]
    rows = [f"{row},{row % 2},{one}" for row, one in enumerate(ids)]
    dataset = read_table(csv_file("\n".join(["x,y,who", *rows])), label="y", person="who")
    assert sorted(dataset.person_names) == sorted(ids)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (CLINICS.replace("80", "heavy"), r"column 'weight', row 2 \(line 3\): 'heavy' is not a number"),
        (CLINICS.replace("80", ""), r"column 'weight', row 2 \(line 3\): '' is not a number"),
        (CLINICS.replace("80", "nan"), r"column 'weight', row 2 \(line 3\): nan is not a finite number"),
        (CLINICS.replace("80", "-inf"), r"column 'weight', row 2 \(line 3\): -inf is not a finite number"),
        (CLINICS.replace("80", "\n80\n"), r"row 2 \(line 3\) has 2 values for 4 columns"),
        (CLINICS.replace("80", '"8\n0"'), r"column 'weight', row 2 \(line 4\): '8\\n0' is not a number"),
        (CLINICS.replace("well", ""), r"column 'outcome', row 2 \(line 3\): '' is not a value"),
        (CLINICS.replace("well", "1").replace("sick", "NA"), r"column 'outcome', row 1 \(line 2\): nan is not a value"),
        (CLINICS.replace("south", ""), r"column 'clinic', row 2 \(line 3\): '' is not a value"),
        (CLINICS.replace("well", "sick"), "the label 'outcome' is sick in every row; there is nothing to learn"),
        (CLINICS.replace("61,80,well", "61,80,fine").replace("38,1e2,sick", "1,1,new"), "4 different texts in 4 rows"),
        (CLINICS[: CLINICS.index("61")], "at least 2 rows are needed, not 1"),
        (CLINICS.splitlines()[0], "at least 2 rows are needed, not 0"),
        ("", "it is empty"),
        ("1,2,3\n4,5,6\n", "its first line must name the columns"),
        (CLINICS.replace(",", ";"), "its columns must be separated by commas; the first line is 'age;weight"),
        (CLINICS.replace("age", ""), "column 1 has no name; leave a row index out of the file"),
        (CLINICS.replace("age", "weight"), "two columns are called 'weight'"),
        ("outcome,clinic\nsick,a\nwell,b\n", "it has no feature columns beside the label"),
        (CLINICS.replace("north", '"north'), "it is not a proper CSV file"),
    ],
)
def test_a_bad_value_is_named_with_its_column_and_row(csv_file: Callable[[str], Path], text: str, line: str) -> None:
    with pytest.raises(InvalidInput, match=line) as refusal:
        read_table(csv_file(text), label="outcome", node="clinic")
    assert str(refusal.value).startswith("path = ")
    assert "\n" not in str(refusal.value)


def test_missing_columns_are_named_with_those_there_are(csv_file: Callable[[str], Path], tmp_path: Path) -> None:
    path = csv_file(CLINICS)
    there = r"clinics.csv has no such column; it has age, weight, outcome, clinic"
    with pytest.raises(InvalidInput, match=f"label = outcom: {there}"):
        read_table(path, label="outcom")
    with pytest.raises(InvalidInput, match=f"node = ward: {there}"):
        read_table(path, label="outcome", node="ward")
    with pytest.raises(InvalidInput, match="node = outcome: must be another column than the label's"):
        read_table(path, label="outcome", node="outcome")
    np.savez(tmp_path / "a.npz", X=np.zeros((3, 2)), target=np.arange(3))
    with pytest.raises(InvalidInput, match=r"label = y: a.npz has no such array; it has X, target"):
        read_table(tmp_path / "a.npz", label="y")


def test_a_file_that_is_not_there_or_of_no_known_kind(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"path = .*nowhere\.csv: there is no such file"):
        read_table(tmp_path / "nowhere.csv", label="y")
    with pytest.raises(InvalidInput, match=r"path = data\.doc: must be a file that ends in \.csv, \.parquet, \.npz"):
        read_table("data.doc", label="y")
    for ending in ("xlsx", "XLS", "ods"):
        said = rf"path = data\.{ending}: is a spreadsheet; save it as CSV \(UTF-8\), and name that file"
        with pytest.raises(InvalidInput, match=said):
            read_table(f"data.{ending}", label="y")
    for ending, line in ((".parquet", "it is not a readable Parquet file"), (".npz", "it is not an npz file")):
        (tmp_path / f"text{ending}").write_text(CLINICS)
        with pytest.raises(InvalidInput, match=line):
            read_table(tmp_path / f"text{ending}", label="y")


def test_text_that_is_not_utf8_is_refused(csv_file: Callable[..., Path]) -> None:
    with pytest.raises(InvalidInput, match="it is not text in UTF-8"):
        read_table(csv_file(CLINICS.replace("south", "süd"), "latin-1"), label="outcome")


@pytest.mark.parametrize(
    ("column", "values", "line"),
    [
        ("age", ["50", "61", "47"], "column 'age', row 1: '50' is text, not a number"),
        ("age", [50, None, 47], "column 'age', row 2: None is not a value"),
        ("age", [50.0, 61.0, float("nan")], "column 'age', row 3: nan is not a finite number"),
        ("outcome", ["sick", None, "well"], "column 'outcome', row 2: None is not a value"),
        ("outcome", [0.0, float("nan"), 1.0], "column 'outcome', row 2: nan is not a value"),
        ("outcome", [1, 1, 1], "the label 'outcome' is 1 in every row"),
        ("clinic", ["a", "b", None], "column 'clinic', row 3: None is not a value"),
    ],
)
def test_bad_values_in_parquet_files(tmp_path: Path, column: str, values: list[Any], line: str) -> None:
    columns = {"age": [50, 61, 47], "old": [True, False, True], "outcome": [0, 1, 1], "clinic": ["a", "a", "b"]}
    good = read_table(write_parquet(tmp_path, columns), label="outcome", node="clinic")
    assert good.features.tolist() == [[50.0, 1.0], [61.0, 0.0], [47.0, 1.0]]
    with pytest.raises(InvalidInput, match=line):
        read_table(write_parquet(tmp_path, {**columns, column: values}), label="outcome", node="clinic")


def test_without_pyarrow_the_refusal_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_parquet(tmp_path, {"x": [1, 2], "y": [0, 1]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InvalidInput, match=r"pip install skipring\[parquet\]"):
        read_table(path, label="y")


@pytest.mark.parametrize(
    ("arrays", "line"),
    [
        ({"X": np.array([[1.0, 2.0], [3.0, np.inf], [5.0, 6.0]])}, r"column 'X\[1\]', row 2: inf is not a finite"),
        ({"X": np.array([["a"], ["b"], ["c"]])}, "X must be rows of numbers, not <U1"),
        ({"X": np.zeros(3)}, "X must be rows of numbers"),
        ({"y": np.array([0, 1])}, "y must be 3 numbers or texts"),
        ({"y": np.array([0, None, 1])}, "its arrays must be numbers or text"),
        ({"groups": np.zeros((3, 1))}, "groups must be 3 numbers or texts"),
    ],
)
def test_bad_values_in_npz_files(tmp_path: Path, arrays: dict[str, Any], line: str) -> None:
    good: dict[str, Any] = {"X": np.zeros((3, 2, 2), dtype=np.uint8), "y": np.array([0, 1, 1])}
    np.savez(tmp_path / "a.npz", **good)
    assert read_table(tmp_path / "a.npz", label="y").features.shape == (3, 4)
    np.savez(tmp_path / "a.npz", **{**good, **arrays})
    with pytest.raises(InvalidInput, match=line):
        read_table(tmp_path / "a.npz", label="y")
