"""Models in files: whole or not there at all, whatever happens, and never in memory."""

from __future__ import annotations

import copy
import os
import pickle
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from models_in_files import names, sha, written
from summing import is_intact

from skipring.errors import InvalidInput
from skipring.network.protocol import (
    Token,
)
from skipring.network.storage import (
    LARGE,
    ModelFile,
    ModelFolder,
    ModelWriter,
    chunks_of,
    digest_of,
    load_parameters,
    size_of,
    store_parameters,
)


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one, for what is about bytes and not about disks."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as folder:
        yield Path(folder)


@pytest.mark.parametrize("kept_in_memory", [False, True])
def test_what_comes_in_chunks_is_read_in_chunks(tmp_path: Path, kept_in_memory: bool) -> None:
    rng = random.Random(1)
    pieces = [rng.randbytes(rng.choice([0, 1, 5000, 2_000_000])) for _ in range(12)]
    content = b"".join(pieces)
    with ModelWriter(tmp_path / "models", keep_in_memory=kept_in_memory) as writer:
        for piece, form in zip(pieces, [bytes, bytearray, memoryview] * 4, strict=True):
            writer.write(form(piece))
        assert writer.size == len(content)
        made = writer.finish()
        for late in (lambda: writer.write(b"more"), writer.finish):
            with pytest.raises(ValueError, match="finished"):
                late()
    assert (size_of(made), len(made), digest_of(made)) == (len(content), len(content), sha(content))
    for size in (1 << 20, 999_983):
        chunks = list(chunks_of(made, size))
        assert b"".join(chunks) == content
        assert {len(chunk) for chunk in chunks[:-1]} == {size}
    if isinstance(made, ModelFile):
        assert is_intact(made)
        assert made.path.stat().st_mode & 0o777 == 0o600
        assert made.path.parent.stat().st_mode & 0o777 == 0o700
    else:
        assert not names(tmp_path)


def test_equal_is_what_has_the_same_bytes(tmp_path: Path) -> None:
    one, same, other = (written(tmp_path / "models", content) for content in (b"one", b"one", b"two"))
    assert one == same
    assert hash(one) == hash(same)
    assert len({one, same, other}) == 2
    assert one.path != same.path
    assert one != other
    assert one != b"one"
    assert one == ModelFile(tmp_path, 3, sha(b"one"))
    assert Token(1, one, b"") == Token(1, same, b"")
    for twin in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert (twin, twin.path) == (one, one.path)
        twin.discard()  # only the original may
        assert is_intact(one)


def test_what_is_abandoned_is_deleted(tmp_path: Path) -> None:
    def interrupted(finish: bool, release: bool) -> None:
        with ModelWriter(tmp_path) as writer:
            writer.write(b"half")
            assert len(names(tmp_path)) == 1
            if finish:
                writer.finish()
            if release:
                writer.release()
            raise KeyError

    for finish, release in [(False, False), (True, False), (True, True)]:
        with pytest.raises(KeyError):
            interrupted(finish, release)
        assert len(names(tmp_path)) == release
    for file in tmp_path.iterdir():
        file.unlink()
    with ModelWriter(tmp_path) as writer:
        writer.write(b"half")
    assert not names(tmp_path)
    made = written(tmp_path, b"whole")
    assert is_intact(made)
    made.discard()
    made.discard()
    assert not names(tmp_path)
    (tmp_path / "mine").write_bytes(b"mine")
    ModelFile(tmp_path / "mine", 4, sha(b"mine")).discard()
    assert names(tmp_path) == {"mine"}


def test_a_file_that_is_gone_or_has_another_size_is_an_error(tmp_path: Path) -> None:
    made = written(tmp_path, bytes(3_000_000))
    started = made.chunks()
    first = next(started)
    made.path.unlink()
    assert len(first) + sum(map(len, started)) == 3_000_000  # what is being sent, is sent
    reads: list[Callable[[], object]] = [lambda: list(made.chunks()), lambda: load_parameters(made, "u1")]
    for read in reads:
        with pytest.raises(FileNotFoundError):
            read()
    assert not is_intact(made)
    for size in (0, 2_999_999, 3_000_001):
        made.path.write_bytes(bytes(size))
        for read in reads:
            with pytest.raises(OSError, match=f"has {size} bytes instead of 3000000"):
                read()
        assert not is_intact(made)
    made.path.write_bytes(bytes(2_999_999) + b"1")
    assert not is_intact(made)
    growing = written(tmp_path, bytes(3_000_000))
    started = growing.chunks()
    next(started)
    os.truncate(growing.path, 1_500_000)
    with pytest.raises(OSError, match="has 1500000 bytes instead of"):
        list(started)


