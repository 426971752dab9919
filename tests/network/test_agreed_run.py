"""The run file that all nodes share: nothing is left open in it, and its noise keeps the budget."""

from __future__ import annotations

import math
import tomllib

import numpy as np
import pytest

from skipring.delays import Exponential
from skipring.errors import InvalidInput
from skipring.network.node import AccountTerms, AdaptivePace, NodeBudget, OwnAccount, willing
from skipring.network.protocol import Token, blank_chain, extended_chain
from skipring.network.setup import agreed_run, notes_on, run_text
from skipring.network.setup.agreed import why_nobody_skipped
from skipring.network.setup.agreed_order import order_of
from skipring.privacy import Transcript, TranscriptAccountant, calibrate, forecast, planned_run
from skipring.runs import RunFile, example_run_file, parse_run, step_sizes_of
from skipring.simulation import build
from skipring.timeouts import timeout_for_skip


def test_without_anything_nodes_learn_their_timeout_and_the_noise_keeps_epsilon_8_on_the_agreed_path() -> None:
    run = agreed_run(RunFile(), 8)
    assert (run.delay.timeout, run.schedule.steps, run.model.name, run.data.nodes) == ("adaptive", 240, "logistic", 8)
    assert run.privacy.noise_multiplier is not None
    path, sizes = np.array(order_of(run, 8, 240).path), step_sizes_of(run).first(240)
    everybody = Transcript(
        nodes=8,
        offered=path,
        updated=np.ones(240, dtype=bool),
        step_sizes=sizes,
        noise_multiplier=run.privacy.noise_multiplier,
    )
    assert TranscriptAccountant(everybody).epsilon(1e-5) <= 8.0
    # A node cannot know that others will add noise after its last update: what it counts then is within its budget.
    epsilons = []
    for node in range(8):
        account = OwnAccount(AccountTerms(8, node, path.tolist(), sizes, run.privacy.noise_multiplier, True))
        chain = blank_chain(240, b"run")
        for hop, whose in enumerate(path.tolist(), start=1):
            chain = extended_chain(chain, (0, int(path[0])), hop, bytes(32))
            if whose == node:
                account.released((0, int(path[0])), hop, chain, hop)
        epsilons.append(account.epsilon(1e-5))
    assert 8.0 * (1.0 - 1e-6) < max(epsilons) <= 8.0


@pytest.mark.parametrize("size", ["constant", "sqrt"])
@pytest.mark.parametrize("schedule", ["random-walk", "random-ring", "ring", "designed-ring"])
def test_no_turn_is_refused_if_nobody_is_skipped(schedule: str, size: str) -> None:
    """On a walk a node may give away most long before its last turn (seed 347 is one of those)."""
    values = {"schedule": {"name": schedule, "steps": 40}, "learning": {"step_size": size}, "privacy": {"epsilon": 2.0}}
    run = agreed_run(parse_run(values | {"model": {"name": "logistic"}, "simulation": {"seed": 347}}), 5)
    assert run.privacy.noise_multiplier is not None
    order = order_of(run, 5, 40)
    hops, first = len(order.path), (0, order.path[0])
    budget = NodeBudget(epsilon=2.0, delta=1e-5)
    for node in range(5):
        sizes = step_sizes_of(run).first(hops)
        terms = AccountTerms(5, node, order.path, sizes, run.privacy.noise_multiplier, True, closing=order.closing)
        account, token = OwnAccount(terms), Token(0, b"", blank_chain(hops, b"run"))
        for hop, whose in enumerate(order.path, start=1):
            assert whose != node or willing(account, budget, first, hop, token), hop
            token = Token(hop, b"", extended_chain(token.chain, first, hop, bytes(32)))
            if whose == node:
                account.released(first, hop, token.chain, hop)


@pytest.mark.parametrize("model", ["logistic", None])
def test_with_a_law_of_delays_noise_is_that_of_a_node_that_is_never_late_among_others_that_are(
    model: str | None,
) -> None:
    delay = {"law": "exponential:0.5", "timeout": timeout_for_skip(Exponential(0.5), 0.3), "ready": "fresh"}
    values = {"data": {"nodes": 6}, "delay": delay, "privacy": {"epsilon": 4.0}}
    simulated = build(parse_run(values))
    run = agreed_run(parse_run(values | ({} if model is None else {"model": {"name": model}})), 6)
    assert run.delay.timeout == simulated.timeout
    planned = planned_run(
        schedule="random-ring",
        nodes=6,
        steps=180,
        skip=0.3,
        target_skip=0.0,
        noise_multiplier=1.0,
        order=order_of(run, 6, 180).known(6),
    )
    assert run.privacy.noise_multiplier == pytest.approx(calibrate(forecast(planned).with_noise, 4.0, 1e-5), rel=1e-6)
    assert run.privacy.noise_multiplier is not None
    assert run.privacy.noise_multiplier > 1.05 * simulated.noise_multiplier  # there all are late alike
    assert run.privacy.epsilon is None
    # Where nodes learn how long to wait nobody knows who will be skipped, whatever the law: as if nobody were.
    learned = agreed_run(parse_run(values | {"delay": delay | {"timeout": None}, "model": {"name": "logistic"}}), 6)
    silent = agreed_run(parse_run(values | {"delay": {}, "model": {"name": "logistic"}}), 6)
    assert learned.privacy.noise_multiplier == silent.privacy.noise_multiplier
    assert learned.delay.timeout == "adaptive"


