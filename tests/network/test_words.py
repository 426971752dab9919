"""What commands of a network say: whole sentences that fit the terminal, and refusals that name what was given."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from networks import init_net, small_run
from rich.console import Console

from skipring.cli._nodes_view import Row, table_of
from skipring.cli.network_up import _why
from skipring.network.setup import make_network
from skipring.network.transport import OutcomeCertificate, Statement, parse_nodes, read_roster

Command = Callable[..., Any]
NUMBERS = ["1234", "12", "1234.5", "0.625", "12.345", "0.123"]


def shown(*rows: Row) -> str:
    console = Console(width=80)
    with console.capture() as capture:
        console.print(table_of("hop 3 of 40", rows, console))
    return capture.get()


def test_how_a_node_is_doing_stands_below_the_table_where_it_does_not_fit_beside_it() -> None:
    short = shown(Row("*", "a", NUMBERS, "ended"), Row("", "b", [""] * 6, "not running"))
    assert [line.split()[-1] for line in short.splitlines()[2:]] == ["ended", "running"]
    assert len(short.splitlines()) == 4
    word = "for 12 s: waits for an answer of long-beach; relay: connection refused x2"
    long = shown(Row("*", "long-beach", NUMBERS, "ended"), Row("", "cleveland", [""] * 6, word))
    assert "\u2026" not in long
    below = " ".join(long.split()).partition("long-beach: ended ")[2]
    assert below == f"cleveland: {word}"
    three = shown(*(Row("", name, NUMBERS, "ended") for name in ("long-beach", "cleveland", "charlie-the-third")))
    assert " ".join(three.split()).endswith(" long-beach, cleveland, charlie-the-third: ended")
    name = "n" * 63
    whole = shown(Row("", name, NUMBERS, "exit code 2"))
    assert sum(line.split()[0].count("n") for line in whole.splitlines() if line.startswith("  nn")) == 63
    assert f"{name}: exit code 2" in whole
    assert all("1234.5" in text for text in (short, long, whole))
    assert max(len(line) for text in (short, long, whole) for line in text.splitlines()) <= 80


def test_why_a_node_ended_is_told_without_its_log(tmp_path: Path) -> None:
    log = tmp_path / "node.log"
    assert _why(log) == "no log"
    for text, why in (
        ("", "no log"),
        ('{"event": "started"}\n{"event": "failed", "why": "node.key is not a key"}\n', "node.key is not a key"),
        ('{"event": "started"}\n', '{"event": "started"}'),
        ("Traceback:\nMemoryError\n", "MemoryError"),
        ("3\n", "3"),
    ):
        log.write_text(text)
        assert _why(log) == why


RUN = small_run(24, 'epsilon = 4.0\ndelta = 1e-4\nprotects = "record"').replace(
    "steps", 'name = "designed-ring"\nsteps'
)
PARAMETERS = np.arange(5.0)


@pytest.fixture
def net(skipring_words: Command, tmp_path: Path) -> Path:
    """A network of four whose order is designed, another one, a final model with two votes, and a file of rows."""
    net = init_net(skipring_words, tmp_path, RUN, "--nodes", "a,b,c,d", ports=5)
    make_network(tmp_path / "other", *parse_nodes("x,y"))
    (tmp_path / "sites").mkdir()
    (tmp_path / "sites" / "a.csv").write_text("age,ill\n50,0\n")
    np.save(net / "a" / "model.npy", PARAMETERS)
    model = hashlib.sha256(PARAMETERS.tobytes()).hexdigest()
    votes = OutcomeCertificate(Statement("00", (0, 0), 3, model, "00"), {0: b"0", 1: b"1"})
    (net / "a" / "outcome.json").write_text(votes.to_json(read_roster(net / "roster.toml")))
    return net


MODEL = "network verify net/a/model.npy"
FORM = "with brackets around an IPv6 address"


# One network serves all of them: what is refused changes nothing.
def test_what_is_refused_is_named_as_it_was_given(net: Path, skipring_words: Command) -> None:
    def files() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in net.parent.rglob("*") if path.is_file()}

    before = files()
    for words, line in {
        "network init new --nodes a=host:abc,b": f"--nodes a=host:abc: must be of the form host:port, {FORM}",
        "network init new --nodes a=host:99999,b": "--nodes a=host:99999: its port must be between 1 and 65535",
        "network init new --nodes a=,b": "--nodes a=: its host must be a host name or an IP address",
        "network init new --nodes a,b --port 65535": "--port 65535: must be at most 65534: it counts up for nodes on"
        " one host that are given without a port",
        "network init new --nodes a,b --via h:x": f"--via h:x: must be of the form HOST or HOST:PORT, {FORM}",
        "network init new --nodes a,b --via=": "--via (empty): its host must be a host name or an IP address",
        "network init new --nodes a,b --via h:99999": "--via h:99999: its port must be between 1 and 65535",
        "network init new --nodes a,b --run no.toml": "--run no.toml: does not exist; `skipring init` writes one",
        "network init new --nodes a,b --run asked-for.toml": "--nodes a,b: two nodes have one order only; use the"
        " schedule ring",
        "network init new --nodes a,b --data nodir": "--data nodir: is not a folder",
        "network init new --nodes a,b --days x": "--days x: must be a whole number",
        "network init new --nodes a,b --days=x": "--days x: must be a whole number",
        "network new-run net --add e=127.0.0.1:99999": "--add e=127.0.0.1:99999: its port must be between 1 and 65535",
        "network new-run net --add e=h:x": f"--add e=h:x: must be of the form host:port, {FORM}",
        "network new-run net --add B=h:7600": "--add B: is named twice",
        "network new-run net --add b=h:7600": "--add b: is a node of this network already",
        "network new-run net --add a_b=h:7600": "--add a_b: must be names of letters, digits and -, 63 at most, with -"
        " only inside",
        "network new-run net --remove a,b": "--remove a, b: two nodes have one order only; use the schedule ring",
        "network new-run net --remove a,b --remove d": "--remove a, b, d: leaves c; a network has at least 2 nodes",
        "network new-run net --run no.toml": "--run no.toml: does not exist; `skipring init` writes one",
        "network new-run net/a --run no.toml": "--run no.toml: does not exist; `skipring init` writes one",
        "network new-run net --data sites": "--data sites: is for those who join; say who does with --add",
        "network new-run net --days 3": "--days 3: is for those who join; say who does with --add",
        "network renew net --node nobody": "--node nobody: is not in the roster; nodes are a, b, c, d",
        "network status net/a": "DIR net/a: is the folder of one node, not of a network: skipring node status net/a",
        "network up net/a": "DIR net/a: is the folder of one node, not of a network: skipring node status net/a",
        "network stop net/a": "DIR net/a: is the folder of one node, not of a network: skipring node status net/a",
        "network verify no.npz": "MODEL no.npz: is not a file; a node writes model.npz and model.npy at the end",
        f"{MODEL} --certificate sites/a.csv": "--certificate sites/a.csv: is not the certificate of an outcome",
        f"{MODEL} --roster sites/b.toml": "--roster sites/b.toml: does not exist; `skipring network init` writes one",
        "node ledger nowhere": "FILE nowhere: does not exist",
        "node ledger sites/a.csv": "FILE sites/a.csv: is not a ledger",
        "node ledger net/a --delta x": "--delta x: must be a number",
    }.items():
        said = skipring_words(*words.split())
        assert (words, said.code, said.out, said.err) == (words, 2, "", f"error: {line}\n")
    assert files() == before


def test_votes_of_others_than_the_rosters_nodes_verify_nothing(net: Path, skipring_words: Command) -> None:
    found = skipring_words(*MODEL.split(), "--roster", "other/roster.toml")
    said = "Not verified: the roster is another run's: it does not have a, b, whose votes these are.\n"
    assert (found.code, " ".join(found.out.split()), found.err) == (1, said.strip(), "")
    assert max(map(len, found.out.splitlines())) <= 80
    assert "0 of 4 nodes have signed it" in skipring_words(*MODEL.split()).out


def test_a_node_is_known_by_its_certificate_where_its_settings_are_wrong(net: Path, skipring_words: Command) -> None:
    moved = Path(shutil.copytree(net / "a", net.parent / "moved"))
    settings = moved / "node.toml"
    settings.write_text(settings.read_text().replace("listen =", "lissten ="))
    found = skipring_words("network", "check", "moved")
    problem = "node.toml: lissten is not a key of a node's settings; did you mean listen?"
    assert (found.code, found.out.splitlines()[0]) == (1, f"a: {problem}")
    told = skipring_words("network", "check", "moved", "--json").data["checked"]
    assert [one["problems"] for one in told] == [[problem]]


def test_what_is_told_before_a_run_fits_the_terminal_and_says_what_an_epsilon_goes_with(
    net: Path, skipring_words: Command
) -> None:
    again = skipring_words("network", "new-run", "net", "--run", "asked-for.toml")
    assert "The noise is that of a run in which nobody is skipped" in " ".join(again.out.split())
    texts = [again.out, skipring_words("network", "renew", "net", "--days", "900").out]
    texts += [skipring_words("network", command, "net").out for command in ("status", "check")]
    relayed = skipring_words("network", "init", "met", "--nodes", "3", "--via", "relay.example.org", "--json").data
    assert [relayed["guarantee"][key] for key in ("relation", "method", "against")] == [
        *("replace-one", "own account", "another node"),
    ]
    texts.append(skipring_words("network", "check", "met").out)
    assert "and the relay, are as they should be" in " ".join(texts[-1].split())
    assert max(len(line) for text in texts for line in text.splitlines()) <= 80
    longer = skipring_words("network", "up", "net", "--steps", "no")
    assert longer.err == "error: --steps no: must be a whole number\n"


def test_help_has_what_is_in_brackets(skipring_words: Command) -> None:
    told = " ".join(skipring_words("node", "ledger", "--help").out.split())
    assert "node ledger [OPTIONS] [DIR|FILE] " in told
    assert 'name it ([budget] ledger = "FILE")' in told
