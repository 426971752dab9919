"""Models that are too large to be kept in memory: in files, written and read in chunks.

The parameters of a token are `bytes` if they are small and a `ModelFile` if they are large. `store` and `load` turn an
array into either and back, `ModelWriter` takes a model that arrives in chunks, and `ModelFolder` is where a journal has
its models. A model of any size then takes no more memory than the one array that is computed with.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..._writing import sync_folder
from ...errors import InvalidInput
from ..protocol import Parameters

#: Parameters of at least this many bytes are kept in files, smaller ones in memory.
LARGE = 4 << 20
_CHUNK = 1 << 20
_INCOMING = "incoming-"


class ModelFile:
    """The parameters of a model in a file. Two of them are equal if the bytes are, wherever they lie.

    A file that a `ModelWriter` made is loose until a journal takes it: then the journal names it, and deletes it once
    it is no longer needed.
    """

    __slots__ = ("_digest", "_loose", "_path", "_size")

    def __init__(self, path: Path, size: int, digest: str) -> None:
        self._path, self._size, self._digest = path, size, digest
        self._loose = False

    @property
    def path(self) -> Path:
        """Where the file lies now."""
        return self._path

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return self._size

    @property
    def digest(self) -> str:
        """The SHA-256 of its bytes."""
        return self._digest

    def __len__(self) -> int:
        return self._size

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ModelFile):
            return NotImplemented
        return (self._size, self._digest) == (other._size, other._digest)

    def __hash__(self) -> int:
        return hash((self._size, self._digest))

    def __reduce__(self) -> tuple[type[ModelFile], tuple[Path, int, str]]:
        return ModelFile, (self._path, self._size, self._digest)  # a copy must not delete what the original has

    def __repr__(self) -> str:
        return f"ModelFile({str(self._path)!r}, {self._size}, {self._digest[:16]!r}...)"

    def chunks(self, size: int = _CHUNK) -> Iterator[bytes]:
        """Read the file piece by piece. OSError: it is gone, or has another size than it had.

        Once the first piece was read, the rest will come even if the file is deleted meanwhile.
        """
        with open(self._path, "rb", buffering=0) as file:
            yield from self._chunks(file, size)

    def _chunks(self, file: FileIO, size: int) -> Iterator[bytes]:
        self._require_size(os.fstat(file.fileno()).st_size)
        left = self._size
        while left:
            chunk = file.read(min(size, left))
            self._require_size(self._size if chunk else self._size - left)
            left -= len(chunk)
            yield chunk

    def read_into(self, array: NDArray[Any]) -> None:
        """Fill an array with the bytes of the file."""
        if array.nbytes != self._size or not (array.flags.c_contiguous and array.flags.writeable):
            given = f"{array.nbytes} bytes"
            raise InvalidInput("array", given, f"{self._size} bytes without gaps that may be written to")
        view = _view(array)
        with open(self._path, "rb", buffering=0) as file:
            self._require_size(os.fstat(file.fileno()).st_size)
            done = 0
            while done < self._size:
                count = file.readinto(view[done:])
                self._require_size(self._size if count else done)
                done += count or 0

    def is_in(self, file: FileIO) -> bool:
        """Read an open file: is it this model?"""
        if os.fstat(file.fileno()).st_size != self._size:
            return False
        seen = hashlib.sha256()
        for chunk in self._chunks(file, _CHUNK):
            seen.update(chunk)
        return seen.hexdigest() == self._digest

    def discard(self) -> None:
        """Delete a loose file. One that a journal has taken, or that nobody wrote with a `ModelWriter`, stays.

        The code that received or computed a model calls this once the journal had its chance to take it.
        """
        if self._loose:
            self._loose = False
            self._path.unlink(missing_ok=True)

    def _moved_to(self, path: Path) -> None:
        """Take note of the file's place; all that have this object, as part of a token, find it there."""
        self._path, self._loose = path, False

    def _require_size(self, found: int) -> None:
        if found != self._size:
            raise OSError(errno.EIO, f"has {found} bytes instead of {self._size}", str(self._path))


