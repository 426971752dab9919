"""Nobody can take the noise off a saved model: it comes from the operating system, and no file tells from where."""

from __future__ import annotations

import dataclasses
import json
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skipring import SkipRingClassifier
from skipring._json import to_json
from skipring.errors import InvalidInput
from skipring.models import Inputs, load_model
from skipring.privacy import ANOTHER_NODE
from skipring.report import load_folders, report_page
from skipring.runs import parse_run
from skipring.simulation import Interrupted, Result, build, run_one, simulate
from skipring.simulation.simulate import trained_model

RNG = np.random.default_rng(5)
ROWS, NODES = 60, 6
X, OWNER = RNG.normal(size=(ROWS, 4)), np.arange(ROWS) % NODES
Y = (X[:, 0] > 0).astype(int)
NETWORK = (
    "from torch import nn\n"
    "def small():\n"
    "    layers = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 2))\n"
    "    layers[2].requires_grad_(False)\n"
    "    return layers\n"
)


def settings(kind: str = "random-ring", **simulation: Any) -> dict[str, Any]:
    """Return the run file, which is public; its seed is the usual one."""
    values: dict[str, Any] = {
        "privacy": {"noise_multiplier": 4.0},
        "schedule": {"name": "random-ring" if kind == "network" else kind, "steps": 36},
        "simulation": {"runs": 2, "evaluate_every": 12, "seed": 1} | simulation,
    }
    if kind == "network":
        values |= {"model": {"name": "noisy_networks:small", "device": "cpu"}, "learning": {"gradient_bound": 1.0}}
    return values


@pytest.fixture(autouse=True)
def networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "noisy_networks.py").write_text(NETWORK)
    monkeypatch.syspath_prepend(tmp_path)


KINDS = ["random-ring", "network", "federated", "gossip"]


@pytest.mark.parametrize("kind", KINDS)
def test_who_knows_all_other_rows_and_the_run_file_cannot_compute_the_model_again(
    tmp_path: Path, kind: str, one_thread: None
) -> None:
    target = 17  # a row to learn from; its label is what the observer wants to know
    simulate(settings(kind), X, Y, OWNER, save_model=tmp_path / "model.npz")
    published = load_model(tmp_path / "model.npz")
    assert published.facts.guarantee.epsilon is not None
    for guess in (0, 1):
        labels = Y.copy()
        labels[target] = guess
        again = simulate(settings(kind), X, labels, OWNER)
        assert not np.array_equal(again.models[0].astype(published.parameters.dtype), published.parameters)
        twice = simulate(settings(kind), X, labels, OWNER)
        np.testing.assert_array_equal(again.models, twice.models, "without a saved model, a seed gives the same bytes")


def noted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list of what the operating system is asked for from now on; it is 128 bits or more."""
    drawn: list[int] = []
    real = secrets.randbits

    def remember(bits: int) -> int:
        assert bits >= 128
        drawn.append(real(bits))
        return drawn[-1]

    monkeypatch.setattr(secrets, "randbits", remember)
    return drawn


def spellings(secret: int) -> list[bytes]:
    """Return how a file may have a number: as text, or in bytes, also in pieces of eight."""
    size = 48
    found = [str(secret).encode(), f"{secret:x}".encode(), f"{secret:X}".encode()]
    for order in ("little", "big"):
        whole = secret.to_bytes(size, order)
        found += [whole[low : low + 8] for low in range(0, size, 8)]
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_no_file_has_what_the_noise_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, one_thread: None
) -> None:
    drawn = noted(monkeypatch)
    out, saved = tmp_path / "out", tmp_path / "model.npz"
    stop = threading.Event()

    def interrupt(done: int) -> None:
        if done:
            stop.set()

    def written() -> bytes:
        files = [path for path in [*out.rglob("*"), saved] if path.is_file()]
        assert files
        return b"".join(path.read_bytes() for path in files)

    many = settings(kind, runs=20)
    with pytest.raises(Interrupted):
        simulate(many, X, Y, OWNER, out=out, save_model=saved, threads=1, stop=stop, progress=interrupt)
    half = written()
    simulate(many, X, Y, OWNER, out=out, save_model=saved, resume=True)
    whole = written()
    assert len(drawn) >= 20
    for secret in drawn:
        for spelling in spellings(secret):
            assert spelling not in half
            assert spelling not in whole


def test_path_and_noise_have_streams_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a result tells of delays and the path gives nothing away of the generator that the noise comes from."""
    drawn = noted(monkeypatch)
    simulate(settings(runs=3), X, Y, OWNER, save_model=tmp_path / "model.npz")
    assert len(drawn) == len(set(drawn)) == 6


