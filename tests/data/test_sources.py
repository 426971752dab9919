"""Data sets by name: what they hold, and what is said where they cannot be had."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import URLError

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from skipring.data import DATASETS, Dataset, load_dataset, require_two_kinds
from skipring.errors import InvalidInput

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
FOLDER = os.environ.get("SKIPRING_DATA") or (str(SHARED) if SHARED.is_dir() else "")


def holds(file: str) -> bool:
    return bool(FOLDER) and (Path(FOLDER) / file).is_file()


@pytest.fixture
def openml(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """OpenML as it answers in this test: not at all, unless the test gives it an answer."""
    server = SimpleNamespace(answer=None, asked=None)

    def fetch(**which: Any) -> Any:
        server.asked = which
        if server.answer is None:
            raise URLError("Name or service not known")
        return server.answer

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    monkeypatch.delenv("SKIPRING_DATA", raising=False)
    return server


@pytest.fixture
def folder(openml: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """The data folder of this machine, if it has one."""
    if FOLDER:
        monkeypatch.setenv("SKIPRING_DATA", FOLDER)


def assert_refused_without_a_source(name: str, file: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        load_dataset(name)
    assert str(refusal.value).startswith(f"name = {name}: ")
    assert f"set SKIPRING_DATA to a folder that holds {file}" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_breast_cancer_is_the_default() -> None:
    dataset = load_dataset()
    assert dataset.name == DATASETS[0] == "breast-cancer"
    assert dataset.features.shape == (569, 30)
    assert dataset.features.dtype == np.float64
    assert dataset.labels.dtype == np.int64
    assert dataset.classes == ("malignant", "benign")
    assert np.bincount(dataset.labels).tolist() == [212, 357]
    assert dataset.feature_names[0] == "mean radius"
    assert dataset.groups is None
    assert dataset.test_rows is None


def test_digits_are_grey_levels_from_zero_to_one() -> None:
    dataset = load_dataset("digits")
    assert dataset.features.shape == (1797, 64)
    assert (dataset.features.min(), dataset.features.max()) == (0.0, 1.0)
    assert dataset.classes == tuple("0123456789")


@pytest.mark.usefixtures("folder")
def test_the_papers_houses_have_openmls_class_sizes() -> None:
    if not holds("houses.npz"):
        return assert_refused_without_a_source("houses-openml", "houses.npz")
    dataset = load_dataset("houses-openml")
    assert dataset.features.shape == (20640, 8)
    assert dict(zip(dataset.classes, np.bincount(dataset.labels), strict=True)) == {"P": 8914, "N": 11726}
    assert dataset.feature_names[0] == "median_house_value"
    assert "longitude" not in dataset.feature_names


@pytest.mark.usefixtures("folder")
def test_half_of_the_houses_cost_more_than_the_median() -> None:
    if not holds("houses.npz"):
        return assert_refused_without_a_source("houses-price", "houses.npz")
    dataset = load_dataset("houses-price")
    with_price = load_dataset("houses-openml")
    price = with_price.features[:, 0]
    assert dataset.labels.tolist() == (price > np.median(price)).tolist()
    assert dataset.labels.sum() == 10317
    assert "median_house_value" not in dataset.feature_names
    np.testing.assert_array_equal(dataset.features, with_price.features[:, 1:])


@pytest.mark.usefixtures("folder")
def test_mnist_keeps_its_own_test_part() -> None:
    if not holds("mnist.npz"):
        return assert_refused_without_a_source("mnist", "mnist.npz")
    dataset = load_dataset("mnist")
    assert dataset.features.shape == (70_000, 784)
    assert (dataset.features.min(), dataset.features.max()) == (0.0, 1.0)
    assert dataset.test_rows is not None
    assert dataset.test_rows.sum() == 10_000
    assert dataset.test_rows[60_000:].all()
    assert dataset.labels[:5].tolist() == [5, 0, 4, 1, 9]


def test_cifar10_keeps_its_own_test_part_and_its_colours(
    openml: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = np.random.default_rng(1).integers(0, 256, (30, 32, 32, 3), dtype=np.uint8)
    labels = np.arange(30, dtype=np.uint8) % 10
    parts: dict[str, Any] = {
        "x_train": images[:20],
        "y_train": labels[:20],
        "x_test": images[20:],
        "y_test": labels[20:],
    }
    np.savez(tmp_path / "cifar10.npz", **parts)
    monkeypatch.setenv("SKIPRING_DATA", str(tmp_path))
    dataset = load_dataset("cifar10")
    assert dataset.features.shape == (30, 3072)
    assert dataset.features[7, dataset.feature_names.index("pixel_3_5_g")] == images[7, 3, 5, 1] / 255.0
    assert dataset.test_rows is not None
    assert dataset.test_rows.tolist() == [False] * 20 + [True] * 10
    assert dataset.classes[dataset.labels[3]] == "cat"


def test_cifar10_from_openml_is_refused_unless_its_test_rows_are_the_published_ones(openml: SimpleNamespace) -> None:
    openml.answer = SimpleNamespace(data=np.zeros((10_000, 3072)), target=np.array(["0", "1"] * 5000))
    with pytest.raises(InvalidInput, match="name = cifar10: OpenML's copy is not in the published order"):
        load_dataset("cifar10")
    assert openml.asked["name"] == "CIFAR_10"


def test_houses_from_openml_are_those_of_the_file(
    openml: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = np.array([[3e5, 1.0], [2e5, 5.0], [1e5, 4.0]])
    names = ["median_house_value", "latitude"]
    openml.answer = SimpleNamespace(data=features, target=np.array(["P", "N", "P"], object), feature_names=names)
    downloaded = [load_dataset(name) for name in ("houses-openml", "houses-price")]
    assert openml.asked["data_id"] == 823
    arrays: dict[str, Any] = {"openml823_X": features, "openml823_label_P": np.array([1, 0, 1], np.uint8)}
    arrays["openml823_feature_names"] = np.array(names)
    np.savez(tmp_path / "houses.npz", **arrays)
    monkeypatch.setenv("SKIPRING_DATA", str(tmp_path))
    stored = [load_dataset(name) for name in ("houses-openml", "houses-price")]
    for one, other in zip(downloaded, stored, strict=True):
        np.testing.assert_array_equal(one.features, other.features)
        np.testing.assert_array_equal(one.labels, other.labels)
        assert (one.classes, one.feature_names) == (other.classes, other.feature_names)
        assert one.ranges is not None
        assert other.ranges is not None
        assert one.ranges.tolist() == other.ranges.tolist()
    assert [dataset.labels.tolist() for dataset in stored] == [[1, 0, 1], [1, 1, 0]]
    assert stored[1].ranges is not None
    assert stored[1].ranges.tolist() == [[32.5], [42.0]]
    arrays["openml823_feature_names"] = np.array([*names[:1], "longitude"])
    np.savez(tmp_path / "houses.npz", **arrays)
    with pytest.raises(InvalidInput, match=r"name = houses-openml: .* another column, longitude"):
        load_dataset("houses-openml")


def test_ranges_are_those_of_the_columns_they_stand_beside() -> None:
    cancer = load_dataset("breast-cancer")
    assert cancer.ranges is not None
    said = dict(zip(cancer.feature_names, cancer.ranges.T.tolist(), strict=True))
    assert (said["mean radius"], said["worst fractal dimension"]) == ([5.0, 30.0], [0.05, 0.2])
    low, high = cancer.ranges
    for column, name in enumerate(cancer.feature_names):  # not a value in a hundred lies outside
        values = cancer.features[:, column]
        assert np.mean((low[column] <= values) & (values <= high[column])) > 0.98, name
    digits = load_dataset("digits")
    assert digits.ranges is not None
    assert [each.tolist() for each in digits.ranges] == [[0.0] * 64, [1.0] * 64]
    for ranges in (cancer.ranges[:, :29], cancer.ranges[::-1]):
        with pytest.raises(InvalidInput, match="ranges = an array of shape"):
            dataclasses.replace(cancer, ranges=ranges)


def test_mnist_from_openml_ends_with_the_test_part(openml: SimpleNamespace) -> None:
    openml.answer = SimpleNamespace(data=np.full((10_002, 784), 255.0), target=np.array(["3", "7"] * 5001, object))
    dataset = load_dataset("mnist")
    assert openml.asked["name"] == "mnist_784"
    assert dataset.labels[:2].tolist() == [3, 7]
    assert dataset.test_rows is not None
    assert (~dataset.test_rows).nonzero()[0].tolist() == [0, 1]
    assert dataset.features.max() == 1.0


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("houses-openml", "houses.npz"),
        ("houses-price", "houses.npz"),
        ("mnist", "mnist.npz"),
        ("cifar10", "cifar10.npz"),
    ],
)
@pytest.mark.usefixtures("openml")
def test_without_folder_and_network_the_refusal_says_what_to_do(name: str, file: str) -> None:
    assert_refused_without_a_source(name, file)


def test_a_folder_without_the_file_does_not_end_the_search(
    openml: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKIPRING_DATA", str(tmp_path))
    assert_refused_without_a_source("mnist", "mnist.npz")
    assert openml.asked is not None


@pytest.mark.usefixtures("openml")
def test_a_mistyped_folder_or_a_broken_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKIPRING_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(InvalidInput, match=r"SKIPRING_DATA = .*nowhere: must be an existing folder"):
        load_dataset("mnist")
    monkeypatch.setenv("SKIPRING_DATA", str(tmp_path))
    (tmp_path / "mnist.npz").write_bytes(b"<html>not found</html>")
    with pytest.raises(InvalidInput, match=r"name = mnist: .*mnist\.npz: it is not an npz file"):
        load_dataset("mnist")
    np.savez(tmp_path / "mnist.npz", x_train=np.zeros(3))
    with pytest.raises(InvalidInput, match=r"mnist\.npz: it lacks the array y_train"):
        load_dataset("mnist")
    whole = (tmp_path / "mnist.npz").read_bytes()
    (tmp_path / "mnist.npz").write_bytes(whole[:40] + bytes(40) + whole[80:])
    with pytest.raises(InvalidInput, match=r"mnist\.npz: it"):
        load_dataset("mnist")


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(
        InvalidInput, match="name = iris: must be one of breast-cancer, digits, hospitals, houses-openml"
    ):
        load_dataset("iris")


GOOD: dict[str, Any] = {
    "name": "mine",
    "features": np.arange(6.0).reshape(3, 2),
    "labels": np.array([0, 1, 1]),
    "classes": ("no", "yes"),
    "feature_names": ("age", "weight"),
}


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"features": np.array([[1.0, 2.0], [3.0, np.nan], [5.0, 6.0]])}, r"features = nan \('weight' of row 2\)"),
        ({"features": np.array([[1.0, 2.0], [np.inf, 4.0], [-np.inf, 6.0]])}, r"features = inf \('age' of row 2\)"),
        ({"features": np.zeros((1, 2))}, r"features = an array of shape \(1, 2\): must be at least 2 rows"),
        ({"labels": np.array([0, 1, 2])}, "labels = 0 to 2: must be class numbers from 0 to 1"),
        ({"labels": np.array([0, 1])}, r"labels = an array of shape \(2,\): must be 3 values"),
        ({"labels": np.array([0.5, np.nan, 1.0]), "classes": ()}, "labels = some that are not finite"),
        ({"feature_names": ("age",)}, "feature_names = 1 names: must be 2"),
        ({"groups": np.array([0, 1, 2]), "group_names": ("a", "b")}, "groups = 0 to 2: must be node numbers"),
    ],
)
def test_a_data_set_that_cannot_be_learnt_from_is_refused(changed: dict[str, Any], line: str) -> None:
    Dataset(**GOOD)
    with pytest.raises(InvalidInput, match=line):
        Dataset(**{**GOOD, **changed})


@pytest.mark.parametrize("values", [{"labels": np.array([1, 1, 1])}, {"labels": np.full(3, 0.5), "classes": ()}])
def test_rows_of_one_kind_teach_nothing_though_a_node_may_have_them(values: dict[str, Any]) -> None:
    require_two_kinds(Dataset(**GOOD))
    with pytest.raises(InvalidInput, match=r"labels = all of them (yes|0.5): must be of at least two kinds"):
        require_two_kinds(Dataset(**{**GOOD, **values}))


def test_huge_but_finite_values_are_not_mistaken_for_infinite_ones() -> None:
    assert Dataset(**{**GOOD, "features": np.full((3, 2), 1e308)}).features.max() == 1e308


def test_breast_cancer_is_that_of_scikit_learn() -> None:
    expected, found = load_breast_cancer(), load_dataset("breast-cancer")
    assert (found.features.dtype, found.labels.dtype) == (expected.data.dtype, expected.target.dtype)
    assert np.array_equal(found.features, expected.data)
    assert np.array_equal(found.labels, expected.target)
    assert found.feature_names == tuple(expected.feature_names)
    assert found.classes == tuple(expected.target_names)


def test_the_room_loads_no_slow_package() -> None:
    code = """