class ModelWriter:
    """A model that comes in chunks, on its way into a file of its own.

    As a context manager it deletes the file unless it was finished, and also if something goes wrong afterwards,
    until `release`.

    Parameters
    ----------
    folder : where the file is made (`JournalFile.models`); made if it is missing.
    keep_in_memory : collect bytes instead, for models that are small.
    """

    def __init__(self, folder: Path, *, keep_in_memory: bool = False) -> None:
        self.size = 0
        self._sha = hashlib.sha256()
        self._memory: bytearray | None = bytearray() if keep_in_memory else None
        self._path = folder / f"{_INCOMING}{secrets.token_hex(16)}"
        self._file = -1
        self._finished: Parameters | None = None
        self._abandoned = self._released = False
        if not keep_in_memory:
            folder.mkdir(mode=0o700, exist_ok=True)
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    def write(self, chunk: bytes | bytearray | memoryview) -> None:
        """Take the next chunk. OSError: there is no room for it, or the disk fails."""
        if self._memory is not None:
            self._memory += chunk
            self.size += len(chunk)
            return
        if self._file < 0:
            raise ValueError("the model is finished or abandoned")
        rest = _view(chunk)
        self._sha.update(rest)
        self.size += len(rest)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            self.abandon()  # the file is not what the digest says
            raise

    def finish(self) -> Parameters:
        """Return the model: a `ModelFile` whose bytes are on the disk itself, or bytes if it was kept in memory."""
        if self._memory is not None:
            self._finished, self._memory = bytes(self._memory), None
            return self._finished
        return self._finish_file()

    def abandon(self) -> None:
        """Delete what was written, unless a journal has taken it. Can be called at any time, also during `finish`."""
        self._abandoned, self._memory = True, None
        file, self._file = self._file, -1
        if file >= 0:
            with suppress(OSError):
                os.close(file)
            self._path.unlink(missing_ok=True)
        if isinstance(self._finished, ModelFile):
            self._finished.discard()

    def release(self) -> None:
        """Leave the finished model to those that have it now, whatever happens."""
        self._released = True

    def __enter__(self) -> ModelWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._finished is None or (kind is not None and not self._released):
            self.abandon()

    def _finish_file(self) -> ModelFile:
        file, self._file = self._file, -1
        if file < 0:
            raise ValueError("the model is finished or abandoned")
        try:
            os.fsync(file)
        except OSError:
            self._path.unlink(missing_ok=True)
            raise
        finally:
            os.close(file)
        made = ModelFile(self._path, self.size, self._sha.hexdigest())
        made._loose = True
        self._finished = made
        if self._abandoned:  # by another thread, meanwhile
            made.discard()
        return made


def store_parameters(values: NDArray[Any] | bytes | bytearray | memoryview, folder: Path) -> Parameters:
    """Return the bytes of an array as parameters: in a new file of the folder if they are many.

    No copy of the whole is made, unless the array has gaps.
    """
    view = _view(values)
    if len(view) < LARGE:
        return bytes(view)
    with ModelWriter(folder) as writer:
        for start in range(0, len(view), _CHUNK):
            writer.write(view[start : start + _CHUNK])
        return writer.finish()


