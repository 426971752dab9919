"""Real nodes (TLS, SQLite) that train together, all in one process: they end with one and the right model."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from networks import IDENTITY, allow, free_ports
from own_tables import columns
from summing import account_of

from skipring.errors import InvalidInput
from skipring.learning import Learner
from skipring.network.node import AdaptivePace, Node, NodeSetup, Pace
from skipring.network.node.taking_part import TakingPart
from skipring.network.setup import (
    NewSettings,
    agreed_run,
    given_away,
    load_node,
    make_network,
    open_journal,
    run_text,
    verify_outcome,
)
from skipring.network.storage import read_journal
from skipring.network.transport import parse_nodes
from skipring.privacy import Transcript, TranscriptAccountant, gdp_epsilon
from skipring.runs import RunFile, parse_run
from skipring.simulation import simulate

#: One event loop for all tests of the file: nodes of one test are gone when the next begins.
LOOP = asyncio.Runner()

QUICK = {
    "data": {"name": "breast-cancer"},
    "schedule": {"steps": 60},
    "delay": {"timeout": 20.0},
    "privacy": {"noise_multiplier": 3.0},
    "model": {"name": "logistic"},
}


def make(
    folder: Path, nodes: int, run: dict[str, Any] | RunFile, delay: str | None = None, hidden: int | None = None
) -> list[Path]:
    """Make a network with a run that all agree on; return the nodes' settings. Nobody can call the `hidden` node."""
    asked = run if isinstance(run, RunFile) else parse_run(run)
    names, addresses = parse_nodes(str(nodes), port=free_ports(nodes))
    addresses = tuple(None if node == hidden else address for node, address in enumerate(addresses))
    text = run_text(agreed_run(asked, nodes, IDENTITY)).encode()
    make_network(folder, names, addresses, run=text, settings=NewSettings(delay=delay))
    configs = [folder / name / "node.toml" for name in names]
    for config in configs:  # several tests at once would need more ports
        lines = [line for line in config.read_text().splitlines() if not line.startswith("metrics")]
        config.write_text("\n".join(lines) + "\n")
    return configs


def run_nodes(
    configs: Sequence[Path],
    change: Callable[[int, NodeSetup], NodeSetup] = lambda _, setup: setup,
    clock: Callable[[], float] = time.monotonic,
) -> list[Node]:
    """Run nodes to the end of their run; return what is left of them."""
    nodes: list[Node] = []

    async def all_of_them() -> None:
        setups = [change(i, load_node(config)) for i, config in enumerate(configs)]
        journals = [open_journal(setup) for setup in setups]
        try:
            nodes.extend(
                Node(setup, journal, lambda event, **facts: None, clock=clock)
                for setup, journal in zip(setups, journals, strict=True)
            )
            async with asyncio.timeout(120.0):
                await asyncio.gather(*(node.run() for node in nodes))
        finally:
            for journal in journals:
                journal.close()

    LOOP.run(all_of_them())
    return nodes


def final_models(configs: Sequence[Path]) -> list[Any]:
    return [np.load(config.with_name("model.npy")) for config in configs]


def test_all_nodes_end_with_the_same_model_and_an_account_of_their_own(tmp_path: Path) -> None:
    configs = make(tmp_path / "net", 5, QUICK)
    nodes = run_nodes(configs)
    models = final_models(configs)
    assert all((model == models[0]).all() for model in models)
    assert np.isfinite(models[0]).all()
    # The chain of the final model tells who updated; the accountant of transcripts is told the same, and agrees.
    readings = [read_journal(config.with_name("journal.sqlite")) for config in configs]
    setup = nodes[0].setup
    updated = np.zeros(setup.rules.steps, dtype=bool)
    for reading in readings:
        for release in reading.releases:
            updated[release.hop - 1] = True
    assert updated.sum() == readings[0].memory.outcome.updates  # type: ignore[union-attr] # the run is over
    whole = TranscriptAccountant(
        Transcript(
            nodes=5,
            offered=np.array(setup.rules.path),
            updated=updated,
            step_sizes=np.asarray(setup.terms.step_sizes)[: updated.sum()],
            noise_multiplier=3.0,
        )
    ).matrix()
    for me, (node, reading, config) in enumerate(zip(nodes, readings, configs, strict=True)):
        account = account_of(node.setup.terms, (entry for _, entry in reading.entries))
        assert account.by_observer() == pytest.approx(node.account.by_observer(), rel=1e-12)
        assert (np.sqrt(account.by_observer()) >= whole[me] * (1.0 - 1e-12)).all()
        seen = verify_outcome(config.with_name("model.npz"))
        assert seen.problem is None
        assert len(seen.signed) >= 3
        told = given_away(config.parent)
        assert told.releases == len(list(reading.releases)) == node.account.releases
        assert told.guarantee.epsilon == pytest.approx(node.account.epsilon(told.guarantee.delta))


