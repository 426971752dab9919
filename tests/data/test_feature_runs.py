"""One run file with features means the same in a simulation, at a node and in the estimator."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from skipring import SkipRingClassifier, simulate
from skipring.data import encoded, encoder, load_dataset
from skipring.errors import InvalidInput
from skipring.network.node import OwnData, make_learner
from skipring.runs import RunFile, dealt_rows, not_covered, parse_run, with_changes
from skipring.simulation import build

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where features are kept; and a fifth of the digits to encode, as encoding takes long."""
    monkeypatch.setenv("SKIPRING_CACHE", str(tmp_path / "kept"))
    monkeypatch.chdir(tmp_path)
    digits = load_dataset("digits")
    np.savez("few.npz", X=digits.features[:360], y=digits.labels[:360].astype(str))
    return tmp_path / "kept"


def run_of(features: str, **changes: Any) -> RunFile:
    values: dict[str, Any] = {
        "data": {"path": "few.npz", "label": "y", "nodes": 5},
        "model": {"name": "softmax", "features": features, "device": "cpu"},
        "schedule": {"name": "random-ring", "steps": 20},
        "privacy": {"noise_multiplier": 1.0, "protects": "node"},
        "simulation": {"runs": 1},
    }
    for key, value in changes.items():
        values[key] = values.get(key, {}) | value
    return parse_run(values)


def test_a_simulation_learns_on_features() -> None:
    for name, width in (("scattering", 324), ("random-fourier:100", 100)):
        setup = build(run_of(name, model={"intercept": True}))
        assert setup.model.features == setup.test_x.shape[1] == width + 1
        assert setup.model.contracts(4.0)  # convex, so that the noise of others counts
        assert setup.data.features.dtype == np.float32
    result = simulate(run_of("scattering"))
    assert result.privacy.not_amplified_because is None
    assert result.settings["model"]["features"] == "scattering"
    assert result.resolved.parameters == 3240


def test_what_standardising_costs_is_said_where_it_is_done() -> None:
    classes = {"classes": list("0123456789")}
    assert not_covered(run_of("scattering", model=classes)) is None
    assert "data.standardise" in (not_covered(run_of("random-fourier:9", model=classes)) or "")


@pytest.mark.parametrize("name", ["scattering", "random-fourier:60"])
def test_a_node_of_shared_data_holds_what_a_simulation_deals_to_it(name: str) -> None:
    run = run_of(name)
    owned = dealt_rows(run)[2]
    rng = np.random.default_rng(1)
    for index in (0, 3):
        made: Any = make_learner(run, index=index, nodes=5, name="n", data=OwnData(), rng=rng)[0]
        low, high = owned.start[index], owned.start[index + 1]
        np.testing.assert_array_equal(made.rows.train_x, owned.features[low:high])
        assert made.rows.train_x.dtype == np.float64
        assert made.shape == (10 * owned.features.shape[1],)


