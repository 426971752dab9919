"""An epsilon that was asked for is kept by every node, however many others are skipped."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skipring.errors import InvalidInput
from skipring.network.node import AccountTerms, NodeBudget, OwnAccount, read_node_config, willing
from skipring.network.protocol import blank_chain, extended_chain, sealed, updates_of
from skipring.network.setup import agreed_run, asked_budget, terms_of
from skipring.network.transport import Roster, parse_nodes
from skipring.privacy import Transcript, TranscriptAccountant, gdp_epsilon
from skipring.runs import RunFile, parse_run, read_run_file

NODES, DELTA = 8, 1e-5
SEAL = sealed(bytes(32), bytes(32))


def asked(epsilon: float, **delay: Any) -> RunFile:
    return parse_run(
        {
            "schedule": {"name": "random-ring", "steps": 480},
            "delay": delay,
            "privacy": {"epsilon": epsilon, "delta": DELTA},
            "model": {"name": "logistic"},
        }
    )


def terms(run: RunFile, me: int, nodes: int = NODES) -> AccountTerms:
    names, addresses = parse_nodes(str(nodes))
    return terms_of(
        run,
        Path("run.toml"),
        Roster(
            tuple(names),
            tuple(addresses),
            tuple(f"{i:064x}" for i in range(nodes)),
            tuple(f"02{i:064x}" for i in range(nodes)),
        ),
        me,
        parts=1,
    )


def play(terms: AccountTerms, ready: Any, budget: NodeBudget) -> tuple[OwnAccount, list[bool]]:
    """Keep a node's account of a run, as the node does: it refuses what it is not willing to give."""
    account, chain, ballot = OwnAccount(terms), blank_chain(terms.steps, b"run"), (0, terms.path[0])
    updated = []
    for hop, node in enumerate(terms.path, start=1):
        took = bool(ready[hop - 1]) and (node != terms.me or willing(account, budget, ballot))
        updated.append(took)
        if took:
            chain = extended_chain(chain, ballot, hop, SEAL)
            if node == terms.me:
                account.released(ballot, hop, chain, updates_of(chain))
    return account, updated


def realised(terms: AccountTerms, updated: list[bool]) -> float:
    """What somebody who knows everything would say was given away of a node's data."""
    run = Transcript(
        nodes=terms.nodes,
        offered=np.array(terms.path),
        updated=np.array(updated),
        step_sizes=np.asarray(terms.step_sizes)[: sum(updated)],
        noise_multiplier=terms.noise_multiplier,
        convex=terms.convex,
    )
    return gdp_epsilon(TranscriptAccountant(run).matrix(threads=1)[terms.me].max(), DELTA)


@pytest.mark.parametrize("me", range(NODES))
def test_it_is_kept_where_the_others_are_skipped_nine_times_in_ten(me: int) -> None:
    """The noise alone is for a run in which nobody is: without the budget the node gives away far more."""
    run = asked(2.0, timeout="adaptive")
    own = terms(agreed_run(run, NODES), me)
    rng = np.random.default_rng(me)
    ready = (np.array(own.path) == me) | (rng.random(own.steps) < 0.1)
    account, updated = play(own, ready, asked_budget(run))
    assert realised(own, updated) <= account.epsilon(DELTA) * (1.0 + 1e-9)  # rounding
    assert account.epsilon(DELTA) <= 2.0
    assert account.releases >= 10  # and it is made use of
    assert gdp_epsilon(math.sqrt(account.mu2_with_one_more()), DELTA) > 2.0
    without, all_updates = play(own, ready, NodeBudget())
    assert realised(own, all_updates) > 2.5
    assert without.releases == 60


@pytest.mark.parametrize("model", ["logistic", "some:network"])
@pytest.mark.parametrize("schedule", ["ring", "random-ring"])
def test_where_nobody_is_skipped_the_noise_was_chosen_well(schedule: str, model: str) -> None:
    """No node refuses for rounding alone: on a ring, and where each release counts in full, all updates are made.

    Elsewhere the account is a little above that of the whole run, since it must hold before the run is over.
    """
    run = parse_run({"schedule": {"name": schedule, "steps": 96}, "model": {"name": model}})
    for me in range(NODES):
        own = terms(agreed_run(run, NODES), me)
        account, updated = play(own, np.ones(96, dtype=bool), asked_budget(run))
        fewest = 12 if schedule == "ring" or model != "logistic" else 11
        assert fewest <= account.releases <= 12
        assert realised(own, updated) <= 8.0


def test_the_budget_is_what_was_asked_for_unless_the_noise_was_given() -> None:
    assert asked_budget(RunFile()) == NodeBudget(epsilon=8.0, delta=1e-5)
    assert asked_budget(parse_run({"privacy": {"epsilon": 3.0, "delta": 1e-7}})) == NodeBudget(epsilon=3.0, delta=1e-7)
    assert asked_budget(parse_run({"privacy": {"noise_multiplier": 3.0}})) == NodeBudget()


@pytest.mark.parametrize(
    ("key", "value"), [("epsilon", math.inf), ("epsilon", 0.0), ("epsilon", -1.0), ("delta", 0.0), ("delta", 2.0)]
)
def test_a_budget_that_means_nothing_is_refused_by_its_key(key: str, value: float) -> None:
    for ask in (asked_budget, lambda run: agreed_run(run, 3)):
        with pytest.raises(InvalidInput, match=rf"^privacy\.{key} = {value}"):
            ask(parse_run({"model": {"name": "logistic"}, "privacy": {key: value}}))


@pytest.mark.parametrize("timeout", ['"adaptive"', "2.0"])
@pytest.mark.parametrize(
    ("privacy", "budget"),
    [
        ("", NodeBudget(epsilon=8.0, delta=1e-5)),
        ("epsilon = 2.5\ndelta = 1e-7", NodeBudget(epsilon=2.5, delta=1e-7)),
        ("noise_multiplier = 4.0", NodeBudget()),
    ],
)
def test_init_writes_it_into_the_settings_of_every_node(
    tmp_path: Path, skipring_words: Callable[..., Any], timeout: str, privacy: str, budget: NodeBudget
) -> None:
    (tmp_path / "asked.toml").write_text(
        f"[data]\nname = 'breast-cancer'\n[delay]\ntimeout = {timeout}\n[privacy]\n{privacy}\n"
    )
    made = skipring_words("network", "init", "net", "--nodes", "3", "--run", "asked.toml", "--json")
    assert made.code == 0, made.err
    given = None if budget.epsilon is None else {"epsilon": budget.epsilon, "delta": budget.delta}
    assert made.data["budget"] == given
    for name in ("node1", "node2", "node3"):
        file = tmp_path / "net" / name / "node.toml"
        assert read_node_config(file).budget == budget
        assert ("refuses its turns once one more update would exceed it" in file.read_text()) is (given is not None)
    # The agreed run has the noise alone: whoever prepares another network from it asks for no budget.
    assert asked_budget(read_run_file(tmp_path / "net" / "run.toml")) == NodeBudget()
