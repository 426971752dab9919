"""Real nodes in an order by design: what was asked is what every pair gets, and the last hops add noise alone."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from networks import IDENTITY, free_ports
from test_nodes import QUICK, final_models, make, run_nodes

from skipring.delays import parse_delay
from skipring.errors import InvalidInput
from skipring.learning import LOGISTIC, LinearLearner, LinearModel, Protection, Rows
from skipring.network.node import AccountTerms, Node, NodeBudget, NodeSetup, OwnAccount
from skipring.network.protocol import blank_chain, extended_chain
from skipring.network.setup import (
    NewSettings,
    agreed_run,
    asked_budget,
    load_node,
    make_network,
    run_text,
    with_designed_order,
)
from skipring.network.setup.agreed_order import order_of
from skipring.network.transport import parse_nodes
from skipring.privacy import Transcript, TranscriptAccountant, gdp_epsilon
from skipring.runs import parse_run, read_run_file

HOSPITALS = Path(__file__).parents[2] / "examples" / "hospitals"

ASKED: dict[str, Any] = QUICK | {
    "schedule": {"name": "designed-ring", "steps": 40},
    "privacy": {"protects": "record", "epsilon": 2.0, "delta": 1e-5},
    "learning": {"batch": 200},
}


def with_budget(_: int, setup: NodeSetup) -> NodeSetup:
    budget = NodeBudget(epsilon=2.0, delta=1e-5)
    return dataclasses.replace(setup, config=setup.config.model_copy(update={"budget": budget}))


def transcript_of(nodes: list[Node]) -> TranscriptAccountant:
    """Return what somebody who sees everything counts."""
    setup, outcome = nodes[0].setup, nodes[0].peer.memory.outcome
    assert outcome is not None
    hops = len(setup.rules.path)
    bits = np.frombuffer(outcome.chain[32:], dtype=np.uint8)
    updated = np.unpackbits(bits, bitorder="little")[:hops].astype(bool)
    return TranscriptAccountant(
        Transcript(
            nodes=len(nodes),
            offered=np.array(setup.rules.path),
            updated=updated,
            step_sizes=np.asarray(setup.terms.step_sizes)[: updated.sum()],
            noise_multiplier=setup.terms.noise_multiplier,
            closing=setup.terms.closing,
        )
    )


def check_kept(nodes: list[Node]) -> None:
    for node in nodes:
        assert node.account.epsilon(1e-5) <= 2.0
    assert transcript_of(nodes).epsilon(1e-5) <= 2.0


def test_every_pair_gets_what_was_asked_and_no_turn_is_refused(tmp_path: Path) -> None:
    configs = make(tmp_path / "net", 4, ASKED)
    nodes = run_nodes(configs, with_budget)
    assert len({model.tobytes() for model in final_models(configs)}) == 1
    setup = nodes[0].setup
    assert (len(setup.rules.path), setup.terms.closing) == (42, 2)
    assert sum(node.account.releases for node in nodes) == 42
    assert all(node.telemetry.refused == 0 for node in nodes)
    check_kept(nodes)
    # The noise is as little as may be: the node that gives away most is at its budget right after its last update.
    assert max(node.account.epsilon(1e-5) for node in nodes) > 1.99


@pytest.mark.slow
@pytest.mark.parametrize("number", range(20))
def test_every_pair_gets_what_was_asked_in_every_run(tmp_path: Path, number: int) -> None:
    """Some are skipped, so that others hide less: who is at its budget refuses its turns."""
    configs = make(tmp_path / "net", 4, ASKED | {"delay": {"timeout": 0.02}, "simulation": {"seed": number + 1}})

    def late(index: int, setup: NodeSetup) -> NodeSetup:
        return dataclasses.replace(with_budget(index, setup), delay=parse_delay("exponential:0.02"))

    check_kept(run_nodes(configs, late))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(20))
def test_four_hospitals_keep_what_was_asked_in_every_run(tmp_path: Path, number: int) -> None:
    """The run of `make demo`: their own files, epsilon 1 at delta 1e-4; every second time they are late, too."""
    sites = tmp_path / "sites"
    subprocess.run([sys.executable, str(HOSPITALS / "sites.py"), str(sites)], check=True, stdout=subprocess.DEVNULL)
    names = ("cleveland", "budapest", "zurich", "long-beach")
    asked = read_run_file(HOSPITALS / "network.toml")
    run = asked.model_copy(update={"simulation": asked.simulation.model_copy(update={"seed": number + 1})})
    _, addresses = parse_nodes("4", port=free_ports(4))
    make_network(
        tmp_path / "net",
        names,
        addresses,
        run=run_text(agreed_run(run, 4, IDENTITY)).encode(),
        settings=NewSettings(
            delay="exponential:2" if number % 2 else None,
            budget=asked_budget(asked),
            data={name: sites / f"{name}.csv" for name in names},
        ),
    )
    configs = [tmp_path / "net" / name / "node.toml" for name in names]
    for config in configs:
        lines = [line for line in config.read_text().splitlines() if not line.startswith("metrics")]
        config.write_text("\n".join(lines) + "\n")

    def quicker(_: int, setup: NodeSetup) -> NodeSetup:  # the same shares of turns, in less time
        rules = dataclasses.replace(setup.rules, timeout=setup.rules.timeout / 40.0)
        return dataclasses.replace(setup, rules=rules, delay=parse_delay("exponential:0.05") if setup.delay else None)

    nodes = run_nodes(configs, quicker)
    assert all(node.setup.config.budget.epsilon == 1.0 for node in nodes)
    assert all(0.5 < node.account.epsilon(1e-4) <= 1.0 for node in nodes)
    assert transcript_of(nodes).epsilon(1e-4) <= 1.0


def test_an_own_account_with_closing_hops_is_what_a_transcript_says() -> None:
    """Of the last own update on, that is: the transcript then goes on, and counts what others add."""
    path, closing, noise = [0, 1, 2, 2, 0, 1, 1, 2, 0, 1, 2], 2, 3.0
    sizes = [1.0 / np.sqrt(1.0 + at) for at in range(len(path))]
    for me in range(3):
        account = OwnAccount(AccountTerms(3, me, path, sizes, noise, True, closing=closing))
        chain, last = blank_chain(len(path), b"run"), 0
        for hop, node in enumerate(path, start=1):
            chain = extended_chain(chain, (0, 0), hop, bytes([hop]) * 32)
            if node == me:
                before = account.plain_mu2
                account.released((0, 0), hop, chain, hop)
                assert (account.plain_mu2 > before) == (hop <= len(path) - closing)
                last = hop
        seen = Transcript(
            nodes=3,
            offered=np.array(path[:last]),
            updated=np.ones(last, dtype=bool),
            step_sizes=np.array(sizes[:last]),
            noise_multiplier=noise,
            closing=max(0, last - (len(path) - closing)),
        )
        assert account.by_observer() == pytest.approx(TranscriptAccountant(seen).matrix()[me] ** 2, rel=1e-9)
        assert account.mu2_with_one_more((0, 0), 11) == account.mu2 or path[10] != me


def test_a_closing_step_is_noise_alone_and_stays_in_the_ball() -> None:
    rng = np.random.default_rng(1)
    x = np.eye(3)
    model = LinearModel(loss=LOGISTIC, features=3, diameter=1.0)
    rows = Rows(x, np.array([0, 1, 1]), x[:0], np.zeros(0, np.int64), 2)
    made = LinearLearner(model, rows, protection=Protection(unit="record", batch=3), rng=rng)

    class Given:
        def add(self, vector: Any, std: float) -> None:
            vector += std * np.array([1.0, -2.0, 0.5])

    w = np.array([0.1, 0.2, 0.0])
    std = made.noise_std(0.3)
    found = made.close(w.copy(), step_size=0.5, noise_multiplier=0.3, noise=Given())
    assert found == pytest.approx(w - 0.5 * std * np.array([1.0, -2.0, 0.5]))
    far = made.close(w.copy(), step_size=50.0, noise_multiplier=3.0, noise=Given())
    assert np.linalg.norm(far) == pytest.approx(0.5)
    assert made.close(w.copy(), step_size=0.5, noise_multiplier=0.0, noise=Given()) == pytest.approx(w)


def test_an_order_is_designed_unless_the_file_names_another() -> None:
    plain = parse_run({"data": {"name": "breast-cancer"}, "privacy": {"noise_multiplier": 3.0}})
    assert with_designed_order(plain, 5).schedule.name == "designed-ring"
    assert with_designed_order(plain, 2).schedule.name == plain.schedule.name  # there is one order only
    odd = parse_run({"data": {"name": "breast-cancer"}, "schedule": {"steps": 41}})
    assert with_designed_order(odd, 5).schedule.name == odd.schedule.name
    named = parse_run({"data": {"name": "breast-cancer"}, "schedule": {"name": "ring"}})
    assert with_designed_order(named, 5) == named
    agreed = agreed_run(with_designed_order(plain, 5), 5, IDENTITY)
    assert agreed.schedule.closing == 2
    assert agreed.schedule.search is not None  # nothing is left open
    order = order_of(agreed, 5, agreed.schedule.steps or 0)
    assert (order.path, order.closing) == (order_of(agreed, 5, agreed.schedule.steps or 0).path, 2)
    with pytest.raises(InvalidInput, match="whole rounds"):
        agreed_run(parse_run(ASKED | {"schedule": {"name": "designed-ring", "steps": 41}}), 4, IDENTITY)


def test_nodes_with_other_orders_do_not_agree(tmp_path: Path) -> None:
    digests = set()
    for seed in (1, 2):
        configs = make(
            tmp_path / str(seed),
            3,
            ASKED | {"schedule": {"name": "designed-ring", "steps": 30}} | {"simulation": {"seed": seed}},
        )
        setup = load_node(configs[0])
        digests.add(setup.agreement.values["schedule.order"])
    assert len(digests) == 2


def test_a_known_order_needs_less_noise_than_one_that_is_drawn() -> None:
    noises = {}
    for name in ("designed-ring", "random-ring"):
        run = agreed_run(parse_run(ASKED | {"schedule": {"name": name, "steps": 300}}), 10, IDENTITY)
        noises[name] = run.privacy.noise_multiplier
    assert noises["designed-ring"] is not None
    assert noises["random-ring"] is not None
    assert noises["designed-ring"] < 0.93 * noises["random-ring"]


def test_stated_skipping_takes_more_noise() -> None:
    """With a law of delays and nodes that begin anew, the forecast for the agreed order is what is asked."""
    base = ASKED | {"schedule": {"name": "designed-ring", "steps": 100}}
    known = base | {"delay": {"law": "exponential:1", "timeout": 1.0, "ready": "fresh"}}
    unknown = base | {"delay": {"law": "exponential:1", "timeout": 1.0}}
    noises = [agreed_run(parse_run(run), 10, IDENTITY).privacy.noise_multiplier for run in (known, unknown)]
    assert noises[0] is not None
    assert noises[1] is not None
    assert noises[0] > 1.02 * noises[1]
    assert gdp_epsilon(2.0 / noises[0], 1e-5) < 2.0