def test_a_node_with_a_file_of_its_own_encodes_it_and_keeps_no_copy(
    tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skipring.data.features._LEAST_BYTES", 1)
    digits = load_dataset("digits")
    np.savez(tmp_path / "own.npz", X=digits.features[:60], y=digits.labels[:60].astype(str))
    run = run_of(
        "scattering",
        data={"path": None, "label": None, "nodes": None},
        model={"classes": list("0123456789"), "columns": 64},
    )
    data = OwnData(path=tmp_path / "own.npz", label="y")
    made: Any = make_learner(run, index=0, nodes=5, name="n", data=data, rng=np.random.default_rng(1))[0]
    both = np.concatenate([made.rows.train_x, made.rows.test_x])
    found = encoder("scattering", 64, device="cpu")
    assert found is not None
    expected = encoded(found, digits.features[:60], keep=False)
    np.testing.assert_array_equal(np.sort(both, axis=0), np.sort(expected, axis=0))
    assert not kept.exists()
    wrong = with_columns(run, 65)
    with pytest.raises(InvalidInput, match=r"^model\.columns = 65: own\.npz has 64 features"):
        make_learner(wrong, index=0, nodes=5, name="n", data=data, rng=np.random.default_rng(1))


def with_columns(run: RunFile, columns: int) -> RunFile:
    return run.model_copy(update={"model": run.model.model_copy(update={"columns": columns})})


def test_which_rows_are_test_rows_does_not_change_what_is_kept(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skipring.data.features._LEAST_BYTES", 1)
    for seed in (1, 2):
        build(run_of("scattering", simulation={"seed": seed}))
    assert len(list((kept / "features").glob("*.npy"))) == 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["model.features=scattering"], "model.features = scattering: takes images of 8 x 8"),
        (["model.features=wavelets"], "model.features = wavelets: must be none, scattering, random-fourier:N"),
        (["model.features=random-fourier:0"], "model.features = random-fourier:0: must be none"),
        (
            ["model.features=scattering", "model.name=cnn"],
            "model.features = scattering: is for linear models; the network",
        ),
        (
            ["model.features=random-fourier:9", "model.name=a:b"],
            "model.features = random-fourier:9: is for linear models",
        ),
        (["model.features=no_such_module:f"], "model.features = no_such_module:f: cannot be imported"),
        (["model.features=1.5"], "model.features = 1.5"),
        (["model.features=scattering", "model.device=tpu", "data.name=digits"], "model.device = tpu"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    skipring_words: Callable[..., Any], changes: list[str], said: str
) -> None:
    Path("run.toml").write_text("[simulation]\nruns = 1\n")
    answer = skipring_words("simulate", "run.toml", *(word for change in changes for word in ("--set", change)))
    assert answer.code == 2
    key, _, rest = said.partition(" = ")
    assert key in answer.err
    assert rest.partition(": ")[2] in " ".join(answer.err.split())


def test_features_come_back_from_the_values_of_a_run() -> None:
    assert run_of("scattering").model_dump()["model"]["features"] == "scattering"
    assert with_changes(None, ["model.features=scattering"]).model.features == "scattering"
    assert parse_run(run_of("scattering").model_dump(mode="json")) == run_of("scattering")


def test_the_estimator_encodes_what_it_fits_and_predicts() -> None:
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    for features, width in (("scattering", 324), ("random-fourier:200", 200)):
        model = SkipRingClassifier(
            features=features,
            noise_multiplier=0.0,
            nodes=10,
            learning_rate=3.0,
            diameter=100.0,
            rounds=20,
            random_state=1,
        ).fit(X[:800], y[:800])
        assert model.coef_.shape == (10, width)
        assert model.n_features_in_ == 64
        assert model.score(X[800:], y[800:]) > 0.7
    with pytest.raises(InvalidInput, match=r"^features = scattering: takes images"):
        SkipRingClassifier(features="scattering").fit(X[:, :63], y)
    with pytest.raises(InvalidInput, match=r"^features = 3: must be the name of an encoder"):
        SkipRingClassifier(features=3).fit(X, y)  # type: ignore[arg-type] # the mistake


def test_the_examples_of_the_page_run(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "features.md").read_text(), flags=re.DOTALL)
    assert len(blocks) == 2
    (tmp_path / "clinic").mkdir()
    (tmp_path / "clinic" / "encoders.py").write_text(blocks[1])
    used = 'print(simulate(run | {"model": {"features": "clinic.encoders:squares"}}))'
    (tmp_path / "page.py").write_text(f"{blocks[0]}\n{used}\n")
    done = subprocess.run(
        [sys.executable, "page.py"], capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert 0.0 < float(done.stdout.splitlines()[0]) < 0.3


def test_the_example_shows_what_features_bring() -> None:
    """The means of ten runs that docs/features.md quotes, without noise."""
    page = (ROOT / "docs" / "features.md").read_text()
    for name in ("none", "scattering"):
        run = with_changes(ROOT / "examples" / "features.toml", [f"model.features={name}", "model.device=cpu"])
        assert f"{simulate(run).summary().test_error.mean:.1%}".replace("%", " %") in page
