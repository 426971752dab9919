"""Features of rows: each row by itself, as the mathematics says, kept where they took a while."""

from __future__ import annotations

import math
import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from skipring._cache import cache_folder
from skipring.data import Dataset, Encoder, Recipe, check_encoder, encoded, encoder, prepare, watched
from skipring.data import features as front
from skipring.data.features import cache
from skipring.data.features.fourier import BANDWIDTH
from skipring.data.features.scattering import _LEAST_VARIANCE, Scattering, _bank, _coefficients, _wave
from skipring.errors import InvalidInput

OWN = """
import numpy as np

calls = []

def good():
    weights = np.random.default_rng(3).normal(size=(12, 7)).astype(np.float32)
    def encode(rows):
        calls.append(len(rows))
        assert rows.dtype == np.float32
        return np.tanh(rows @ weights)
    return encode

def mixing():
    return lambda rows: rows - rows.mean(axis=0)

def by_place():
    return lambda rows: rows * np.arange(1, len(rows) + 1)[:, None]

def nothing():
    return 3

def broken():
    raise RuntimeError("no weights")

def short():
    return lambda rows: rows[:1]

def flat():
    return lambda rows: rows.sum(axis=1)

def not_finite():
    return lambda rows: rows / 0.0 if len(rows) > 5 else rows

def narrow():
    def encode(rows):
        raise ValueError("I take 5 columns\\nand no others")
    return encode
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SKIPRING_CACHE", str(tmp_path / "kept"))
    return tmp_path / "kept" / "features"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module of the user's own, called `own_encoders`."""
    path = tmp_path / "own_encoders.py"
    path.write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    yield path
    sys.modules.pop("own_encoders", None)


def made(name: str, columns: int) -> Encoder:
    found = encoder(name, columns, device="cpu")
    assert found is not None
    return found


def some(rows: int, columns: int, seed: int = 1) -> NDArray[np.float64]:
    found = np.random.default_rng(seed).random((rows, columns))
    return found


