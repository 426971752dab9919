"""What a node with a neural network computes: any module, one clipped and noisy step, in place."""

from __future__ import annotations

import gc
import math
import os
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from skipring.errors import InvalidInput
from skipring.learning import Hardware, Learner, NeuralModel, Protection, Rows
from skipring.learning.neural import NeuralToken
from skipring.learning.torch_learner import TorchLearner
from skipring.learning.torch_module import paper_cnn
from skipring.network.node import OwnData, make_learner
from skipring.runs import with_changes

MODULES = """
import torch
from torch import nn

class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Linear(6, 3), nn.Linear(2, 2)
        self.frozen = nn.Linear(3, 3)
        self.frozen.requires_grad_(False)
    def forward(self, x):
        return self.frozen(self.used(x))

class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(4, 3, sparse=True)
    def forward(self, x):
        return self.table((x.sum(1) > 0).long())

class Broken(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(6, 3)
    def forward(self, x):
        # The root of a number below 0, but only while learning.
        return self.inner(x) if not self.training else torch.sqrt(self.inner(x) - 100.0)

class Flat(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(6, 1, bias=False)
    def forward(self, x):
        return self.inner(x)[:, 0]

class Dull(nn.Linear):
    def forward(self, x):
        return torch.zeros(len(x), 3)

def net(): return nn.Sequential(nn.Linear(6, 5), nn.SELU(), nn.Dropout(0.0), nn.Linear(5, 3))
def linear(): return nn.Linear(6, 3, bias=False)
def number(): return nn.Linear(6, 1, bias=False)
def dull(): return Dull(6, 3)
def normed(): return nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3))
def lazy(): return nn.LazyLinear(3)
def masked(): made = nn.Linear(6, 3); made.register_buffer("mask", torch.ones(3)); return made
def double(): return nn.Linear(6, 3, dtype=torch.float64)
def drawn(): made = nn.Linear(6, 3); made.sketch = {"first": [torch.rand(2)]}; return made
def constant(): made = nn.Linear(6, 3, bias=False); made.scale = [torch.ones(3)]; return made
def empty(): return nn.Softmax(dim=1)
def wide(): return nn.Linear(6, 4)
def narrow(): return nn.Linear(5, 3)
def several(): return nn.LSTM(6, 3)
def fails(): raise RuntimeError("no\\nluck")
def asks(size): return nn.Linear(6, size)
def words(): return "words"
ONCE = nn.Linear(6, 3)
def once(): return ONCE
value = 3
"""


class Recorded:
    """Noise that remembers what it was added to; without a seed it is none."""

    def __init__(self, seed: int | None = None) -> None:
        self.rng = None if seed is None else np.random.default_rng(seed)
        self.before: list[NDArray[Any]] = []

    def add(self, vector: NDArray[Any], std: float) -> None:
        assert vector.ndim == 1
        self.before.append(vector.copy())
        if self.rng is not None:
            vector += (std * self.rng.standard_normal(len(vector))).astype(vector.dtype)


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The user's modules, and one thread: for what is so small, several only wait for each other."""
    (tmp_path / "clinic_models.py").write_text(MODULES)
    (tmp_path / "clinic_broken.py").write_text("import nowhere_to_be_found\n")
    monkeypatch.syspath_prepend(tmp_path)  # what PYTHONPATH does
    monkeypatch.delitem(sys.modules, "clinic_models", raising=False)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((100, 6))
    np.savez(tmp_path / "table.npz", X=x, kind=np.argmax(x[:, :3], axis=1), amount=x @ rng.standard_normal(6))
    return tmp_path / "table.npz"


def made_of(table: Path, name: str, *changes: str, label: str = "kind", index: int = 1) -> Learner:
    run = with_changes(
        None,
        [
            "privacy.protects=node",
            f"data.path={table}",
            f"data.label={label}",
            f"model.name={name}",
            "learning.gradient_bound=1000",
            *changes,
        ],
    )
    return make_learner(run, index=index, nodes=4, name="ann", data=OwnData(), rng=np.random.default_rng(2))[0]


def network(table: Path, name: str, *changes: str, label: str = "kind", index: int = 1) -> TorchLearner:
    made = made_of(table, f"clinic_models:{name}", "model.device=cpu", *changes, label=label, index=index)
    assert isinstance(made, TorchLearner)
    return made