def test_a_node_that_nobody_can_call_takes_part_like_any_other(tmp_path: Path) -> None:
    """The first one of the roster, which all others would call."""
    configs = make(tmp_path / "net", 3, QUICK, hidden=0)
    assert "listen = " not in configs[0].read_text()
    nodes = run_nodes(configs)
    assert len({config.with_name("model.npy").read_bytes() for config in configs}) == 1
    assert min(node.account.releases for node in nodes) > 0


@pytest.mark.parametrize("seeds", [2, pytest.param(6, marks=pytest.mark.slow)])
def test_the_error_is_that_of_the_simulator(tmp_path: Path, seeds: int) -> None:
    """Over several seeds, the nodes' final error is as far from the simulator's mean as chance allows (p = 6e-5)."""
    scores = []
    for seed in range(seeds):
        values = {
            "data": {"name": "breast-cancer", "nodes": 5},
            "schedule": {"name": "random-ring", "steps": 100},
            "delay": {"timeout": 20.0, "law": "exponential:0.001"},
            "privacy": {"noise_multiplier": 1.0},
            "simulation": {"seed": seed, "runs": 200, "evaluate_every": 100},
        }
        configs = make(tmp_path / str(seed), 5, values)
        node = run_nodes(configs)[0]
        simulated = simulate(values)
        errors = simulated.test_error[:, -1]
        assert node.account.releases == 20
        scores.append((node.updater.test_error - errors.mean()) / errors.std())
    assert abs(np.mean(scores)) < 4.0 / np.sqrt(len(scores))
    assert np.abs(scores).max() < 6.0


def test_a_run_with_late_nodes_takes_at_least_what_lemma_1_says(tmp_path: Path) -> None:
    """A sleep is never too short: waits and skips are at least those of the law (p = 3e-5 each, one-sided)."""
    steps, timeout = 120, 0.03
    configs = make(
        tmp_path / "net",
        4,
        QUICK | {"schedule": {"steps": steps}, "delay": {"timeout": timeout, "ready": "fresh"}},
        "exponential:0.02",
    )
    nodes = run_nodes(configs)
    reading = read_journal(configs[0].with_name("journal.sqlite"))
    assert reading.memory.outcome is not None
    skipped = steps - reading.memory.outcome.updates
    p = np.exp(-timeout / 0.02)
    assert skipped >= steps * p - 4.0 * np.sqrt(steps * p * (1.0 - p))
    waits = [wait for node in nodes for wait in node.telemetry.times.waits]
    mean, square = 0.02 * (1.0 - p), 2 * 0.02**2 * (1.0 - p * (1.0 + timeout / 0.02))
    assert np.mean(waits) >= mean - 4.0 * np.sqrt((square - mean**2) / len(waits))


def test_a_node_stops_taking_part_when_its_budget_is_spent(tmp_path: Path) -> None:
    configs = make(tmp_path / "net", 4, QUICK)
    with configs[2].open("a") as file:
        file.write("\n")
    text = configs[2].read_text().replace("[budget]\n", "[budget]\nepsilon = 5.0\ndelta = 1e-5\n")
    configs[2].write_text(text)
    nodes = run_nodes(configs)
    assert nodes[2].telemetry.refused > 0
    assert nodes[2].account.epsilon(1e-5) <= 5.0
    assert gdp_epsilon(math.sqrt(nodes[2].account.mu2_with_one_more()), 1e-5) > 5.0
    assert 0 < nodes[2].account.releases < 15
    assert nodes[1].account.releases == 15
    assert len({model.tobytes() for model in final_models(configs)}) == 1