import sys, skipring.data
print({'sklearn', 'pyarrow', 'pandas', 'scipy.stats'} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.fixture
def hospitals(monkeypatch: pytest.MonkeyPatch) -> Dataset:
    """The hospitals of the repository, whatever folder this machine has."""
    monkeypatch.delenv("SKIPRING_DATA", raising=False)
    return load_dataset("hospitals")


def test_four_hospitals_have_the_patients_of_whom_all_is_known(hospitals: Dataset) -> None:
    assert hospitals.group_names == ("cleveland", "budapest", "zurich", "long-beach")
    assert hospitals.groups is not None
    assert np.bincount(hospitals.groups).tolist() == [303, 261, 46, 130]
    sick = [float(hospitals.labels[hospitals.groups == hospital].mean()) for hospital in range(4)]
    assert hospitals.classes[1] == "sick"
    assert [round(share, 3) for share in sick] == [0.459, 0.375, 0.978, 0.777]
    assert round(float(np.mean(sick)), 3) == 0.647
    assert round(float(hospitals.labels.mean()), 3) == 0.518


def test_hospitals_are_scaled_by_public_ranges_and_by_one_constant(hospitals: Dataset) -> None:
    # The first patient of the file: 63 years, male, typical angina, 145 mm Hg, 233 mg/dl, sugar above 120, category 2
    # of the electrocardiogram, 150 beats, no pain, 2.3 mm.
    ranges = [(63 - 50) / 30, (145 - 140) / 60, (233 - 250) / 150, (150 - 130) / 70, (2.3 - 2) / 2]
    root = 2**0.5
    expected = [*ranges, 1.0, 1.0, -1.0, root, 0.0, 0.0, 0.0, 0.0, 0.0, root]
    np.testing.assert_allclose(hospitals.features[0], np.array(expected) / 12**0.5, rtol=0, atol=1e-15)
    names = "age trestbps chol thalach oldpeak sex fbs exang cp=1 cp=2 cp=3 cp=4 restecg=0 restecg=1 restecg=2"
    assert hospitals.feature_names == tuple(names.split())
    norms = np.linalg.norm(hospitals.features, axis=1)
    assert 0.7 < norms.min() < norms.max() <= 1.0
    # Each category has one column, and every patient is in one of each kind.
    for kind in ("cp=", "restecg="):
        columns = [place for place, name in enumerate(hospitals.feature_names) if name.startswith(kind)]
        np.testing.assert_allclose(hospitals.features[:, columns].sum(axis=1), root / 12**0.5)


def test_hospitals_are_found_in_the_folder_of_data_sets_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKIPRING_DATA", str(tmp_path))
    assert len(load_dataset("hospitals").labels) == 740  # the repository's, as the folder has none
    own = tmp_path / "heart-disease.csv"
    own.write_text("hospital,age\ncleveland,63\n")
    with pytest.raises(InvalidInput, match="is not the table of the four hospitals: KeyError"):
        load_dataset("hospitals")
    head = "hospital,age,trestbps,chol,thalach,oldpeak,sex,fbs,exang,cp,restecg,num\n"
    own.write_text(
        head + "cleveland,63,145,233,150,2.3,1,1,0,1,2,0\nzurich,1000,-5,0,0,9,0,0,1,4,0,3\nzurich,9,,,,,,,,,,1\n"
    )
    dataset = load_dataset("hospitals")
    assert len(dataset.labels) == 2  # of the third patient too little is known
    assert np.abs(np.linalg.norm(dataset.features[1]) - 1.0) < 1e-15  # clipped to the ends of all ranges: the longest
    own.write_text(head + "cleveland,63,145,233,150,2.3,1,1,0,1,2,0\nlondon,63,145,233,150,2.3,1,1,0,1,2,1\n")
    with pytest.raises(InvalidInput, match=r"hospitals: KeyError..london"):
        load_dataset("hospitals")
    monkeypatch.setenv("SKIPRING_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(InvalidInput, match="SKIPRING_DATA"):
        load_dataset("hospitals")