def step(made: Learner, w: NDArray[Any], size: float = 0.5, noise: Recorded | None = None) -> NDArray[Any]:
    return made.update(w, turn=0, step_size=size, noise_multiplier=1.0, noise=noise or Recorded())


@pytest.mark.parametrize("ridge", [0.0, 0.1])
@pytest.mark.parametrize("diameter", ["10", "0.4"])
@pytest.mark.parametrize(("module", "label"), [("linear", "kind"), ("number", "amount"), ("Flat", "amount")])
def test_a_linear_module_learns_what_the_linear_model_does(
    table: Path, module: str, label: str, ridge: float, diameter: str
) -> None:
    """Softmax and squared loss by two independent programs, node after node."""
    changes = (f"model.ridge={ridge}", f"learning.diameter={diameter}")
    twins = [
        (
            network(table, module, *changes, label=label, index=index),
            made_of(table, "softmax" if label == "kind" else "squared", *changes, label=label, index=index),
        )
        for index in range(4)
    ]
    w, other = np.zeros(twins[0][0].shape, np.float32), np.zeros(twins[0][0].shape)
    for mine, plain in twins * 3:
        w, other = step(mine, w), step(plain, other)
        assert w == pytest.approx(other, abs=2e-6)
    assert twins[0][0].test_error(w) == pytest.approx(twins[0][1].test_error(other), rel=1e-5)
    assert (twins[0][0].radius, twins[0][0].contracts(0.1)) == (0.5 * float(diameter), False)
    assert np.linalg.norm(w) <= 0.5 * float(diameter) * (1.0 + 1e-6)