def test_noise_is_not_of_a_generator_whose_numbers_tell_its_state() -> None:
    """Three numbers of SFC64 tell the rest: each is a sum of state words, and one unknown word remains."""

    def third(unknown: int, first: int, counter: int) -> int:
        nine, rotated = 9 * unknown % 2**64, unknown << 24 | unknown >> 40
        return ((nine ^ nine >> 11) + 9 * (rotated + first) + counter) % 2**64

    seeded, secret = (
        dataclasses.replace(build(parse_run(settings(runs=1) | {"data": {"nodes": 6}})), secret=each).streams(0)[1]
        for each in (False, True)
    )
    inner = seeded.bit_generator.state["state"]["state"].tolist()
    first, _, told = (int(number) for number in seeded.bit_generator.random_raw(3))
    assert told == third(inner[2], first, inner[3] + 2), "why a seed's generator is not for secrets"
    assert secret.bit_generator.state["bit_generator"] == "Philox"


def test_the_noise_of_a_saved_network_is_not_of_a_generator_with_few_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_thread: None
) -> None:
    """PyTorch's generator on a CPU begins with 32 bits, which can all be tried."""
    import torch

    def refused(*_: Any, **__: Any) -> None:
        raise AssertionError("noise of PyTorch")

    monkeypatch.setattr(torch, "randn", refused)
    simulate(settings("network", runs=1), X, Y, OWNER, save_model=tmp_path / "model.npz")
    with pytest.raises(AssertionError, match="noise of PyTorch"):
        simulate(settings("network", runs=1), X, Y, OWNER)


@pytest.mark.parametrize("kind", ["random-ring", "network"])
def test_the_digest_of_a_model_tests_no_guess(tmp_path: Path, kind: str, one_thread: None) -> None:
    def facts(seed: int, rows: np.ndarray[Any, Any]) -> tuple[str, dict[str, Any]]:
        simulate(settings(kind, seed=seed), rows, Y, OWNER, save_model=tmp_path / "model.npz")
        with np.load(tmp_path / "model.npz", allow_pickle=False) as file:
            about = json.loads(str(file["about"]))
        return about["model"]["run"], about

    other = X.copy()
    other[17] = 0.5
    first, about = facts(1, X)
    assert facts(2, X)[0] == first, "nobody can test a guessed seed"
    assert facts(1, other)[0] == first, "nobody can test a guessed row"
    assert "seed" not in json.dumps(about)
    longer = settings(kind)
    longer["schedule"]["steps"] = 48
    simulate(longer, X, Y, OWNER, save_model=tmp_path / "model.npz")
    assert load_model(tmp_path / "model.npz").facts.run != first, "it still tells runs apart"


def test_no_file_beside_a_saved_model_tests_a_guess_of_a_row(tmp_path: Path) -> None:
    def kept(name: str, rows: np.ndarray[Any, Any]) -> str:
        simulate(settings(runs=1), rows, Y, OWNER, out=tmp_path / name, save_model=tmp_path / "model.npz")
        settings_kept: str = json.dumps(json.loads((tmp_path / name / "run.json").read_text())["given"])
        assert not (tmp_path / name / "started.json").exists()
        return settings_kept

    other = X.copy()
    other[17] = 0.5
    assert kept("one", X) == kept("two", other)


@pytest.mark.parametrize("secret", [False, True])
def test_a_result_says_wherever_it_goes_that_known_noise_hides_nothing(tmp_path: Path, secret: bool) -> None:
    result = simulate(
        settings(runs=1), X, Y, OWNER, out=tmp_path / "out", save_model=tmp_path / "model.npz" if secret else None
    )
    words = "the noise follows from simulation.seed"
    told = [str(result.privacy.promised.not_covered), (tmp_path / "out" / "privacy.json").read_text()]
    told += [json.dumps(to_json(result.summary())), report_page(load_folders([tmp_path / "out"]))]
    for text in told:
        assert (words in text) == (not secret)
        assert "no epsilon covers the test errors of tokens on their way" in text


def test_every_call_gives_another_model_and_the_same_rows(tmp_path: Path) -> None:
    found = []
    for name in ("first.npz", "second.npz"):
        result = simulate(settings(runs=1), X, Y, OWNER, save_model=tmp_path / name)
        scaling = load_model(tmp_path / name).inputs.scaling
        assert scaling is not None
        found.append((result.models, scaling.centre))
    assert not np.array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1], "the split is the seed's")


def test_runs_with_and_without_a_seed_do_not_mix(tmp_path: Path) -> None:
    stop = threading.Event()

    def interrupt(done: int) -> None:
        if done:
            stop.set()

    many = settings(runs=20)
    with pytest.raises(Interrupted):
        simulate(many, X, Y, OWNER, out=tmp_path / "out", threads=1, stop=stop, progress=interrupt)
    with pytest.raises(InvalidInput, match="with or without a model to save"):
        simulate(many, X, Y, OWNER, out=tmp_path / "out", resume=True, save_model=tmp_path / "model.npz")
    simulate(many, X, Y, OWNER, out=tmp_path / "out", resume=True)