# Arrays.


@pytest.mark.parametrize("size", [0, 8, LARGE - 8, LARGE, LARGE + 8, 3 * LARGE + 80])
@pytest.mark.parametrize("dtype", ["<f4", "<f8", ">f8"])
def test_an_array_comes_back(quick_path: Path, size: int, dtype: str) -> None:
    values = np.random.default_rng(size).normal(size=size // np.dtype(dtype).itemsize).astype(dtype)
    stored = store_parameters(values, quick_path / "models")
    assert isinstance(stored, ModelFile) == (size >= LARGE)
    assert digest_of(stored) == sha(values.tobytes())
    found = load_parameters(stored, dtype)
    assert (found.dtype, found.shape) == (values.dtype, values.shape)
    assert np.array_equal(found, values)
    found += 1  # its own memory
    assert np.array_equal(load_parameters(stored, dtype), values)
    assert store_parameters(values.tobytes(), quick_path / "models") == store_parameters(
        memoryview(values.tobytes()), quick_path / "models"
    )


def test_any_shape_is_stored_in_the_order_of_its_numbers(quick_path: Path) -> None:
    values = np.arange(4_000_000, dtype="<f4").reshape(4, 1000, 1000)
    for array in (values, values.T, values[:, ::2], values[0].T, values[0, 0, 0], values[:0]):
        stored = store_parameters(array, quick_path)
        assert digest_of(stored) == sha(array.tobytes())
        if isinstance(stored, ModelFile):
            found = np.empty(array.shape, array.dtype)
            stored.read_into(found)
            assert np.array_equal(found, array)


def test_arrays_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    made = written(tmp_path, bytes(24))
    for parameters in (made, bytes(24)):
        with pytest.raises(InvalidInput, match="24 bytes: must be a multiple of the 16 bytes of complex128"):
            load_parameters(parameters, complex)
    fixed = np.empty(3)
    fixed.flags.writeable = False
    for array in (np.empty(4), np.empty(2), np.empty(6)[::2], fixed):
        with pytest.raises(InvalidInput, match="must be 24 bytes without gaps"):
            made.read_into(array)


# The folder of a journal.


def test_a_loose_file_is_moved_and_any_other_copied(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path / "models")
    for place in (tmp_path / "models", tmp_path / "elsewhere"):
        loose = written(place, b"loose")
        kept = folder.keep(loose)
        assert kept == loose
        assert kept.path == loose.path == tmp_path / "models" / f"{sha(b'loose')}.model"
        loose.discard()  # it is no longer loose
        assert is_intact(kept)
        assert not names(tmp_path / "elsewhere")
    mine = tmp_path / "mine"
    mine.write_bytes(b"mine")
    given = ModelFile(mine, 4, sha(b"mine"))
    kept = folder.keep(given)
    assert given.path == mine
    mine.write_bytes(b"mime")
    assert is_intact(kept)
    with pytest.raises(OSError, match="is not what was written"):
        folder.keep(given)
    assert is_intact(kept)
    assert folder.models() == {sha(b"loose"), sha(b"mine")}
    assert len(names(folder.path)) == 2
    folder.drop(sha(b"mine"))
    with pytest.raises(FileNotFoundError):
        folder.keep(kept)


def test_a_file_of_another_file_system_is_moved_too(tmp_path: Path, quick_path: Path) -> None:
    if tmp_path.stat().st_dev == quick_path.stat().st_dev:
        pytest.skip("there is one file system only")
    loose = written(quick_path, b"loose")
    kept = ModelFolder(tmp_path / "models").keep(loose)
    assert is_intact(kept)
    assert loose.path == kept.path
    assert not names(quick_path)


def test_tidying_leaves_what_is_needed_and_what_it_does_not_know(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path)
    needed, unneeded = (folder.keep(written(tmp_path, content)) for content in (b"1", b"2"))
    written(tmp_path, b"3")
    (tmp_path / "notes.model").touch()
    folder.tidy({needed.digest})
    assert names(tmp_path) == {needed.path.name, "notes.model"}
    assert not is_intact(unneeded)
