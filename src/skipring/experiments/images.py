"""Images with each record protected: a convex head on public features, and a small network, on MNIST and CIFAR-10.

Both learn by a walk and by laps. Length, learning rate and clipping are searched on rows that are held back from the
training part, with fewer nodes. The test rows are looked at once, by the runs that are reported. No epsilon covers that
search.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..data import Dataset, load_dataset
from ..errors import InvalidInput
from ..runs import RunFile, dealt_rows, parse_run
from ..schedules import USUAL_SCHEDULE, Laps
from ..simulation import DealtRows, Interrupted, Setup, prepare_runs, privacy_of, run_one, setup_on

IMAGE_DELTA = 1e-5
#: The share of the walk's hops that are skipped.
_SKIP = 0.3
#: What others published, as accuracy at an epsilon (None: no privacy).
IMAGE_LINES: dict[str, dict[str, tuple[float | None, float]]] = {
    "mnist": {
        "central, scattering features (Tramer & Boneh 2021)": (3.0, 0.987),
        "the paper's run, unprotected": (None, 0.90),
    },
    "cifar10": {
        "central, scattering features (Tramer & Boneh 2021)": (3.0, 0.693),
        "the paper's run, unprotected": (None, 0.42),
    },
}


class _Tried(NamedTuple):
    """One setting of what is searched; what is None is left to the run file's defaults."""

    rounds: int
    rate: float | None
    bound: float | None
    falling: bool

    def words(self, each: str) -> str:
        """Return it in words; `each` is what `rounds` counts."""
        rate, bound = ("usual" if value is None else f"{value:g}" for value in (self.rate, self.bound))
        return f"{self.rounds} {each}, rate {rate}{' falling' if self.falling else ''}, bound {bound}"


@dataclass(frozen=True, kw_only=True)
class ImageWay:
    """A data set, a model, and what is searched for it; `rows` are those of a node, and so of an update of a walk.

    `laps` says how it learns: `rounds` are then laps, on whose sums nobody is late. `coalition` is whom they withstand.
    """

    data: str
    name: str
    nodes: int
    model: dict[str, Any]
    epsilons: tuple[float, ...]
    rounds: tuple[int, ...]
    rates: tuple[float | None, ...]
    bounds: tuple[float | None, ...]
    falling: tuple[bool, ...] = (False,)
    rows: int = 1000
    laps: bool = False
    coalition: int | None = None

    @property
    def grid(self) -> list[_Tried]:
        """All settings, those with one bound side by side: they share what is compiled."""
        product = itertools.product(self.bounds, self.rounds, self.rates, self.falling)
        return [_Tried(rounds, rate, bound, falling) for bound, rounds, rate, falling in product]


_MNIST_HEAD = ImageWay(
    data="mnist",
    name="convex head on scattering features",
    nodes=60,
    model={"name": "softmax", "features": "scattering"},
    epsilons=(8.0, 2.0, 1.0),
    rounds=(15, 30, 60),
    rates=(1.0, 2.0, 4.0),
    bounds=(None, 0.5, 0.2),
)
_MNIST_NETWORK = ImageWay(
    data="mnist",
    name="small network",
    nodes=60,
    model={"name": "small-cnn"},
    epsilons=(8.0, 2.0),
    rounds=(10, 20, 40),
    rates=(0.3, 0.6, 1.2),
    bounds=(0.5, 1.0),
    falling=(False, True),
)
_MNIST_HEAD_LAPS = dataclasses.replace(
    _MNIST_HEAD,
    name="convex head, laps, coalition of 1",
    epsilons=(8.0, 2.0, 1.0, 0.5),
    rounds=(200,),
    rates=(30.0, 60.0),
    bounds=(0.1, 0.3, 1.0),
    laps=True,
    coalition=1,
)
_MNIST_NETWORK_LAPS = dataclasses.replace(
    _MNIST_HEAD_LAPS,
    name="small network, laps, coalition of 1",
    model={"name": "small-cnn"},
    rounds=(100, 300),
    rates=(4.0, 8.0),
    bounds=(0.1,),
)
IMAGE_WAYS = {
    "mnist-head": _MNIST_HEAD,
    "mnist-network": _MNIST_NETWORK,
    "mnist-head-laps": _MNIST_HEAD_LAPS,
    "mnist-head-laps-usual": dataclasses.replace(
        _MNIST_HEAD_LAPS, name="convex head, laps, usual coalition", coalition=None
    ),
    "mnist-network-laps": _MNIST_NETWORK_LAPS,
    "cifar10-head": dataclasses.replace(_MNIST_HEAD, data="cifar10", nodes=50, epsilons=(8.0, 3.0, 1.0)),
    "cifar10-network": dataclasses.replace(_MNIST_NETWORK, data="cifar10", nodes=50, epsilons=(8.0, 3.0)),
    "cifar10-head-laps": dataclasses.replace(
        _MNIST_HEAD_LAPS, data="cifar10", nodes=50, epsilons=(8.0, 3.0, 1.0), rounds=(150,), rates=(30.0, 100.0)
    ),
}