def test_whatever_goes_wrong_inside_a_node_stops_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error while a message is taken must not end in the call that brought it, with the node going on."""
    configs = make(tmp_path / "net", 3, QUICK)

    def fails(self: TakingPart, *_: Any) -> bool:
        raise ArithmeticError("a bug")

    monkeypatch.setattr(TakingPart, "__call__", fails)
    with pytest.raises(ArithmeticError, match="a bug"):
        run_nodes(configs)


def test_nodes_learn_how_long_to_wait(tmp_path: Path) -> None:
    """The learned timeouts leave the first guess of 2 s."""
    run = QUICK | {"schedule": {"steps": 400}, "delay": {"timeout": "adaptive"}}
    configs = make(tmp_path / "net", 4, run, "exponential:0.005")
    nodes = run_nodes(configs)
    assert all(node.driver.pace.timeout < 5.0 for node in nodes)


class Slow:
    """A learner that takes long over its own rows."""

    def __init__(self, learner: Learner, seconds: float) -> None:
        self._learner, self._seconds = learner, seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._learner, name)

    def update(self, *given: Any, **named: Any) -> Any:
        time.sleep(self._seconds)
        return self._learner.update(*given, **named)


class Told(AdaptivePace):
    """A pace that keeps all it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.overheads: list[float] = []
        self.waits: list[float] = []

    def overhead(self, seconds: float) -> None:
        self.overheads.append(seconds)
        super().overhead(seconds)

    def saw(self, waited: float, ready: bool, *, own: bool = True) -> None:
        self.waits.append(waited)
        super().saw(waited, ready, own=own)


class TellingSetup(NodeSetup):
    """A setup whose pace keeps all it is told."""

    def new_pace(self) -> Pace:
        return Told()


LONG = 0.1  # seconds; no update of the others takes that long


def test_a_timeout_is_learned_from_whole_turns_of_everybody(tmp_path: Path) -> None:
    """One of three nodes computes slowly. All learn of it, though two never wait for it to be ready."""

    def slow(node: int, setup: NodeSetup) -> NodeSetup:
        parts = {field.name: getattr(setup, field.name) for field in dataclasses.fields(setup)}
        return TellingSetup(**parts | ({"learner": Slow(setup.learner, LONG)} if node == 1 else {}))

    configs = make(tmp_path / "net", 3, QUICK | {"delay": {"timeout": "adaptive"}})
    nodes = run_nodes(configs, slow)
    assert nodes[1].account.releases >= 5  # until it has shown how slow it is
    assert nodes[0].account.releases + nodes[2].account.releases > nodes[1].account.releases
    for node in nodes:
        assert isinstance(node.driver.pace, Told)
        # What an offer costs has nothing to do with anybody's rows.
        assert np.median(node.driver.pace.overheads) < LONG
        long = [waited for waited in node.driver.pace.waits if waited >= LONG]
        assert len(long) >= 5
        assert len(node.driver.pace.waits) >= 30


def test_a_holder_that_waits_for_another_does_not_prepare_for_a_hop_that_is_over(tmp_path: Path) -> None:
    """A preparation that is thrown away with its turn is not begun once the turn is over."""
    nodes: list[Node] = []
    prepared: list[int | None] = []

    class Watched(Slow):
        def prepare(self, *given: Any) -> None:
            prepared.extend(node.peer.offers_to for node in nodes if cast(Any, node.setup.learner) is self)
            self._learner.prepare(*given)

    async def story() -> None:
        setups = [load_node(config) for config in configs]
        setups = [dataclasses.replace(one, learner=cast(Any, Watched(one.learner, 0.0))) for one in setups]
        journals = [open_journal(setup) for setup in setups]
        try:
            for setup, journal in zip(setups, journals, strict=True):
                nodes.append(Node(setup, journal, lambda event, **facts: None))
            async with asyncio.timeout(120.0):
                await asyncio.gather(*(node.run() for node in nodes))
        finally:
            for journal in journals:
                journal.close()

    # On a walk a hop in two is the holder's own; it is late for half of them, and then offers the next one.
    walk = {"schedule": {"name": "random-walk", "steps": 200}, "delay": {"timeout": 0.02, "ready": "fresh"}}
    configs = make(tmp_path / "net", 2, QUICK | walk, "exponential:0.03")
    LOOP.run(story())
    assert len(prepared) > 50
    # In a thread, as on a busy machine, one may just have begun when the turn ended.
    assert sum(offers_to is not None for offers_to in prepared) <= len(prepared) / 10


