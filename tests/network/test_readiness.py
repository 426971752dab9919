"""`network check` reads what a node reads when it starts; and a run without noise says everywhere what it hides."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from networks import ended, free_ports, small_run
from test_nodes import make, run_nodes
from world import fake_seals

from skipring.errors import InvalidInput
from skipring.network import Memory, Peer, Rules, Token
from skipring.network.protocol import Accepted, Answer, Copy, Kept, Kind, Ready
from skipring.network.setup import given_away, load_node, open_journal, why_not_started

Command = Callable[..., Any]

RUN = small_run(12, "noise_multiplier = {noise}", timeout=20.0)
NOTHING = "here is no noise (privacy.noise_multiplier = 0), so nothing is protected"


def prepared(skipring_words: Command, tmp_path: Path, noise: float = 3.0) -> Path:
    (tmp_path / "asked.toml").write_text(RUN.format(noise=noise))
    words = ["--nodes", "3", "--port", str(free_ports(3)), "--run", "asked.toml"]
    made = skipring_words("network", "init", "net", *words)
    assert made.code == 0, made.err
    return tmp_path / "net"


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("run.toml", 'name = "breast-cancer"', 'name = "iris"', "data.name = iris"),
        ("run.toml", 'name = "logistic"', 'name = "squared"', "model.label_bound"),
        ("run.toml", "steps = 12", "step = 12", "schedule.step = 12: is not a key of a run file; did you mean"),
        ("run.toml", "timeout = 20.0", 'timeout = "most-updates"', "delay.timeout = most-updates"),
        ("node.toml", "[data]", '[data]\npath = "rows.csv"\nlabel = "ill"', "rows.csv"),
        ("node.toml", 'run = "run.toml"', 'run = "other.toml"', "other.toml: does not exist"),
    ],
)
def test_what_would_not_start_does_not_pass(
    skipring_words: Command, tmp_path: Path, file: str, old: str, new: str, said: str
) -> None:
    net = prepared(skipring_words, tmp_path)
    assert skipring_words("network", "check", "net").code == 0
    path = net / "node2" / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    for folder in ("net", "net/node2"):
        answer = skipring_words("network", "check", folder)
        assert answer.code == 1
        (line,) = answer.out.splitlines()
        assert line.startswith("node2: ")
        assert said in line
    refused = skipring_words("node", "run", "net/node2/node.toml")
    assert refused.code == 2


def unwrapped(answer: Any) -> str:
    return " ".join((answer.out + answer.err).split())


def test_seconds_that_suit_a_simulation_are_warned_about_at_init_and_at_check(
    skipring_words: Command, tmp_path: Path
) -> None:
    run, words = RUN.format(noise=3), ["--nodes", "3", "--port", str(free_ports(3)), "--run", "asked.toml"]
    (tmp_path / "asked.toml").write_text(run.replace("timeout = 20.0", 'law = "gamma:0.25,1"'))
    learns = skipring_words("network", "init", "learns", *words)
    assert (learns.code, "delay.law is for simulations" in unwrapped(learns)) == (0, True)
    assert 'timeout = "adaptive"' in (tmp_path / "learns" / "node1" / "run.toml").read_text()
    assert "delay" not in skipring_words("network", "check", "learns").out
    (tmp_path / "asked.toml").write_text(run.replace("timeout = 20.0", "timeout = 0.0048"))
    words = ["network", "init", "short", *words]
    answers = [skipring_words(*words), skipring_words("network", "check", "short")]
    answers.append(skipring_words("network", "check", "short/node1"))
    for answer in answers:
        assert answer.code == 0
        assert "no longer than delay.timeout = 0.0048 s" in unwrapped(answer)


def test_nobody_learns_from_data_that_nobody_has_named(skipring_words: Command, tmp_path: Path) -> None:
    (tmp_path / "asked.toml").write_text(RUN.replace('[data]\nname = "breast-cancer"\n', "").format(noise=3))
    refused = skipring_words("network", "init", "net", "--nodes", "3", "--run", "asked.toml")
    assert refused.code == 2
    assert refused.err.startswith("error: data.path missing: the run file names no data set that nodes share (data.na")
    net = prepared(skipring_words, tmp_path)
    run = net / "node1" / "run.toml"
    run.write_text(run.read_text().replace('name = "breast-cancer"\n', ""))
    assert "names no data set that nodes share" in ended(net / "node1" / "node.toml")[1]["why"]
    assert skipring_words("network", "check", "net").code == 1
    assert skipring_words("network", "init", "default", "--nodes", "3").code == 0
    assert 'name = "breast-cancer"' in (tmp_path / "default" / "run.toml").read_text()


def test_nodes_that_have_not_said_where_their_rows_are_do_not_pass(skipring_words: Command, tmp_path: Path) -> None:
    """What passes, starts: in the folder of the whole network, too."""
    columns = """