@dataclass(frozen=True, kw_only=True)
class ImageRow:
    """What one way reached at one epsilon: accuracies on test rows, one for each seed, and what they cost."""

    way: str
    data: str
    name: str
    epsilon: float
    against: str
    method: str
    final_epsilon: float
    accuracies: tuple[float, ...]
    chosen: str
    validation: float
    searched: int
    noise_multiplier: float
    noise_std: float | None
    amplified: bool

    @property
    def median(self) -> float:
        """The median over seeds."""
        return float(np.median(self.accuracies))


@dataclass(frozen=True, kw_only=True)
class ImageStudy:
    """Which ways, how many runs, and how much of the grid and of the data."""

    ways: tuple[str, ...] = tuple(IMAGE_WAYS)
    runs: int = 5
    most_settings: int | None = None
    nodes: int | None = None
    device: str = "auto"

    @classmethod
    def quick(cls) -> ImageStudy:
        """Return a study of a small part of the grid and of the nodes, for a look."""
        return cls(ways=("mnist-head",), runs=2, most_settings=2, nodes=6)

    @property
    def pieces(self) -> int:
        """How many runs there are."""
        ways = [IMAGE_WAYS[name] for name in self.ways]
        return sum(len(way.epsilons) * (len(self.grid(way)) + self.runs) for way in ways)

    def grid(self, way: ImageWay) -> list[_Tried]:
        """Return the settings that are tried."""
        return way.grid[: self.most_settings]


class _Counted:
    """Tells how many runs are done, and stops in between."""

    def __init__(self, stop: threading.Event | None, progress: Callable[[int], None] | None) -> None:
        self._stop, self._progress, self._done = stop, progress, 0

    def __call__(self) -> None:
        self._done += 1
        if self._progress is not None:
            self._progress(self._done)
        if self._stop is not None and self._stop.is_set():
            raise Interrupted(f"{self._done} runs were made")


def image_study(
    study: ImageStudy, *, stop: threading.Event | None = None, progress: Callable[[int], None] | None = None
) -> Iterator[ImageRow]:
    """Search and run, and yield what each way reached at each epsilon, as soon as it is known."""
    counted = _Counted(stop, progress)
    for name in study.ways:
        way = IMAGE_WAYS[name]
        if study.nodes is not None:
            way = dataclasses.replace(way, nodes=study.nodes)
        dataset = load_dataset(way.data)
        chosen = _search(study, way, dataset, counted)
        yield from _final(study, name, way, dataset, chosen, counted)