def load_parameters(parameters: Parameters, dtype: DTypeLike) -> NDArray[Any]:
    """Return parameters as a new array, which may be changed."""
    item = np.dtype(dtype)
    size = size_of(parameters)
    if size % item.itemsize:
        raise InvalidInput("parameters", f"{size} bytes", f"a multiple of the {item.itemsize} bytes of {item}")
    array = np.empty(size // item.itemsize, item)
    if isinstance(parameters, bytes):
        _view(array)[:] = parameters
    else:
        parameters.read_into(array)
    return array


def digest_of(parameters: Parameters) -> str:
    """Return the SHA-256 of parameters.

    >>> digest_of(b"")[:16]
    'e3b0c44298fc1c14'
    """
    return hashlib.sha256(parameters).hexdigest() if isinstance(parameters, bytes) else parameters.digest


def size_of(parameters: Parameters) -> int:
    """Return how many bytes parameters have.

    >>> size_of(b"12345")
    5
    """
    return len(parameters)


def chunks_of(parameters: Parameters, size: int = _CHUNK) -> Iterator[bytes]:
    """Go through parameters piece by piece.

    >>> list(chunks_of(b"12345", 2))
    [b'12', b'34', b'5']
    """
    if isinstance(parameters, bytes):
        return (parameters[start : start + size] for start in range(0, len(parameters), size))
    return parameters.chunks(size)


class ModelFolder:
    """The models of a journal that are in files: each has the SHA-256 of its bytes as its name.

    `keep` is called before the journal speaks of a model, `drop` after it has ceased to.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def model(self, digest: str, size: int) -> ModelFile:
        """Return the model of that name; whether it is there and intact is another matter."""
        return ModelFile(self.path / f"{digest}.model", size, digest)

    def models(self) -> set[str]:
        """Return the digests that files are named after."""
        return {file.stem for file in self._files() if re.fullmatch(r"[0-9a-f]{64}\.model", file.name)}

    @contextmanager
    def opened(self) -> Iterator[dict[str, FileIO]]:
        """Open all models for reading, by their digests: what is deleted from now on can still be read."""
        with ExitStack() as stack:
            files = {}
            for digest in self.models():
                with suppress(FileNotFoundError):
                    files[digest] = stack.enter_context(open(self.model(digest, 0).path, "rb", buffering=0))
            yield files

    def keep(self, given: ModelFile) -> ModelFile:
        """Return the model as one of this folder, when it is on the disk itself under its name.

        A loose one is moved, and all that have `given` find it at its new place. Any other has another owner, who may
        change or delete it: it is copied.
        """
        kept = self.model(given.digest, given.size)
        self.path.mkdir(mode=0o700, exist_ok=True)
        if not given._loose:
            self._copy(given, kept)
        else:
            given._require_size(given.path.stat().st_size)
            try:
                os.replace(given.path, kept.path)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                self._copy(given, kept)  # from another file system
                given.path.unlink(missing_ok=True)
            given._moved_to(kept.path)
        sync_folder(self.path)
        sync_folder(self.path.parent)
        return kept

    def merge(self, given: ModelFile, kept: ModelFile) -> None:
        """Forget a loose file with the bytes of one that is kept already."""
        if given._loose:
            given.discard()
            given._moved_to(kept.path)

    def drop(self, digest: str) -> None:
        """Delete a model."""
        self.model(digest, 0).path.unlink(missing_ok=True)

    def tidy(self, needed: Collection[str]) -> None:
        """Delete what a crash has left: models half written, and those that are not needed. Other files stay."""
        for file in self._files():
            if file.name.startswith(_INCOMING):
                file.unlink()
        for digest in self.models() - set(needed):
            self.drop(digest)

    def _files(self) -> list[Path]:
        return list(self.path.iterdir()) if self.path.is_dir() else []

    def _copy(self, given: ModelFile, kept: ModelFile) -> None:
        with ModelWriter(self.path) as writer:
            for chunk in given.chunks():
                writer.write(chunk)
            copy = writer._finish_file()
            if copy != kept:
                raise OSError(errno.EIO, "is not what was written", str(given.path))
            os.replace(copy.path, kept.path)
            copy._moved_to(kept.path)


def _view(values: NDArray[Any] | bytes | bytearray | memoryview) -> memoryview:
    """Return the bytes of a buffer, or of an array in the order of its numbers, without copying if it has no gaps."""
    if isinstance(values, np.ndarray):
        return np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
    return memoryview(values).cast("B")
