"""The file of a model: the same bytes each time, no code in it, and one line for whatever is wrong with it."""

from __future__ import annotations

import dataclasses
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skipring.data import Scaling
from skipring.errors import InvalidInput
from skipring.models import (
    Inputs,
    ModelFacts,
    ParameterBytes,
    TrainedModel,
    load_model,
    save_model,
    write_model,
)
from skipring.privacy import Guarantee

GUARANTEE = Guarantee(
    protects="record",
    whose="node a",
    against="another node",
    sees="which sees the token",
    method="tight",
    delta=1e-5,
    epsilon=2.5,
)


def model() -> TrainedModel:
    facts = ModelFacts(name="logistic", updates=7, run="00ff", guarantee=GUARANTEE, source="a test")
    scaling = Scaling(centre=np.array([1.0, 2.0]), scale=np.array([1.0, 4.0]))
    inputs = Inputs(columns=2, names=("a", "b"), classes=np.array(["no", "yes"]), scaling=scaling, intercept=True)
    return TrainedModel(facts, inputs, np.array([1.0, -2.0, 0.5]))


def arrays_of(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def rewritten(path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Change what the text of a file says."""
    arrays = arrays_of(path)
    about = json.loads(str(arrays["about"]))
    change(about)
    np.savez(path, **arrays | {"about": np.array(json.dumps(about))})
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save_model(model(), tmp_path / "model.npz")
    return tmp_path / "model.npz"


def test_what_was_saved_is_loaded(path: Path) -> None:
    found = load_model(path)
    assert found.facts == model().facts
    np.testing.assert_array_equal(found.parameters, model().parameters)
    # By hand: (row - centre) / scale, norm 1, and half of its square for the constant.
    row = np.array([2.0, 2.0]) / np.sqrt(8.0)
    score = np.sqrt(0.5) * (row @ [1.0, -2.0] + 0.5)
    assert found.scores(np.array([[3.0, 10.0]]))[0] == pytest.approx(score)
    assert found.predict_proba([[3, 10]])[0, 1] == pytest.approx(1.0 / (1.0 + np.exp(-score)))
    assert "Epsilon 2.5 at delta 1e-05 protects one record of node a (replace-one)" in repr(found)
    assert not list(path.parent.glob("*.part"))


def test_the_same_model_has_the_same_bytes_in_pieces_too(path: Path) -> None:
    own = model()
    pieces = ParameterBytes("<f8", 3, (own.parameters[i : i + 1].tobytes() for i in range(3)))
    write_model(TrainedModel(own.facts, own.inputs, np.empty(0)), path.with_name("other.npz"), pieces)
    assert path.read_bytes() == path.with_name("other.npz").read_bytes()
    assert set(arrays_of(path)) == {"about", "classes", "centre", "scale", "parameters"}


def test_what_a_later_version_adds_is_ignored(path: Path) -> None:
    def change(about: dict[str, Any]) -> None:
        about["model"]["mood"] = "good"
        about["inputs"]["more"] = [1]
        about["model"]["guarantee"]["of"] = "later"
        about["news"] = {}

    arrays = arrays_of(rewritten(path, change))
    np.savez(path, **arrays | {"extra": np.zeros(3)})
    assert load_model(path).facts == model().facts


@pytest.mark.parametrize(
    ("section", "key"),
    [("model", "name"), ("model", "guarantee"), ("inputs", "columns"), ("inputs", "intercept"), ("model", "updates")],
)
def test_what_is_missing_is_named(path: Path, section: str, key: str) -> None:
    rewritten(path, lambda about: about[section].pop(key))
    with pytest.raises(InvalidInput, match=f"{section}.{key} = missing"):
        load_model(path)


def test_another_format_is_refused(path: Path) -> None:
    rewritten(path, lambda about: about["model"].update(format=2))
    with pytest.raises(InvalidInput, match="this skipring reads format 1"):
        load_model(path)


@pytest.mark.parametrize("section", ["model", "inputs"])
def test_a_section_that_is_missing_is_named(path: Path, section: str) -> None:
    rewritten(path, lambda about: about.pop(section))
    with pytest.raises(InvalidInput, match=f"{section} = missing"):
        load_model(path)


@pytest.mark.parametrize(
    ("section", "says", "said"),
    [
        ("inputs", {"columns": 0}, "inputs.columns = 0: must be a number of columns"),
        ("inputs", {"names": ["a"]}, "inputs.names = 1: must be 2 names"),
        ("column", {}, "column = dict: must be a list of columns"),
    ],
)
def test_inputs_that_go_with_no_rows_are_refused(path: Path, section: str, says: dict[str, Any], said: str) -> None:
    def change(about: dict[str, Any]) -> None:
        about[section] = (about[section] or {}) | says

    with pytest.raises(InvalidInput, match=said):
        load_model(rewritten(path, change))


def test_a_schema_of_other_columns_is_refused(path: Path) -> None:
    columns = [{"name": "y", "label": True, "categories": ["no", "yes"]}, {"name": "a", "range": [0.0, 1.0]}]
    with pytest.raises(InvalidInput, match="the schema has other columns or classes"):
        load_model(rewritten(path, lambda about: about.update(column=columns)))


def test_a_model_without_parameters_is_refused_whatever_its_encoder(path: Path) -> None:
    rewritten(path, lambda about: about["inputs"].update(features="scattering"))
    np.savez(path, **arrays_of(path) | {"parameters": np.zeros(0)})
    with pytest.raises(InvalidInput, match="parameters = 0: must be as many"):
        load_model(path)


def test_an_array_that_is_longer_than_it_says_is_refused(path: Path) -> None:
    with zipfile.ZipFile(path) as file:
        entries = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(path, "w") as file:
        for name, content in entries.items():
            file.writestr(name, content + b"x" * (name == "parameters.npy"))
    with pytest.raises(InvalidInput, match="is longer than it says"):
        load_model(path)


def test_a_constant_has_a_share_between_nothing_and_all(path: Path) -> None:
    rewritten(path, lambda about: about["inputs"].update(intercept_share=1.0))
    with pytest.raises(InvalidInput, match=r"inputs.intercept_share = 1.0: must be above 0 and below 1"):
        load_model(path)


@pytest.mark.parametrize(
    ("name", "array", "said"),
    [
        ("parameters", np.zeros(4), "parameters = 4: must be 3"),
        ("parameters", np.array([1.0, np.nan, 1.0]), "a vector of finite numbers"),
        ("parameters", np.zeros((3, 1)), "a vector of finite numbers"),
        ("classes", np.array(["a", "a"]), "all different"),
        ("classes", np.array(["a", "b", "c"]), "classes = 3: the model is logistic"),
        ("scale", np.zeros(2), "scale = of a column"),
        ("centre", np.zeros(3), "must be 2 numbers"),
        ("about", np.array("{"), "must be JSON"),
        ("about", np.array("[]"), "must be an object"),
        ("classes", np.array("no"), "must be a list of names or numbers"),
        ("about", np.zeros(3), "must be one text"),
        ("fixed", np.zeros(3), "must be bytes, one after another"),
    ],
)
def test_parts_that_do_not_go_together_are_refused(path: Path, name: str, array: Any, said: str) -> None:
    np.savez(path, **arrays_of(path) | {name: array})
    with pytest.raises(InvalidInput, match=said):
        load_model(path)


class _Trap:
    """What a pickle would do when it is read."""

    def __reduce__(self) -> Any:
        return (exec, ("raise SystemError('code was run')",))


def test_no_code_is_run(path: Path) -> None:
    arrays = arrays_of(path)
    np.savez(path, **arrays | {"classes": np.array([_Trap()], dtype=object)})
    with pytest.raises(InvalidInput, match="no model of skipring"):
        load_model(path)
    path.write_bytes(pickle.dumps(_Trap()))
    with pytest.raises(InvalidInput, match="no model of skipring"):
        load_model(path)
    # Nor is a function imported before the model is asked for anything.
    save_model(model(), path)
    rewritten(path, lambda about: about["model"].update(name="nowhere_at_all:make"))
    assert load_model(path).is_network


def test_foreign_and_damaged_files_are_refused_in_one_line(path: Path, tmp_path: Path) -> None:
    whole = path.read_bytes()
    np.savez(tmp_path / "metrics.npz", points=np.zeros(3))
    np.save(tmp_path / "model.npy", np.zeros(3))
    (tmp_path / "text.npz").write_text("age,ill\n1,no\n")
    (tmp_path / "empty.npz").write_bytes(b"")
    (tmp_path / "half.npz").write_bytes(whole[: len(whole) // 2])
    changed = bytearray(whole)
    changed[whole.index(np.array([1.0, -2.0, 0.5]).tobytes()) + 3] ^= 1
    (tmp_path / "changed.npz").write_bytes(changed)
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("about.npy", b"0" * 10_000_000)
    with zipfile.ZipFile(tmp_path / "huge.npz", "w") as file, file.open("parameters.npy", "w") as entry:
        np.lib.format.write_array_header_1_0(entry, {"descr": "<f8", "fortran_order": False, "shape": (2**60,)})
    names = ("metrics.npz", "model.npy", "text.npz", "empty.npz", "half.npz", "changed.npz", "bomb.npz", "huge.npz")
    for name in (*names, "missing.npz", "."):
        with pytest.raises(InvalidInput) as refused:
            load_model(tmp_path / name)
        assert len(str(refused.value).splitlines()) == 1, name


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (3,",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1180591620717411303424,), }",
        "{'descr': 'f8,f8,(', 'fortran_order': False, 'shape': (3,), }",
        "(" * 4000,
    ],
)
def test_headers_that_numpy_stumbles_over_are_refused_in_one_line(path: Path, header: str) -> None:
    text = header.encode() + b"\n"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("parameters.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
    with pytest.raises(InvalidInput, match="no model of skipring") as refused:
        load_model(path)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("epsilon", -1, "model.guarantee.epsilon = -1.0: must be at least 0"),
        ("epsilon", float("nan"), "must be at least 0"),
        ("epsilon", 10**400, "must be a number that fits into a double"),
        ("delta", 0, "must be above 0 and below 1"),
        ("delta", float("nan"), "must be above 0 and below 1"),
        ("relation", "add-remove", "model.guarantee.relation = add-remove: must be replace-one"),
    ],
)
def test_guarantees_that_are_none_are_refused(path: Path, key: str, value: float, said: str) -> None:
    rewritten(path, lambda about: about["model"]["guarantee"].update({key: value}))
    with pytest.raises(InvalidInput, match=said):
        load_model(path)


def test_whichever_byte_is_damaged_nothing_else_is_loaded(path: Path) -> None:
    whole, known = path.read_bytes(), model()
    refused = 0
    for place in range(0, len(whole), 5):
        for bits in (0x01, 0xFF):
            changed = bytearray(whole)
            changed[place] ^= bits
            path.write_bytes(changed)
            try:
                found = load_model(path)
            except InvalidInput as problem:
                refused += len(str(problem).splitlines())
            else:  # a date, or another thing that nobody reads
                assert found.facts == known.facts
                assert found.parameters.tobytes() == known.parameters.tobytes()
    assert refused > len(whole) / 5


def test_a_file_that_cannot_be_written_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be written"):
        save_model(model(), tmp_path / "nowhere" / "model.npz")


def test_a_folder_in_place_of_a_model_says_where_the_model_is(path: Path, tmp_path: Path) -> None:
    node = tmp_path / "node"
    node.mkdir()
    with pytest.raises(InvalidInput, match=r"is a folder, and not a file$"):
        load_model(node)
    path.rename(node / "model.npz")
    with pytest.raises(InvalidInput, match=r"is a folder, and not a file; the model in it is .*model.npz$"):
        load_model(node)


def test_an_infinite_epsilon_is_not_said_to_hide_anything() -> None:
    said = dataclasses.replace(GUARANTEE, epsilon=float("inf")).sentence()
    assert said.startswith("Nothing is promised for one record of node a (replace-one) against another node")
    assert "protects" not in said


def test_guarantees_in_one_another_without_end_are_refused_in_one_line(path: Path) -> None:
    def change(about: dict[str, Any]) -> None:
        for _ in range(300):
            about["model"]["guarantee"] = about["model"]["guarantee"] | {"also": [about["model"]["guarantee"]]}

    with pytest.raises(InvalidInput) as refused:
        load_model(rewritten(path, change))
    assert len(str(refused.value).splitlines()) == 1