def _part(dataset: Dataset, rows: int, *, search: bool) -> Dataset:
    """Return the first training rows and all test rows; or, for a search, a sixth of the training rows as test rows.

    Where its publisher has not said which rows are for testing, it is the last sixth.
    """
    tests = dataset.test_rows
    if tests is None:
        tests = np.arange(len(dataset.labels)) >= len(dataset.labels) - len(dataset.labels) // 6
    train = np.flatnonzero(~tests)[:rows]
    kept = train if search else np.append(train, np.flatnonzero(tests))
    return dataset.part(kept, np.arange(len(kept)) >= len(train) - (max(1, len(train) // 6) if search else 0))


def _run(
    way: ImageWay, nodes: int, tried: _Tried, epsilon: float, seed: int, device: str, noise: float | None = None
) -> RunFile:
    run: dict[str, Any] = {
        "data": {"name": way.data, "nodes": nodes, "standardise": False},
        "model": way.model | {"device": device},
        "privacy": {"protects": "record", "delta": IMAGE_DELTA}
        | ({"epsilon": epsilon} if noise is None else {"noise_multiplier": noise}),
        "simulation": {"seed": seed, "evaluate_every": tried.rounds * nodes},
        "learning": {"gradient_bound": tried.bound},
    }
    if way.laps:
        laps = {Laps.name: tried.rounds, "coalition": way.coalition, "rate": tried.rate}
        given = {key: value for key, value in laps.items() if value is not None}
        return parse_run(run | {"schedule": {"name": Laps.name}, Laps.name: given, "delay": {"timeout": math.inf}})
    return parse_run(run | _walk(way, tried, tried.rounds * nodes))


def _walk(way: ImageWay, tried: _Tried, steps: int) -> dict[str, Any]:
    """Return what a run file of a walk says beside."""
    learning: dict[str, Any] = {"batch": way.rows, "rate": tried.rate, "step_size": "constant"}
    if tried.falling:
        assert tried.rate is not None
        # As many updates are made as hops are not skipped; the last ones make hardly a step.
        length = int(steps * (1.0 - _SKIP))
        sizes = tried.rate * np.maximum(1.0 - np.arange(steps) / length, 0.02)
        learning |= {"step_size": "own", "own": sizes.tolist()}
    if way.model["name"] == "softmax":
        learning["diameter"] = 200.0
    return {
        "schedule": {"name": USUAL_SCHEDULE, "steps": steps},
        "delay": {"skip": _SKIP},
        "learning": learning | {"gradient_bound": tried.bound},
    }


class _Dealt:
    """A data set with features, dealt once; setups of one gradient bound share what is on the device."""

    def __init__(self, way: ImageWay, dataset: Dataset, nodes: int, seed: int, device: str) -> None:
        self._way, self._nodes, self._seed, self._device = way, nodes, seed, device
        run = _run(way, nodes, way.grid[0], way.epsilons[0], seed, device)
        dataset, ready, owned = dealt_rows(run, dataset)
        self._rows = DealtRows(owned, ready.test_x, ready.test_y, len(dataset.classes))
        self._shared: tuple[float | None, Any] | None = None
        self._noises: dict[tuple[int, float], float] = {}

    def setup(self, tried: _Tried, epsilon: float) -> Setup:
        # The noise follows from the length and the budget; to find it takes longer than a run.
        known = self._noises.get((tried.rounds, epsilon))
        run = _run(self._way, self._nodes, tried, epsilon, self._seed, self._device, known)
        setup = setup_on(run, self._rows)
        self._noises[tried.rounds, epsilon] = setup.noise_multiplier
        return setup

    def accuracy(self, setup: Setup, bound: float | None, number: int) -> float:
        if self._shared is None or self._shared[0] != bound:
            self._shared = None  # before the next one takes its place on the device
            self._shared = (bound, prepare_runs(setup))
        return 1.0 - float(run_one(setup, number, self._shared[1]).test_error[-1])


def _search(study: ImageStudy, way: ImageWay, dataset: Dataset, counted: _Counted) -> dict[float, tuple[_Tried, float]]:
    """Return the best setting for each epsilon, and its accuracy on rows that were held back."""
    nodes = max(2, way.nodes - way.nodes // 6)
    dealt = _Dealt(way, _part(dataset, way.nodes * way.rows, search=True), nodes, 1, study.device)
    best: dict[float, tuple[_Tried, float]] = {}
    for tried in study.grid(way):
        for epsilon in way.epsilons:
            found = dealt.accuracy(dealt.setup(tried, epsilon), tried.bound, 0)
            counted()
            if epsilon not in best or found > best[epsilon][1]:
                best[epsilon] = (tried, found)
    return best


def _final(
    study: ImageStudy,
    name: str,
    way: ImageWay,
    dataset: Dataset,
    chosen: dict[float, tuple[_Tried, float]],
    counted: _Counted,
) -> Iterator[ImageRow]:
    """Make the runs that are reported: all nodes, the publisher's test rows, several seeds."""
    dealt = _Dealt(way, _part(dataset, way.nodes * way.rows, search=False), way.nodes, 2, study.device)
    # Settings of one bound side by side: they share what is compiled.
    for epsilon in sorted(way.epsilons, key=lambda one: str(chosen[one][0].bound)):
        tried, validation = chosen[epsilon]
        setup = dealt.setup(tried, epsilon)
        accuracies = []
        for number in range(study.runs):
            accuracies.append(dealt.accuracy(setup, tried.bound, number))
            counted()
        promise = privacy_of(setup, IMAGE_DELTA, None).promised
        if promise.epsilon is None or (outside := promise.also[0].epsilon) is None:
            raise InvalidInput.because("privacy.epsilon", epsilon, promise.refused or "nothing is promised")
        yield ImageRow(
            way=name,
            data=way.data,
            name=way.name,
            epsilon=promise.epsilon,
            against=promise.against,
            method=promise.method,
            final_epsilon=outside,
            accuracies=tuple(accuracies),
            chosen=tried.words(Laps.name if way.laps else "rounds"),
            validation=validation,
            searched=len(study.grid(way)),
            noise_multiplier=setup.noise_multiplier,
            noise_std=None if way.laps else setup.protection.noise_std(setup.model, setup.noise_multiplier),
            amplified=way.laps or setup.model.contracts(setup.step_sizes.largest),
        )