def slow_scattering(image: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same channels pixel by pixel: sums over the plane, wavelets by their formula, no Fourier transform."""
    size = len(image) + 8
    plane = np.pad(image, 4, mode="reflect")
    places = np.arange(size)

    def convolved(plane: NDArray[Any], kernel: NDArray[Any], kept: NDArray[np.int64]) -> NDArray[Any]:
        out = np.empty((len(kept), len(kept)), complex)
        side = len(plane)
        for i, x in enumerate(kept):
            for j, y in enumerate(kept):
                away = np.ix_((x - np.arange(side)) % side, (y - np.arange(side)) % side)
                out[i, j] = (kernel[away] * plane).sum()
        return out

    def wavelet(scale: float, angle: float) -> NDArray[np.complex128]:
        kernel = np.zeros((size, size), complex)
        envelope = np.zeros((size, size))
        for x in range(-2 * size, 3 * size):
            for y in range(-2 * size, 3 * size):
                u = x * math.cos(angle) + y * math.sin(angle)
                v = y * math.cos(angle) - x * math.sin(angle)
                height = math.exp(-(u * u + v * v / 4.0) / (2.0 * (0.8 * scale) ** 2))
                if height > 1e-30:
                    envelope[x % size, y % size] += height
                    turn = 0.75 * math.pi / scale * u
                    kernel[x % size, y % size] += height * complex(math.cos(turn), math.sin(turn))
        kernel -= kernel.sum() / envelope.sum() * envelope
        normalised: NDArray[np.complex128] = kernel / complex(4.0 * math.pi * (0.8 * scale) ** 2)
        return normalised

    def averaged(plane: NDArray[np.float64]) -> NDArray[np.float64]:
        side = len(plane)
        # The Gaussian as a sum of the waves that pixels so far apart can show.
        away = np.arange(side) * (size // side)
        turns = np.arange(size)[:, None] + size * np.arange(-3, 4)
        heights = np.exp(-(turns**2) / (2.0 * 1.6**2)).sum(axis=1) / (1.6 * math.sqrt(2.0 * math.pi))
        shown = np.zeros(side)
        for k in range(-(side // 2), side - side // 2):
            weight = sum(heights[t] * math.cos(2.0 * math.pi * k * t / size) for t in range(size))
            shown += weight * np.cos(2.0 * math.pi * k * away / size) / side
        centres = np.arange(1, size // 4 - 1) * (4 * side // size)
        return convolved(plane, np.outer(shown, shown), centres).real.ravel()

    angles = [direction * math.pi / 8.0 for direction in range(8)]
    fine, coarse = ([wavelet(scale, angle) for angle in angles] for scale in (1.0, 2.0))
    first = [np.abs(convolved(plane, kernel, places)) for kernel in fine]
    channels = [averaged(plane), *map(averaged, first)]
    channels += [averaged(np.abs(convolved(plane, kernel, places[::2]))) for kernel in coarse]
    channels += [averaged(np.abs(convolved(one, kernel, places[::2]))) for one in first for kernel in coarse]
    return np.array(channels)


def test_scattering_is_what_sums_over_the_plane_say() -> None:
    import scipy.fft

    image = some(1, 64)
    fast = _coefficients(Scattering(64)._planes(image), _bank(8), scipy.fft)[0]
    slow = slow_scattering(image.reshape(8, 8))
    assert fast.shape == slow.shape == (81, 4)
    np.testing.assert_allclose(fast, slow, rtol=0.0, atol=1e-12)


def test_the_gaussian_averages_and_wavelets_see_no_constant() -> None:
    for side in (8, 28, 32):
        bank = _bank(side)
        np.testing.assert_allclose(bank.average.sum(axis=0), 1.0, atol=1e-6)
        np.testing.assert_allclose(bank.average_of_half.sum(axis=0), 1.0, atol=1e-6)
        for filters in (bank.fine, bank.coarse):
            np.testing.assert_allclose(filters[:, 0, 0], 0.0, atol=1e-12)
            assert filters.max() < 1.0  # no frequency is made louder
    assert abs(_wave(36, 1.6, 0.0, 0.0, 1.0).sum() - 1.0) < 1e-6


@pytest.mark.parametrize(("columns", "width"), [(64, 324), (784, 3969), (3072, 15552)])
def test_images_become_so_many_numbers_normalised_in_groups(columns: int, width: int) -> None:
    scattering = made("scattering", columns)
    rows = scattering(some(3, columns))
    assert scattering.width == width
    assert rows.shape == (3, width)
    assert rows.dtype == np.float32
    norms = np.linalg.norm(rows.astype(np.float64), axis=1)
    assert (norms <= 1.0).all()
    np.testing.assert_allclose(norms, 1.0, rtol=1e-6)
    groups = rows.reshape(3, 27, -1).astype(np.float64)
    np.testing.assert_allclose(groups.mean(axis=-1), 0.0, atol=1e-8)
    # Deviation 1 before the whole was scaled: alike in all groups, and smaller where there is hardly anything.
    deviations = groups.std(axis=-1)
    assert deviations.max() <= deviations[:, 0].min() * 1.5
    assert _LEAST_VARIANCE == 1e-5


@pytest.mark.parametrize("columns", [64, pytest.param(3072, marks=pytest.mark.slow)])
def test_pytorch_computes_the_same(columns: int) -> None:
    torch = pytest.importorskip("torch")
    rows = some(3, columns)
    ours, its = Scattering(columns, "cpu")(rows), Scattering(columns)._with_torch(rows, torch, "cpu")
    np.testing.assert_allclose(its, ours, rtol=0.0, atol=1e-7)


def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"^device = tpu: must be auto, cpu or cuda"):
        Scattering(64, "tpu")(some(1, 64))


def test_colours_are_planes_of_their_own() -> None:
    import scipy.fft

    image = some(1, 3072)
    both = _coefficients(Scattering(3072)._planes(image), _bank(32), scipy.fft)
    red = np.zeros_like(image).reshape(32, 32, 3)
    red[..., 0] = image.reshape(32, 32, 3)[..., 0]
    alone = _coefficients(Scattering(3072)._planes(red.reshape(1, -1)), _bank(32), scipy.fft)
    np.testing.assert_array_equal(alone[0], both[0])
    assert not alone[1:].any()


def test_a_blank_image_has_no_features() -> None:
    assert not made("scattering", 64)(np.zeros((2, 64))).any()


@pytest.mark.parametrize(("name", "columns"), [("scattering", 64), ("scattering", 784), ("random-fourier:70", 12)])
def test_no_row_depends_on_another_not_even_in_its_last_digit(
    name: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "_PART", 1)  # parts of 256 rows
    rows = some(600 if columns < 700 else 30, columns)
    found = made(name, columns)
    all_of_them = encoded(found, rows)
    order = np.random.default_rng(2).permutation(len(rows))
    np.testing.assert_array_equal(encoded(found, rows[order]), all_of_them[order])
    np.testing.assert_array_equal(encoded(found, rows[7:]), all_of_them[7:])
    np.testing.assert_array_equal(encoded(found, rows[5:6]), all_of_them[5:6])
    others = rows.copy()
    others[1::2] = 0.25
    np.testing.assert_array_equal(encoded(found, others)[::2], all_of_them[::2])


def test_products_of_random_features_are_those_of_the_kernel() -> None:
    rows = some(40, 12) - 0.5
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    features = made("random-fourier:20000", 12)(rows)
    distances = ((rows[:, None] - rows[None]) ** 2).sum(axis=-1)
    np.testing.assert_allclose(features @ features.T, np.exp(-distances / (2.0 * BANDWIDTH**2)), atol=0.04)
    again = encoded(made("random-fourier:20000", 12), rows)
    assert (np.linalg.norm(again.astype(np.float64), axis=1) <= 1.0).all()
    # The numbers are the same everywhere and for good: nodes must not differ in them.
    first = made("random-fourier:3", 2)(np.array([[0.6, 0.8]]))
    np.testing.assert_allclose(first, FIRST, rtol=1e-12)


#: What `random-fourier:3` makes of the row (0.6, 0.8).
FIRST = [[0.5288596014866398, -0.7076329140495402, -0.6534332586669979]]


def test_a_function_of_the_users_own(own: Path) -> None:
    found = made("own_encoders:good", 12)
    assert (found.width, found.pixels) == (7, False)
    rows = some(20, 12)
    weights = np.random.default_rng(3).normal(size=(12, 7)).astype(np.float32)
    plain = np.tanh(rows.astype(np.float32) @ weights)
    np.testing.assert_allclose(encoded(found, rows, unit_rows=False), plain, rtol=1e-5)
    unit = encoded(found, rows)
    np.testing.assert_allclose(unit, plain / np.linalg.norm(plain, axis=1, keepdims=True), rtol=1e-5)
    assert (np.linalg.norm(unit.astype(np.float64), axis=1) <= 1.0).all()
    np.testing.assert_array_equal(encoded(pickle.loads(pickle.dumps(found)), rows), unit)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("own_encoders:mixing", "treats a row differently among others; each must be encoded by itself"),
        ("own_encoders:by_place", "treats a row differently among others"),
        ("own_encoders:nothing", "made no function of rows, but a int"),
        ("own_encoders:broken", "made no encoder: RuntimeError: no weights"),
        ("own_encoders:short", "answers 5 rows with float32 of shape (1, 12), not a row for each"),
        ("own_encoders:flat", "answers 5 rows with float32 of shape (5,), not a row for each"),
        ("own_encoders:narrow", "cannot take rows of shape (5, 12): ValueError: I take 5 columns"),
        ("own_encoders:missing", "cannot be imported: AttributeError"),
        ("no_such_module:good", "cannot be imported: ModuleNotFoundError"),
        ("scattering", "takes images of 8 x 8 (64 columns), 28 x 28 (784) or 32 x 32 in colour (3072), and the rows"),
        ("random-fourier:1000000", "must be at most 131072"),
    ],
)
def test_what_is_no_encoder_is_refused_in_one_line(own: Path, name: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        encoder(name, 12)
    assert refusal.value.parameter == "encoder"
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.filterwarnings("ignore:divide by zero")
def test_numbers_that_are_not_finite_are_refused(own: Path) -> None:
    with pytest.raises(InvalidInput, match="answers with numbers that are not finite"):
        encoded(made("own_encoders:not_finite", 12), some(20, 12))


@pytest.mark.parametrize(
    "name", ["", "scatter", "random-fourier", "random-fourier:", "random-fourier:0", "a:b:c", "a b:c"]
)
def test_a_name_that_no_encoder_has_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"must be none, scattering, random-fourier:N"):
        check_encoder(name)


def test_rows_of_another_size_are_refused() -> None:
    with pytest.raises(InvalidInput, match="rows of 64 columns, which scattering was made for"):
        encoded(made("scattering", 64), some(2, 63))


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "_LEAST_BYTES", 1)


@pytest.mark.usefixtures("small_files")
def test_what_took_a_while_is_kept_and_read_without_a_copy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, found = some(30, 64), made("scattering", 64)
    computed = encoded(found, rows, keep=False)
    assert not folder.exists()
    first = encoded(found, rows)
    (file,) = folder.iterdir()
    assert file.stat().st_mode & 0o077 == 0
    monkeypatch.setattr(Scattering, "__call__", None)  # nothing is computed any more
    second = encoded(found, rows)
    for kept in (first, second):
        np.testing.assert_array_equal(kept, computed)
        assert not kept.flags.writeable
        assert not kept.flags.owndata
    with pytest.raises(TypeError):
        encoded(found, rows[1:])  # other rows, other features


@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "more", "text"])
def test_a_damaged_file_is_computed_anew(folder: Path, damage: str) -> None:
    rows, found = some(30, 64), made("scattering", 64)
    computed = np.array(encoded(found, rows))
    (file,) = folder.iterdir()
    good = file.read_bytes()
    flipped = bytearray(good)
    flipped[len(good) // 2] ^= 1
    bad = {"flip": bytes(flipped), "cut": good[:-9], "empty": b"", "more": good + good[-4:], "text": b"no features"}
    file.write_bytes(bad[damage])
    np.testing.assert_array_equal(encoded(found, rows), computed)
    assert file.read_bytes() == good


@pytest.mark.usefixtures("small_files")
def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, found = some(5, 64), made("scattering", 64)
    computed = encoded(found, rows, keep=False)
    (tmp_path / "file").write_text("")
    for given in (str(tmp_path / "file"), "off"):
        monkeypatch.setenv("SKIPRING_CACHE", given)
        np.testing.assert_array_equal(encoded(found, rows), computed)


def test_where_features_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_folder("features") == Path(os.environ["SKIPRING_CACHE"]) / "features"
    monkeypatch.delenv("SKIPRING_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache_folder("features") == tmp_path / "skipring" / "features"
    monkeypatch.setenv("SKIPRING_CACHE", "off")
    assert cache_folder("features") is None


@pytest.mark.usefixtures("small_files")
def test_the_oldest_files_make_room(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = made("scattering", 64)
    for number in range(3):
        encoded(found, some(4, 64, number))
        for file in folder.iterdir():
            os.utime(file, (file.stat().st_atime, file.stat().st_mtime - 10.0))
    newest = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime)[1:]
    monkeypatch.setattr(cache, "_MOST_BYTES", 3 * newest[0].stat().st_size)
    encoded(found, some(4, 64, 3))
    assert len(list(folder.iterdir())) == 3
    assert {*newest} < {*folder.iterdir()}


@pytest.mark.usefixtures("small_files")
def test_a_function_that_has_changed_is_asked_again(own: Path, folder: Path) -> None:
    rows, found = some(40, 12), made("own_encoders:good", 12)
    before = np.array(encoded(found, rows))
    module = sys.modules["own_encoders"]
    module.calls.clear()
    np.testing.assert_array_equal(encoded(found, rows), before)
    assert module.calls == [5]  # a few rows, to see whether it still answers the same
    # Another answer, and the same file: as if its weights were elsewhere.
    object.__setattr__(found, "_encode", lambda rows: rows[:, :7] + 1.0)
    after = encoded(found, rows)
    assert np.abs(after - before).max() > 0.1
    np.testing.assert_array_equal(encoded(found, rows), after)
    version = found.version
    own.write_text(OWN + "\n")
    assert found.version != version


def test_rows_are_counted_while_they_are_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "_PART", 1)
    seen: list[tuple[int, int]] = []
    with watched(lambda done, rows: seen.append((done, rows))):
        encoded(made("random-fourier:8", 3), some(600, 3))
    encoded(made("random-fourier:8", 3), some(600, 3))
    assert seen == [(256, 600), (512, 600), (600, 600)]


def images(rows: int, **more: Any) -> Dataset:
    return Dataset("images", some(rows, 64), np.arange(rows) % 2, ("a", "b"), tuple(map(str, range(64))), **more)


@pytest.mark.parametrize("tail", [True, False])
@pytest.mark.parametrize("intercept", [True, False])
def test_pixels_are_prepared_as_they_are(tail: bool, intercept: bool) -> None:
    test_rows = np.arange(20) >= 15 if tail else np.arange(20) % 4 == 1
    dataset = images(20, test_rows=test_rows)
    rng = np.random.default_rng(1)
    ready = prepare(dataset, rng, Recipe(intercept=intercept, encoder=made("scattering", 64)))
    found = encoded(made("scattering", 64), dataset.features)
    for rows, chosen in ((ready.train_x, ~test_rows), (ready.test_x, test_rows)):
        assert rows.dtype == np.float32
        if intercept:
            np.testing.assert_allclose(rows[:, :-1], found[chosen] * math.sqrt(0.5), rtol=1e-6)
            np.testing.assert_allclose(rows[:, -1], math.sqrt(0.5))
        else:
            np.testing.assert_array_equal(rows, found[chosen])
        assert (np.linalg.norm(rows.astype(np.float64), axis=1) <= 1.0).all()


def test_other_encoders_see_rows_as_they_were_scaled() -> None:
    dataset = images(20, test_rows=np.arange(20) >= 15)
    ready = prepare(dataset, np.random.default_rng(1), Recipe(encoder=made("random-fourier:9", 64)))
    plain = prepare(dataset, np.random.default_rng(1))
    np.testing.assert_array_equal(ready.train_x, encoded(made("random-fourier:9", 64), plain.train_x))
    np.testing.assert_array_equal(ready.test_x, encoded(made("random-fourier:9", 64), plain.test_x))
