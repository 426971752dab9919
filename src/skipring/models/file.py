"""The file of a model: numpy's format for several arrays (npz), one of them a text that says what the others mean.

Nothing in it is code, and nothing is ever unpickled. Two files of the same model have the same bytes.
"""

from __future__ import annotations

import dataclasses
import json
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._function import IS_FUNCTION
from .._json import from_json, json_text, to_json
from .._writing import whole_file
from ..data import Scaling, Schema, check_encoder
from ..errors import InvalidInput, require_open_unit
from ..learning import NETWORKS, is_network, loss_kind
from .inputs import InputFacts, Inputs
from .trained import FORMAT, ModelFacts, TrainedModel

_PIECE = 1 << 20
_ABOUT, _PARAMETERS, _CLASSES, _CENTRE, _SCALE, _FIXED = "about", "parameters", "classes", "centre", "scale", "fixed"
#: A text that describes a model is not longer; nor has any model more columns.
_MOST_TEXT, _MOST_COLUMNS = 1 << 26, 1 << 28

#: What zipfile and numpy raise where a file is not what they expect; the last three for the header of an array.
_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    ValueError,
    RuntimeError,
    MemoryError,
    OverflowError,
    SyntaxError,
    tokenize.TokenError,
)


class ParameterBytes(NamedTuple):
    """Parameters piece by piece, of a model that is too large to be in memory as a whole."""

    dtype: str
    size: int
    chunks: Iterable[bytes]


@dataclass(frozen=True, kw_only=True)
class _Columns(InputFacts):
    """What the file says of a model's inputs, beside the schema and arrays."""

    unit_rows: bool | None = None


def save_model(model: TrainedModel, path: str | Path) -> None:
    """Write a model to a file that `load_model` reads."""
    try:
        write_model(model, path)
    except OSError as error:
        raise InvalidInput.because("out", path, f"cannot be written: {error.strerror}") from None


def write_model(model: TrainedModel, path: str | Path, parameters: ParameterBytes | None = None) -> None:
    """Write a model, completely or not at all; OSError: it cannot be written.

    `parameters` take the place of the model's own, which may then be empty.
    """
    inputs, own = model.inputs, np.ascontiguousarray(model.parameters).reshape(-1)
    given = ParameterBytes(own.dtype.str, own.size, _pieces(own)) if parameters is None else parameters
    described = {
        "model": to_json(model.facts),
        "inputs": to_json(
            _Columns(
                unit_rows=None if inputs.scaling is None else inputs.scaling.unit_rows,
                **{name: getattr(inputs, name) for name in _of_inputs()},
            )
        ),
        "column": None if inputs.schema is None else inputs.schema.to_values(),
    }
    arrays: dict[str, NDArray[Any]] = {_ABOUT: np.array(json_text(described)), _CLASSES: inputs.classes}
    if inputs.scaling is not None:
        arrays |= {_CENTRE: inputs.scaling.centre, _SCALE: inputs.scaling.scale}
    if model.fixed.size:
        arrays[_FIXED] = model.fixed
    with whole_file(path) as whole, zipfile.ZipFile(whole, "w") as file:
        for name, array in arrays.items():
            with _entry(file, name) as entry:
                np.lib.format.write_array(entry, np.asarray(array, order="C"), (1, 0), allow_pickle=False)
        with _entry(file, _PARAMETERS) as entry:
            header = {"descr": given.dtype, "fortran_order": False, "shape": (given.size,)}
            np.lib.format.write_array_header_1_0(entry, header)
            for chunk in given.chunks:
                entry.write(chunk)


def _entry(file: zipfile.ZipFile, name: str) -> Any:
    return file.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True)  # with a date that is always the same