def test_a_result_says_that_its_noise_cannot_be_drawn_again(tmp_path: Path) -> None:
    simulate(settings(), X, Y, OWNER, out=tmp_path / "saved", save_model=tmp_path / "model.npz")
    simulate(settings(), X, Y, OWNER, out=tmp_path / "seeded")
    assert Result.load(tmp_path / "saved").settings["given"]["noise"] == "of the operating system"
    assert "noise" not in Result.load(tmp_path / "seeded").settings["given"]


def test_federated_runs_have_the_same_kinds_of_epsilon(tmp_path: Path) -> None:
    reports = [
        simulate(settings("federated"), X, Y, OWNER, save_model=file).privacy for file in (None, tmp_path / "model.npz")
    ]
    for report in reports:
        assert report.in_this_run is not None
        assert report.in_this_run.guarantee.beside(ANOTHER_NODE) is not None


class TestTheEstimator:
    def fitted(self, tmp_path: Path, **options: Any) -> Any:
        estimator = SkipRingClassifier(rounds=3, noise_multiplier=4.0, **options).fit(X, Y, groups=OWNER)
        estimator.save_model(tmp_path / "model.npz")
        return load_model(tmp_path / "model.npz").facts.guarantee, estimator

    def test_fresh_noise_has_an_epsilon(self, tmp_path: Path) -> None:
        claim, estimator = self.fitted(tmp_path)
        assert claim.epsilon == estimator.epsilon_

    @pytest.mark.parametrize("standardise", [True, False])
    def test_its_file_says_what_is_not_covered(self, tmp_path: Path, standardise: bool) -> None:
        self.fitted(tmp_path, standardise=standardise)
        told = str(load_model(tmp_path / "model.npz").facts.guarantee.not_covered)
        assert "which classes there are" in told
        assert "other fits on the same rows" in told
        assert ("the mean and standard deviation of each feature" in told) == standardise

    @pytest.mark.parametrize("state", [1, np.random.RandomState(1)])
    def test_a_given_state_has_none(self, tmp_path: Path, state: Any) -> None:
        claim, estimator = self.fitted(tmp_path, random_state=state)
        assert claim.epsilon is None
        assert "random_state" in claim.sentence()
        assert np.isfinite(estimator.epsilon_)

    def test_a_designed_order_does_not_give_the_noise_away(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        drawn = noted(monkeypatch)
        _, estimator = self.fitted(tmp_path, schedule="designed-ring")
        split, *noise = drawn
        assert estimator.planned_.order.order_seed == split
        assert len(noise) == 2
        assert split not in noise


def test_a_model_whose_noise_a_gpu_drew_states_no_epsilon(tmp_path: Path) -> None:
    setup = dataclasses.replace(build(parse_run(settings(runs=1) | {"data": {"nodes": 6}})), secret=True)
    output = run_one(setup, 0)
    assert not output.foreseeable
    result = simulate(settings(runs=1) | {"data": {"nodes": 6}})
    inputs = Inputs(columns=30, intercept=False, classes=np.array(["a", "b"]))
    for known, stated in ((False, True), (True, False)):
        model = trained_model(result, inputs, dataclasses.replace(output, foreseeable=known))
        assert all(
            (each.epsilon is not None) == stated for each in (model.facts.guarantee, *model.facts.guarantee.also)
        )
    assert "a GPU drew its noise" in model.facts.guarantee.sentence()
    assert run_one(dataclasses.replace(setup, secret=False), 0).foreseeable


def test_the_command_says_where_noise_comes_from_and_what_no_epsilon_covers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skipring_words: Callable[..., Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    changes = [
        "simulation.runs=2",
        "schedule.name=random-ring",
        "schedule.steps=60",
        "data.nodes=6",
        "privacy.noise_multiplier=4",
    ]
    options = [word for change in changes for word in ("--set", change)]
    Path("run.toml").write_text("")
    plain = skipring_words("simulate", "run.toml", *options, "--out", "plain")
    saved = skipring_words("simulate", "run.toml", *options, "--out", "saved", "--save-model", "model.npz")
    assert plain.code == saved.code == 0, plain.err + saved.err
    for told in (plain, saved):
        words = " ".join(told.out.split())
        assert "o epsilon covers the test errors of tokens on their way, nor several runs on the same rows" in words
    assert "the noise follows from simulation.seed" in " ".join(plain.out.split())
    assert "Its noise comes from the operating system" in " ".join(saved.out.split())
    again = skipring_words("simulate", "run.toml", *options, "--out", "more", "--save-model", "model.npz", "--json")
    assert again.data["model_guarantee"]["epsilon"] == again.data["privacy"]["promised"]["epsilon"]