def test_no_data_is_needed_where_nodes_have_files_of_their_own() -> None:
    model = {"name": "softmax", "classes": ["a", "b", "c"], "columns": 2}
    hidden = {"epsilon": 3.0, "protects": "node"}
    run = agreed_run(parse_run({"model": model, "schedule": {"steps": 40}, "privacy": hidden}), 4)
    assert run.privacy.noise_multiplier is not None
    fixed = {"model": model, "delay": {"timeout": 2.0}, "privacy": hidden}
    assert agreed_run(parse_run(fixed), 4).delay.timeout == 2.0


def test_networks_count_every_release_in_full() -> None:
    run = agreed_run(
        parse_run(
            {"model": {"name": "some:net"}, "schedule": {"name": "ring", "steps": 20}, "privacy": {"epsilon": 3.0}}
        ),
        5,
    )
    linear = agreed_run(
        parse_run(
            {"model": {"name": "logistic"}, "schedule": {"name": "ring", "steps": 20}, "privacy": {"epsilon": 3.0}}
        ),
        5,
    )
    assert run.privacy.noise_multiplier is not None
    assert linear.privacy.noise_multiplier is not None
    assert run.privacy.noise_multiplier >= linear.privacy.noise_multiplier


def test_the_text_says_the_same() -> None:
    for values in ({}, {"model": {"name": "logistic", "classes": ['a "b"', "c"]}, "learning": {"batch": 3}}):
        run = agreed_run(parse_run(values | {"privacy": {"protects": "node"}}), 3)
        again = parse_run(tomllib.loads(run_text(run)))
        assert again == run
        assert agreed_run(again, 3) == run


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"delay": {"timeout": float("inf")}}, "delay.timeout"),
        ({"schedule": {"name": "gossip"}}, "no token"),
        ({"data": {"nodes": 9}}, "the roster has 3"),
        ({"delay": {"patient_every": 3}}, "delay.patient_every"),
        ({"stragglers": {"die": 0.1}}, "stragglers"),
        ({"compute": {"late": "fewer-rows"}, "privacy": {"protects": "person"}}, "compute.late"),
        (
            {"delay": {"law": "gamma:0.25,1", "timeout": 2.0, "ready": "fresh"}, "schedule": {"steps": 31}},
            "schedule.steps",
        ),
    ],
)
def test_what_real_nodes_cannot_follow_is_refused(values: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        agreed_run(parse_run(values), 3)
    assert said in str(refused.value)


def test_what_is_endless_in_a_run_file_is_so_for_all_nodes() -> None:
    run = agreed_run(parse_run({"model": {"name": "logistic"}, "learning": {"diameter": math.inf}}), 4)
    assert run.learning.diameter == math.inf
    assert parse_run(tomllib.loads(run_text(run))) == run


@pytest.mark.parametrize("timeout", [None, "most-updates"])
@pytest.mark.parametrize("law", [None, "gamma:0.25,1", "exponential:1", "constant:3"])
def test_no_timeout_of_real_nodes_follows_from_a_law_of_delays(law: str | None, timeout: str | None) -> None:
    delay = {"law": law, "timeout": timeout}
    asked = parse_run({"delay": delay, "model": {"name": "logistic"}})
    agreed = agreed_run(asked, 8)
    assert (agreed.delay.timeout, agreed.delay.floor) == ("adaptive", 0.1)
    fresh = parse_run({"delay": delay | {"ready": "fresh"}})
    for run in (asked, agreed, fresh):
        assert why_nobody_skipped(run) == "how many will be skipped is not known"


@pytest.mark.parametrize("law", [None, "gamma:0.25,1"])
def test_real_nodes_do_not_skip_with_a_probability_that_a_file_says(law: str | None) -> None:
    with pytest.raises(InvalidInput, match=r"delay\.skip = 0\.3: real nodes learn how long to wait"):
        agreed_run(parse_run({"delay": {"skip": 0.3, "law": law}}), 8)


def test_nodes_that_learn_their_timeout_begin_at_two_seconds() -> None:
    assert AdaptivePace().timeout == 2.0


@pytest.mark.parametrize(("timeout", "told"), [(0.0999, True), (0.1, False), (2.0, False), (None, False)])
def test_a_timeout_below_all_that_nodes_would_learn_is_told(timeout: float | None, told: bool) -> None:
    asked = {"model": {"name": "logistic"}, "delay": {"timeout": timeout}, "privacy": {"noise_multiplier": 2.0}}
    notes = [note for note in notes_on(agreed_run(parse_run(asked), 8), 8) if "delay.timeout" in note]
    assert len(notes) == told
    assert not told or notes[0].startswith("nodes wait for each other no longer than delay.timeout = 0.0999 s")


def test_the_file_that_init_writes_names_no_law_so_nodes_learn_their_timeout() -> None:
    assert agreed_run(parse_run(tomllib.loads(example_run_file())), 8).delay.timeout == "adaptive"


def test_real_nodes_walk_where_no_schedule_is_named_and_refuse_laps() -> None:
    for said in ({}, {"schedule": {"name": "auto"}}, {"schedule": {"steps": 40}}):
        assert agreed_run(parse_run(said), 8).schedule.name == "random-ring"
    with pytest.raises(InvalidInput, match=r"schedule\.name = laps: has no token to pass between nodes"):
        agreed_run(parse_run({"schedule": {"name": "laps"}}), 8)