[[column]]
name = "age"
range = [0, 100]
[[column]]
name = "ill"
label = true
categories = ["no", "yes"]
"""
    run = RUN.replace('[data]\nname = "breast-cancer"\n', "").format(noise=3)
    (tmp_path / "asked.toml").write_text(f"{run}protects = 'record'\n[learning]\nbatch = 9\n{columns}")
    made = skipring_words("network", "init", "net", "--nodes", "3", "--run", "asked.toml")
    assert made.code == 0, made.err
    for folder, nodes in (("net", ["node1", "node2", "node3"]), ("net/node2", ["node2"])):
        answer = skipring_words("network", "check", folder)
        assert answer.code == 1
        *lines, rest = answer.out.splitlines()
        said = "data.path = missing: this node has not said where its rows are; give path under [data] in its node.toml"
        assert lines == [f"{name}: {said}" for name in nodes]
        assert rest == "All else is as it should be; certificates last 364 more days."
        assert not skipring_words("network", "check", folder, "--json").data["good"]
    settings = (tmp_path / "net" / "node1" / "node.toml").read_text()
    assert '# path = "rows.csv"' in settings
    assert "label =" not in settings  # the schema says which column it is
    (tmp_path / "rows.csv").write_text(
        "age,ill\n" + "".join(f"{n},{'yes' if n % 3 else 'no'}\n" for n in range(20, 60))
    )
    for name in ("node1", "node2", "node3"):
        path = tmp_path / "net" / name / "node.toml"
        path.write_text(path.read_text().replace('# path = "rows.csv"', 'path = "../../rows.csv"'))
    assert skipring_words("network", "check", "net").code == 0


def test_a_turn_that_goes_on_is_not_one_that_was_skipped() -> None:
    """Of its own update, of an offer and of a token on its way nobody knows yet what becomes."""
    rules = Rules(nodes=2, path=[0, 1, 0, 1], timeout=1.0)
    peer = Peer(0, rules, Memory.blank(0, Token(0, b"initial", b"")), fake_seals(rules.nodes)[0])
    ballot, known = (0, 0), [peer.decided]
    peer.begin()
    known.append(peer.decided)
    peer.prepared(ballot, 1)
    assert peer.computing
    known.append(peer.decided)
    peer.computed(ballot, 1, Token(1, b"updated", b""))
    known.append(peer.decided)
    peer.received(1, Ready(ballot, 2))
    known.append(peer.decided)
    assert known == [0, 0, 0, 1, 1]
    peer.received(1, Answer(ballot, 2, has=False))  # it is skipped, and the next hop is an own one
    assert peer.decided == 2
    peer.prepared(ballot, 3)
    peer.computed(ballot, 3, Token(2, b"again", b""))
    peer.received(1, Ready(ballot, 4))
    peer.received(1, Accepted(ballot, 4))
    assert not peer.holding
    assert peer.decided == 3  # what the other one does with it, it will tell


def test_a_journal_of_another_run_does_not_pass(tmp_path: Path) -> None:
    configs = make(tmp_path / "net", 3, {"data": {"name": "breast-cancer"}, "schedule": {"steps": 12}})
    setup = load_node(configs[0])
    with open_journal(setup) as journal:
        journal.append(Kept(Copy((0, setup.rules.path[0]), 1, Kind.ACCEPTED, setup.initial), 1))
    assert why_not_started(configs[0].parent) == ""
    # A budget makes a start look at the account, which must not hide what has changed.
    configs[0].write_text(configs[0].read_text().replace("[budget]\n", "[budget]\nepsilon = 20.0\ndelta = 1e-5\n"))
    run = configs[0].with_name("run.toml")
    run.write_text(run.read_text().replace("steps = 12", "steps = 13"))
    changed = "journal.sqlite: run.toml has changed (schedule.steps) since it began"
    assert changed in why_not_started(configs[0].parent)
    code, last = ended(configs[0])
    assert (code, last["event"]) == (3, "failed")
    assert changed in last["why"]
    with pytest.raises(InvalidInput, match=r"is not the run file of journal\.sqlite; .* began: schedule\.steps$"):
        given_away(configs[0].parent)
    run.write_text(run.read_text().replace("steps = 13", "steps = 12"))
    assert why_not_started(configs[0].parent) == ""
    roster = configs[0].with_name("roster.toml")
    roster.write_text(roster.read_text().replace("127.0.0.1", "localhost"))
    assert "journal.sqlite: roster.toml has changed since it began; put back" in why_not_started(configs[0].parent)


def test_a_journal_of_another_version_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configs = make(tmp_path / "net", 3, {"data": {"name": "breast-cancer"}, "schedule": {"steps": 12}})
    setup = load_node(configs[0])
    with open_journal(setup) as journal:
        journal.append(Kept(Copy((0, setup.rules.path[0]), 1, Kind.ACCEPTED, setup.initial), 1))
    monkeypatch.setattr("skipring.network.setup.agreed_values.__version__", "99.0")
    said = why_not_started(configs[0].parent)
    assert "journal.sqlite: the version of skipring has changed since it began" in said
    assert "run.toml" not in said


def test_without_noise_every_command_says_that_nothing_is_hidden(skipring_words: Command, tmp_path: Path) -> None:
    net = prepared(skipring_words, tmp_path, noise=0.0)
    (tmp_path / "again.toml").write_text(RUN.format(noise=0))
    words = ["network", "init", "more", "--nodes", "3", "--run", "again.toml"]
    for asked in (
        words,
        ["network", "check", "net"],
        ["network", "check", "net/node1"],
        ["network", "pack", "node1", "--dir", "net"],
    ):
        answer = skipring_words(*asked)
        assert answer.code == 0, answer
        assert NOTHING in " ".join(answer.out.split()), asked
    done = skipring_words("network", "up", "net")
    assert done.code == 0, done.err
    for told in (
        done.out,
        skipring_words("network", "status", "net").out,
        skipring_words("node", "privacy", "net/node1").out,
        (net / "node1" / "node.log").read_text(),
    ):
        assert "here is no noise (privacy.noise_multiplier = 0)" in " ".join(told.split())
    said = " ".join(skipring_words("node", "privacy", "net/node1").out.split())
    assert "Nothing is promised for one record of node node1 (replace-one) against another node" in said
    assert "there is no noise (privacy.noise_multiplier = 0). " in said
    assert "protects" not in said
    facts = skipring_words("node", "privacy", "net/node1", "--json").data
    stated = facts["guarantee"]
    assert [each["epsilon"] for each in (stated, *stated["also"])] == [float("inf")] * 4
    assert {one["epsilon"] for one in facts["observers"]} == {float("inf")}


def test_a_budget_is_kept_without_noise_too(tmp_path: Path) -> None:
    """One update would give everything away: a node with a budget makes none."""
    quiet = {"data": {"name": "breast-cancer"}, "schedule": {"steps": 12}, "privacy": {"noise_multiplier": 0.0}}
    configs = make(tmp_path / "net", 3, quiet | {"delay": {"timeout": 20.0}})
    settings = configs[1].read_text().replace("[budget]", "[budget]\nepsilon = 100.0\ndelta = 1e-5", 1)
    configs[1].write_text(settings)
    nodes = run_nodes(configs)
    assert [node.account.releases > 0 for node in nodes] == [True, False, True]
    assert given_away(configs[1].parent).guarantee.epsilon == 0.0


def test_settings_that_cannot_be_read_end_a_log_of_json_with_a_line_of_json(
    skipring_words: Command, tmp_path: Path
) -> None:
    settings = prepared(skipring_words, tmp_path) / "node2" / "node.toml"
    text = settings.read_text()
    settings.write_text(text.replace("[budget]", "[budget]\nepsilon = -1.0\ndelta = 1e-5"))
    code, said = ended(settings)
    assert (code, said["event"], said["level"], said["node"]) == (2, "failed", "error", "node2")
    assert said["why"] == f"{settings}: budget.epsilon = -1.0: must be a finite number above 0"
    told = skipring_words("node", "run", str(settings), "--log", "text")  # people read it as they read other commands
    assert (told.code, told.err.startswith(f"error: FILE {settings}: budget.epsilon = -1.0: must be")) == (2, True)
    settings.write_text(text.replace("name = ", "name "))  # no TOML: the folder says whose it is
    code, said = ended(settings)
    assert (code, said["event"], said["node"]) == (2, "failed", "node2")
    # A file that is not there is a mistake in the command, and nothing that a log is kept of.
    missing = skipring_words("node", "run", str(tmp_path / "nowhere.toml"))
    assert (missing.code, missing.err.startswith("error: FILE ")) == (2, True)