def _pieces(array: NDArray[Any]) -> Iterator[bytes]:
    step = max(1, _PIECE // max(1, array.itemsize))
    for low in range(0, array.size, step):
        yield array[low : low + step].tobytes()


def load_model(path: str | Path) -> TrainedModel:
    """Read a model's file; one line says what is wrong with it. No code in it is run.

    >>> load_model("nowhere.npz")
    Traceback (most recent call last):
        ...
    skipring.errors.InvalidInput: MODEL = nowhere.npz: there is no such file
    """
    try:
        with zipfile.ZipFile(path) as file:
            arrays = {info.filename.removesuffix(".npy"): _array(file, info) for info in _known(file)}
    except FileNotFoundError:
        raise InvalidInput.because("MODEL", path, "there is no such file") from None
    except IsADirectoryError:
        there = [str(Path(path) / "model.npz")] if (Path(path) / "model.npz").is_file() else []
        reason = f"is a folder, and not a file{'; the model in it is ' + there[0] if there else ''}"
        raise InvalidInput.because("MODEL", path, reason) from None
    except OSError as error:
        raise InvalidInput.because("MODEL", path, f"cannot be read: {error.strerror or error}") from None
    except _DAMAGED as error:
        first = (str(error).splitlines() or ["empty"])[0]
        raise InvalidInput.because("MODEL", path, f"is no model of skipring, or damaged: {first[:120]}") from None
    try:
        return _model(arrays)
    except (InvalidInput, RecursionError) as problem:  # guarantees may be in one another, without end
        raise InvalidInput.because("MODEL", path, str(problem)) from None


def _known(file: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    wanted = {f"{name}.npy" for name in (_ABOUT, _PARAMETERS, _CLASSES, _CENTRE, _SCALE, _FIXED)}
    return [info for info in file.infolist() if info.filename in wanted]


def _array(file: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    if info.compress_type != zipfile.ZIP_STORED:  # a small file must not become a huge one
        raise ValueError(f"{info.filename} is compressed")
    with file.open(info) as entry:  # whose checksum is looked at once all of it was read
        found = np.lib.format.read_array(entry, allow_pickle=False)
        if entry.read(1):
            raise ValueError(f"{info.filename} is longer than it says")
    return np.asarray(found)


def _model(arrays: Mapping[str, NDArray[Any]]) -> TrainedModel:
    for name in (_ABOUT, _PARAMETERS, _CLASSES):
        if name not in arrays:
            raise InvalidInput.because(name, "missing", "it is no model of skipring")
    about = arrays[_ABOUT]
    if about.dtype.kind != "U" or about.shape != () or about.nbytes > _MOST_TEXT:
        raise InvalidInput(_ABOUT, about.dtype, "one text")
    try:
        described = json.loads(str(about[()]))
    except (ValueError, RecursionError) as error:
        raise InvalidInput(_ABOUT, "a text", f"JSON ({error})") from None
    if not isinstance(described, Mapping):
        raise InvalidInput(_ABOUT, type(described).__name__, "an object")
    stated = described.get("model")
    if isinstance(stated, Mapping) and stated.get("format", FORMAT) != FORMAT:
        reason = f"this skipring reads format {FORMAT}; a newer one may read it"
        raise InvalidInput.because("model.format", stated["format"], reason)
    for section in ("model", "inputs"):
        if section not in described:
            raise InvalidInput.because(section, "missing", "has no default")
    facts = from_json(ModelFacts, stated, "model")
    said = from_json(_Columns, described["inputs"], "inputs")
    inputs = _inputs(arrays, said, described.get("column"))
    parameters = arrays[_PARAMETERS]
    _check(facts, inputs, parameters)
    fixed = arrays.get(_FIXED, np.zeros(0, np.uint8))
    if fixed.dtype != np.uint8 or fixed.ndim != 1:
        raise InvalidInput(_FIXED, f"{fixed.dtype} of shape {fixed.shape}", "bytes, one after another")
    return TrainedModel(facts, inputs, parameters, fixed)


def _inputs(arrays: Mapping[str, NDArray[Any]], said: _Columns, entries: Any) -> Inputs:
    schema = None
    if entries is not None:
        if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
            raise InvalidInput("column", type(entries).__name__, "a list of columns")
        schema = Schema.of(entries)
    if not 1 <= said.columns <= _MOST_COLUMNS:
        raise InvalidInput("inputs.columns", said.columns, "a number of columns")
    if said.intercept_share is not None:
        require_open_unit("inputs.intercept_share", said.intercept_share)
    check_encoder(said.features)
    scaling = None
    if schema is None and said.unit_rows is not None:
        for name in (_CENTRE, _SCALE):
            found = arrays.get(name)
            if found is None or found.dtype.kind != "f" or found.shape != (said.columns,):
                raise InvalidInput(name, "missing" if found is None else found.shape, f"{said.columns} numbers")
        if not np.isfinite(arrays[_CENTRE]).all() or not ((arrays[_SCALE] > 0.0) & np.isfinite(arrays[_SCALE])).all():
            raise InvalidInput("scale", "of a column", "a finite number above 0")
        scaling = Scaling(centre=arrays[_CENTRE], scale=arrays[_SCALE], unit_rows=said.unit_rows)
    given = {name: getattr(said, name) for name in _of_inputs()}
    return Inputs(classes=arrays[_CLASSES], schema=schema, scaling=scaling, **given)


def _of_inputs() -> list[str]:
    """Return the names of what the file and `Inputs` say alike."""
    return [field.name for field in dataclasses.fields(InputFacts)]


def _check(facts: ModelFacts, inputs: Inputs, parameters: NDArray[Any]) -> None:
    """Refuse parts that do not go together, and guarantees that are none."""
    for each in (facts.guarantee, *facts.guarantee.also):
        if not 0.0 < each.delta < 1.0:
            raise InvalidInput("model.guarantee.delta", each.delta, "above 0 and below 1")
    if inputs.classes.ndim != 1:
        raise InvalidInput("classes", f"an array of shape {inputs.classes.shape}", "a list of names or numbers")
    name, classes = facts.name, len(inputs.classes)
    network = is_network(name)
    if network and name not in NETWORKS and IS_FUNCTION.fullmatch(name) is None:
        raise InvalidInput("model.name", name, "module:function")
    if parameters.ndim != 1 or parameters.dtype.kind != "f" or not np.isfinite(parameters).all():
        raise InvalidInput(
            "parameters", f"{parameters.dtype} of shape {parameters.shape}", "a vector of finite numbers"
        )
    if inputs.classes.dtype.kind not in "Ubiuf" or len(set(inputs.classes.tolist())) < classes:
        raise InvalidInput("classes", f"{inputs.classes.dtype}", "names or numbers, all different")
    if inputs.names and len(inputs.names) != inputs.columns:
        raise InvalidInput("inputs.names", len(inputs.names), f"{inputs.columns} names")
    schema = inputs.schema
    if schema is not None and (len(schema.feature_names), schema.classes) != (inputs.columns, tuple(inputs.classes)):
        raise InvalidInput.because("column", len(schema.columns), "the schema has other columns or classes")
    loss = loss_kind(name)
    if classes not in (range(10**6) if network else loss.classes):
        raise InvalidInput.because("classes", classes, f"the model is {name}")
    scores = 1 if network else loss.scores(classes)
    widths = {"none": inputs.columns}
    if inputs.features.startswith("random-fourier:"):
        widths[inputs.features] = int(inputs.features.partition(":")[2])
    if not network and inputs.features in widths:  # what other encoders answer is known once they are called
        wanted = scores * (widths[inputs.features] + inputs.intercept)
        if parameters.size != wanted:
            raise InvalidInput("parameters", parameters.size, f"{wanted}, for {inputs.columns} columns")
    if parameters.size == 0 or parameters.size % scores:
        raise InvalidInput("parameters", parameters.size, f"as many for each of {scores} classes")