def test_nodes_with_files_of_their_own(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    run = QUICK | {"model": {"name": "logistic", "classes": ["no", "yes"], "columns": 2}}
    run |= {"privacy": {"protects": "record", "noise_multiplier": 0.4}, "data": {}, "column": columns()}
    run |= {"learning": {"rate": 2.0, "batch": 48}}
    configs = make(tmp_path / "net", 3, run)
    for config in configs:
        x = rng.normal(size=(60, 2))
        y = np.where(x[:, 0] + x[:, 1] + 0.3 * rng.normal(size=60) > 0.0, "yes", "no")
        rows = "\n".join(f"{a},{b},{label}" for (a, b), label in zip(x, y, strict=True))
        config.with_name("rows.csv").write_text(f"first,second,outcome\n{rows}\n")
        text = config.read_text().replace("[data]\n", '[data]\npath = "rows.csv"\nlabel = "outcome"\n')
        config.write_text(text)
    nodes = run_nodes(configs)
    assert len({model.tobytes() for model in final_models(configs)}) == 1
    assert np.mean([node.updater.test_error for node in nodes]) < 0.3  # what little noise there is, hardly matters


def test_noise_whose_ends_would_show_is_refused(tmp_path: Path) -> None:
    """At a noise multiplier of 0.1, two worlds are 20 deviations apart, and noise reaches 18.84."""
    little = {"schedule": {"steps": 24}, "delay": {"timeout": 0.5}, "privacy": {"noise_multiplier": 0.1}}
    configs = make(tmp_path / "net", 3, QUICK | little)
    with pytest.raises(InvalidInput, match=r"privacy.noise_multiplier = 0.1: .*ends of the noise add up to 1 to delta"):
        load_node(configs[0])


def test_large_models_travel_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network of 2 million parameters (8 MB): kept in files, carried in chunks, the same bytes everywhere."""
    (tmp_path / "wide_network.py").write_text(
        "import torch\n"
        "def make():\n"
        "    first, second = torch.nn.Linear(30, 60_000, bias=False), torch.nn.Linear(60_000, 2, bias=False)\n"
        "    return torch.nn.Sequential(first, second)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    allow(monkeypatch, tmp_path, "wide_network:make")
    run = {
        "data": {"name": "breast-cancer"},
        "schedule": {"name": "ring", "steps": 6},
        "delay": {"timeout": 60.0},
        "privacy": {"noise_multiplier": 1.0},
        "model": {"name": "wide_network:make", "device": "cpu"},
        "learning": {"gradient_bound": 1.0, "rate": 0.01},
    }
    configs = make(tmp_path / "net", 3, run)
    nodes = run_nodes(configs)
    assert nodes[0].setup.shape.size == 7_680_000
    models = final_models(configs)
    assert all((model == models[0]).all() for model in models)
    assert sum(node.account.releases for node in nodes) == 6
    assert nodes[1].account.epsilon(1e-5) == pytest.approx(nodes[1].account.epsilon_of_releases(1e-5))
    for config in configs:  # nothing is left over but what the journal needs
        left = list(Path(f"{config.with_name('journal.sqlite')}-models").iterdir())
        assert not [path for path in left if path.name.startswith("incoming-")]


def test_a_node_that_comes_back_late_is_told_the_outcome(tmp_path: Path) -> None:
    configs = make(tmp_path / "net", 4, QUICK | {"schedule": {"steps": 24}, "delay": {"timeout": 0.5}})

    async def story() -> None:
        setups = [load_node(config) for config in configs]
        hurry = [
            dataclasses.replace(setup, config=setup.config.model_copy(update={"start_wait": 0.5, "linger": 60.0}))
            for setup in setups
        ]
        journals = [open_journal(setup) for setup in hurry]
        nodes = [
            Node(setup, journal, lambda event, **facts: None) for setup, journal in zip(hurry, journals, strict=True)
        ]
        try:
            async with asyncio.timeout(120.0):
                early = [asyncio.create_task(node.run()) for node in nodes[:3]]
                while any(node.peer.memory.outcome is None for node in nodes[:3]):
                    await asyncio.sleep(0.05)
                await asyncio.gather(*early, nodes[3].run())
        finally:
            for journal in journals:
                journal.close()

    LOOP.run(story())
    assert len({model.tobytes() for model in final_models(configs)}) == 1