def test_the_papers_network_learns_as_in_simulations(tmp_path: Path) -> None:
    """The same rows, the same start, no noise: the walking network of the simulator, layer by layer."""
    rng = np.random.default_rng(3)
    x, y = np.rint(255.0 * rng.random((40, 784))) / 255.0, np.arange(40) % 3
    np.savez(tmp_path / "images.npz", X=x, y=y)
    changes = ["model.device=cpu", "learning.gradient_bound=0.5", "learning.diameter=20", "data.test_share=0.3"]
    changes += ["model.ridge=0.2"]
    made = made_of(tmp_path / "images.npz", "cnn", *changes, label="y", index=0)
    assert (made.name, made.shape, made.dtype.str, made.gradient_bound) == ("cnn", (279_498,), "<f4", 0.5)
    start = made.initial()
    walking = paper_cnn("mnist")
    first = 0
    for parameter in walking.parameters():
        parameter.data.copy_(torch.from_numpy(start[first : first + parameter.numel()]).view(parameter.shape))
        first += parameter.numel()
    # Which rows are this node's is the simulator's affair, and is compared by the linear models' tests.
    from skipring.runs import dealt_rows

    run = with_changes(
        None,
        ["privacy.protects=node", f"data.path={tmp_path / 'images.npz'}", "data.label=y", "model.name=cnn", changes[3]],
    )
    _, prepared, owned = dealt_rows(run, usual_nodes=4)
    rows = slice(0, int(owned.start[1]))

    def images(values: NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy((2.0 * values - 1.0).astype(np.float32)).view(-1, 1, 28, 28)

    token = NeuralToken(
        NeuralModel(features=784, clip=0.5, diameter=20.0, ridge=0.2),
        walking,
        images(owned.features[rows]),
        torch.from_numpy(owned.labels[rows]),
        protection=Protection(unit="node"),
        hardware=Hardware(batch=rows.stop),
    )
    w = start.copy()
    for _ in range(2):
        token.update(torch.arange(rows.stop), step_size=0.2, noise_std=0.0)
        w = step(made, w, 0.2)
    assert np.abs(w - start).max() > 1e-3
    assert w == pytest.approx(token.parameters(), abs=1e-5)
    error = token.error(images(prepared.test_x), torch.from_numpy(prepared.test_y))
    assert made.test_error(w) == pytest.approx(error)


def test_the_averaged_gradient_is_clipped_and_then_noise_is_added(table: Path) -> None:
    free, bound, noise = network(table, "net"), network(table, "net", "learning.gradient_bound=0.01"), Recorded(7)
    start = free.initial()
    whole = (start - step(free, start.copy(), 1.0)).astype(np.float64)
    assert np.linalg.norm(whole) > 0.02
    found = bound.update(start.copy(), turn=0, step_size=0.5, noise_multiplier=2.0, noise=noise)
    clipped = np.concatenate(noise.before).astype(np.float64)
    assert 0.01 * (1.0 - 2e-5) < np.linalg.norm(clipped) <= 0.01
    assert clipped / np.linalg.norm(clipped) == pytest.approx(whole / np.linalg.norm(whole), abs=1e-5)
    for other in np.linspace(0.003, 0.02, 10):  # rounding never lifts it above
        noise = Recorded()
        step(network(table, "net", f"learning.gradient_bound={other}"), start.copy(), noise=noise)
        assert np.linalg.norm(np.concatenate(noise.before).astype(np.float64)) <= other
    added = (start - found) / 0.5 - clipped
    assert np.std(added) == pytest.approx(0.02, rel=0.5)
    again = np.random.default_rng(7)
    assert added == pytest.approx(0.02 * again.standard_normal(len(start)), abs=1e-5)


def test_every_parameter_that_travels_gets_noise_and_frozen_ones_stay_at_home(table: Path) -> None:
    made, noise = network(table, "Part"), Recorded(1)
    assert made.shape == (6 * 3 + 3 + 2 * 2 + 2,)
    start = made.initial()
    found = step(made, start.copy(), noise=noise)
    gradient = np.concatenate(noise.before)
    assert np.count_nonzero(gradient[:21]) == 21
    assert np.count_nonzero(gradient[21:]) == 0
    assert np.count_nonzero(found != start) == 27


def test_an_answer_that_depends_on_no_parameter_still_gets_noise(table: Path) -> None:
    made, noise = network(table, "dull"), Recorded(1)
    found = step(made, made.initial(), noise=noise)
    assert not np.concatenate(noise.before).any()
    assert (found != made.initial()).all()


def test_gradients_with_few_entries_are_filled_up(table: Path) -> None:
    made, noise = network(table, "Words"), Recorded()
    step(made, made.initial(), noise=noise)
    gradient = np.concatenate(noise.before).reshape(4, 3)
    assert gradient[:2].all()
    assert not gradient[2:].any()


def test_a_gradient_that_is_not_finite_counts_as_none(table: Path) -> None:
    """What it depends on is the node's rows: neither the others nor the model may see it."""
    made, noise = network(table, "Broken"), Recorded(1)
    found = step(made, made.initial(), noise=noise)
    assert not np.concatenate(noise.before).any()
    assert np.isfinite(found).all()


def test_an_update_happens_in_place_unless_it_cannot(table: Path) -> None:
    made = network(table, "net")
    start = made.initial()
    given = start.copy()
    found = step(made, given)
    assert np.shares_memory(found, given)
    assert not np.array_equal(found, start)
    token = np.frombuffer(start.tobytes(), "<f4")
    assert step(made, token).tolist() == found.tolist()
    assert token.tobytes() == start.tobytes()
    assert made.test_error(token) == made.test_error(start)


def test_nothing_is_kept_between_two_calls(table: Path) -> None:
    made = network(table, "net")
    w = made.initial()
    w = step(made, w)
    made.test_error(w)
    trace = weakref.ref(w)
    del w
    gc.collect()
    assert trace() is None


def test_a_run_starts_with_the_same_weights_at_every_node(table: Path) -> None:
    torch.manual_seed(2024)
    before = torch.random.get_rng_state()
    start = network(table, "net", index=0).initial()
    assert start.dtype.str == "<f4"
    made = network(table, "net", index=3)
    assert made.initial().tobytes() == start.tobytes()
    step(made, made.initial())
    assert made.initial().tobytes() == start.tobytes()
    assert torch.equal(torch.random.get_rng_state(), before)
    assert network(table, "net", "simulation.seed=2").initial().tobytes() != start.tobytes()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        layers = nn.Sequential(nn.Linear(6, 5), nn.SELU(), nn.Linear(5, 3))
    expected = torch.cat([parameter.detach().reshape(-1) for parameter in layers.parameters()]).numpy()
    assert start.tobytes() == expected.tobytes()


def test_a_network_learns_from_batches(table: Path) -> None:
    nodes = [network(table, "net", "learning.batch=8", index=index) for index in range(4)]
    w = nodes[0].initial()
    before = nodes[0].test_error(w)
    for made in nodes * 25:
        made.prepare()
        w = step(made, w)
    assert nodes[0].test_error(w) < 0.25 < before


def test_a_file_of_a_nodes_own(tmp_path: Path) -> None:
    rows = np.array([(row, row % 5, 1, 2, 3, 4) for row in range(30)], float)
    np.savez(tmp_path / "own.npz", X=rows, kind=np.array(["abc"[row % 3] for row in range(30)]))
    words = ["model.name=clinic_models:net", "model.device=cpu", "learning.gradient_bound=1"]
    own = OwnData(path=tmp_path / "own.npz", label="kind")

    def learner(*changes: str) -> Learner:
        run = with_changes(None, ["privacy.protects=node", *words, *changes])
        return make_learner(run, index=0, nodes=2, name="ann", data=own, rng=np.random.default_rng(1))[0]

    made = learner('model.classes=["c", "b", "a"]')
    assert step(made, made.initial()).shape == made.shape
    assert 0.0 <= made.test_error(made.initial()) <= 1.0
    with pytest.raises(InvalidInput, match="has the label 'a' there"):
        learner('model.classes=["c", "b", "d"]')
    with pytest.raises(InvalidInput, match=r"model.classes = missing"):
        learner()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("clinic_models:nothing", "cannot be imported: AttributeError"),
        (
            "clinic_nowhere:net",
            "No module named 'clinic_nowhere'; the module must be installed, or its folder be in PYTHONPATH",
        ),
        ("clinic_broken:net", "No module named 'nowhere_to_be_found'"),
        ("clinic_models:fails", "made no module: RuntimeError: no"),
        ("clinic_models:asks", "made no module: TypeError"),
        ("clinic_models:value", "is no function, but int"),
        ("clinic_models:words", "made no PyTorch module, but a str"),
        ("clinic_models:normed", "layer 1 (BatchNorm1d) keeps statistics of rows; use GroupNorm or LayerNorm"),
        ("clinic_models:masked", "only parameters travel between nodes, and the module has a buffer (mask)"),
        ("clinic_models:drawn", "sketch['first'][0] is drawn at random and no parameter; make it an nn.Parameter"),
        ("clinic_models:lazy", "weight has no size yet"),
        ("clinic_models:double", "weight is of type torch.float64"),
        ("clinic_models:empty", "has no parameters to learn"),
        ("clinic_models:wide", "answers 2 rows with (2, 4), and not (2, 3), a score for each class"),
        ("clinic_models:number", "answers 2 rows with (2, 1), and not (2, 3)"),
        ("clinic_models:narrow", "cannot take a batch of shape (2, 6): RuntimeError"),
        ("clinic_models:several", "answers 2 rows with tuple"),
        ("cnn", "must be given images of 784"),
    ],
)
def test_modules_that_cannot_travel_get_one_line(table: Path, name: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        made_of(table, name, "model.device=cpu")
    assert str(refusal.value).startswith(f"model.name = {name}: ")
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_tensor_that_is_always_the_same_is_no_problem(table: Path) -> None:
    assert made_of(table, "clinic_models:constant", "model.device=cpu").shape == (18,)


def test_numbers_need_one_answer_for_each_row(table: Path) -> None:
    with pytest.raises(InvalidInput, match=r"answers 2 rows with \(2, 3\), and not \(2,\), since labels are numbers"):
        network(table, "net", label="amount")
    with pytest.raises(InvalidInput, match="the labels are numbers, not classes"):
        made_of(table, "cnn", label="amount")


@pytest.mark.parametrize("worth", [math.nan, math.inf, 1e200])
@pytest.mark.parametrize("part", ["train_x", "test_x", "train_y", "test_y"])
def test_rows_and_labels_that_are_no_numbers_are_refused(part: str, worth: float) -> None:
    """1e200 is none in single precision."""
    rng = np.random.default_rng(1)
    rows = Rows(rng.random((8, 6)), rng.random(8), rng.random((4, 6)), rng.random(4), classes=0)
    model = NeuralModel(name="clinic_models:number", features=6, classes=0, clip=1.0, device="cpu")

    def made() -> TorchLearner:
        return TorchLearner(model, rows, protection=Protection(unit="node"), seed=0, rng=rng)

    assert made().labels_clipped == 0
    getattr(rows, part).flat[2] = worth
    with pytest.raises(InvalidInput) as refusal:
        made()
    assert str(refusal.value).startswith("labels = " if part.endswith("y") else "features = ")


def test_pixels_that_overflow_are_refused(tmp_path: Path) -> None:
    x = np.random.default_rng(3).random((40, 784))
    x[:, 5] = 1e39
    np.savez(tmp_path / "images.npz", X=x, y=np.arange(40) % 3)
    with pytest.raises(InvalidInput, match=r"features = 1e\+39 in the training data: must be at most 3.40282e\+38"):
        made_of(tmp_path / "images.npz", "cnn", "model.device=cpu", label="y")


def test_a_network_learns_from_labels_within_their_bound(table: Path) -> None:
    free, bounded = (network(table, "number", f"model.label_bound={most}", label="amount") for most in (100, 0.5))
    assert free.labels_clipped == 0
    assert 0 < bounded.labels_clipped <= 20
    w = np.zeros(free.shape, np.float32)
    assert not np.allclose(step(free, w.copy()), step(bounded, w.copy()))
    assert free.test_error(w) == bounded.test_error(w)


@pytest.mark.parametrize("name", ["cnn", "clinic_models:net"])
def test_a_gradient_without_a_bound_is_refused(tmp_path: Path, name: str) -> None:
    np.savez(tmp_path / "images.npz", X=np.random.default_rng(3).random((40, 784)), y=np.arange(40) % 3)
    run = with_changes(
        None, ["privacy.protects=node", f"data.path={tmp_path / 'images.npz'}", "data.label=y", f"model.name={name}"]
    )
    with pytest.raises(InvalidInput, match=r"learning.gradient_bound = missing: .* no privacy could be stated"):
        make_learner(run, index=0, nodes=4, name="ann", data=OwnData(), rng=np.random.default_rng())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("learning.gradient_bound=0", "learning.gradient_bound"),
        ("learning.gradient_bound=inf", "learning.gradient_bound"),
        ("learning.diameter=0", "learning.diameter"),
        ("model.ridge=-1", "model.ridge"),
        ("model.device=tpu", "model.device = tpu: must be auto, cpu or cuda"),
        ("learning.batch=21", "learning.batch = 21: must be at most 20"),
    ],
)
def test_settings_that_mean_nothing_are_refused(table: Path, change: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        network(table, "net", change)
    assert str(refusal.value).startswith(said)


def test_a_function_must_make_a_new_module_every_time(table: Path) -> None:
    made = network(table, "once")
    with pytest.raises(InvalidInput, match="must return a new module of the same size every time"):
        made.initial()


def test_parameters_of_another_model_are_refused(table: Path) -> None:
    made = network(table, "net")
    for wrong in (np.zeros(3, np.float32), np.zeros(made.shape), made.initial()[:, None]):
        with pytest.raises(InvalidInput, match="as this node's model is"):
            step(made, wrong)
    for worth in (math.nan, math.inf):
        w = made.initial()
        w[7] = worth
        with pytest.raises(InvalidInput, match="infinite or not a number"):
            step(made, w)
        with pytest.raises(InvalidInput, match="infinite or not a number"):
            made.test_error(w)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells")
def test_an_update_needs_the_parameters_and_a_gradient_and_no_more(tmp_path: Path, table: Path) -> None:
    """40 MB of parameters: what the process grows by, from the finished learner to the end of an update."""
    (tmp_path / "clinic_large.py").write_text(
        "from torch import nn\ndef net(): return nn.Sequential(nn.Linear(6, 3000), nn.ReLU(), nn.Linear(3000, 3300),"
        " nn.Linear(3300, 3))\n"
    )
    program = f"""
import numpy as np, torch
torch.set_num_threads(1)
from skipring.network.node import OwnData
from skipring.network.node import make_learner
from skipring.runs import with_changes
class Nothing:
    def add(self, vector, std):
        vector += 0
def learner(name):
    run = with_changes(None, ["privacy.protects=node", "data.path={table}",
        "data.label=kind", "model.name=" + name, "model.device=cpu",
        "learning.gradient_bound=1", "learning.batch=2"])
    return make_learner(run, index=0, nodes=4, name="ann", data=OwnData(), rng=np.random.default_rng())[0]
def walk(made):
    w = made.initial()
    for _ in range(2):
        w = made.update(w, turn=0, step_size=0.1, noise_multiplier=1.0, noise=Nothing())
    return w.nbytes
walk(learner("clinic_models:net"))  # now everything is loaded
made = learner("clinic_large:net")
def memory(what):  # getrusage would tell of the process that started this one
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(what))
start = memory("VmRSS")
size = walk(made)
print((memory("VmHWM") - start) / size)
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    assert 1.5 < float(done.stdout) < 2.8  # one copy more would be 3
