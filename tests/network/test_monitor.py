"""What a node shows on its own machine: Prometheus can read it, and nobody else's machine can."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import os
import re
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from http.client import HTTPConnection
from typing import Any, NamedTuple

import pytest

from skipring._json import from_json, to_json
from skipring.errors import InvalidInput
from skipring.network.node import Monitor, NodeStatus, metrics_text

KNOWN: dict[str, Any] = {
    "protects": "record",
    "whose": "node 2",
    "against": "another node",
    "sees": "which sees the token when it is its turn",
    "method": "own account",
    "delta": 1e-5,
    "epsilon": 1.25,
    "not_covered": "classes are read off all nodes' labels (model.classes), which no epsilon covers",
    "assumptions": [],
    "stated_by": "",
    "also": [],
    "relation": "replace-one",
}
TOLD: dict[str, Any] = {
    "name": "clinic-3",
    "run": "2026-03-01-000102030405060708090a0b",
    "nodes": 3,
    "steps": 400,
    "hop": 17,
    "holding": True,
    "over": False,
    "model": None,
    "ballot": [2, 1],
    "updates": 15,
    "own_updates": 5,
    "turns": [6, 6, 5],
    "updates_by_node": [5, 5, 5],
    "guarantee": KNOWN | {"also": [KNOWN | {"against": "all others", "epsilon": math.inf}]},
    "budget": None,
    "refused": 0,
    "refused_for_budget": 0,
    "late": 2,
    "declined": 3,
    "cut": 4,
    "prepare_time": 0.25,
    "test_error": 0.125,
    "timeout": 0.5,
    "hop_time": None,
    "overhead": None,
    "carry_rate": None,
    "pass_rate": None,
    "recoveries": 1,
    "reachable": 2,
    "broken_rules": [],
    "peak_memory": 4096,
    "running_for": 3.5,
    "finishing": ["clinic-1"],
    "majority": 2,
    "expires_in": 86400.5,
    "stands_still": 0.0,
}
STATUS = from_json(NodeStatus, TOLD)


class Sample(NamedTuple):
    """One number that Prometheus would store."""

    name: str
    labels: dict[str, str]
    value: float


def parsed(text: str) -> dict[str, tuple[str, list[Sample]]]:
    """Read the text format of Prometheus as its documentation has it, and nothing that is merely similar.

    Each family has its help, its type and its samples, in this order and in one piece.
    """
    assert text.endswith("\n")
    families: dict[str, tuple[str, list[Sample]]] = {}
    expected, name = "HELP", ""
    for line in text.removesuffix("\n").split("\n"):
        if expected == "TYPE":
            found = re.fullmatch(r"# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge)", line)
            assert found, line
            assert found[1] == name
            families[name] = found[2], []
            expected = "sample"
        elif expected == "HELP" or line.startswith("#"):
            found = re.fullmatch(r"# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)", line)
            assert found, line
            name = found[1]
            assert name not in families
            assert "\\" not in found[2]  # else it would have to be escaped
            expected = "TYPE"
        else:
            sample = parsed_sample(line)
            assert sample.name == name
            families[name][1].append(sample)
    assert expected == "sample"
    assert all(samples for _, samples in families.values())
    return families


def parsed_sample(line: str) -> Sample:
    label = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
    number = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|\+Inf|-Inf|NaN"
    found = re.fullmatch(rf"([a-zA-Z_:][a-zA-Z0-9_:]*)\{{({label}(?:,{label})*)?\}} ({number})", line)
    assert found, line
    labels = dict(part.split("=", 1) for part in re.findall(label, found[2] or ""))
    return Sample(found[1], {key: text[1:-1] for key, text in labels.items()}, float(found[3]))


def test_a_tunnel_to_a_relay_is_shown_only_where_there_is_one() -> None:
    def shown(relay: str | None) -> list[float]:
        found = parsed(metrics_text(dataclasses.replace(STATUS, relay=relay))).get("skipring_relay_open")
        return [] if found is None else [sample.value for sample in found[1]]

    assert shown(None) == []
    assert shown("open") == [1.0]
    assert shown("Permission denied (publickey).") == [0.0]


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "a 1",
        "# HELP a A.\na 1\n",
        "# HELP a A.\n# TYPE a gauge\n",
        "# HELP a A.\n# TYPE b gauge\nb{} 1\n",
        "# HELP a A.\n# TYPE a gauge\na{} inf\n",
        "# HELP a A.\n# TYPE a gauge\na{} 1\n\n",
        '# HELP a A.\n# TYPE a gauge\na{x="1} 1\n',
    ],
)
def test_the_parser_is_strict(bad: str) -> None:
    with pytest.raises(AssertionError):
        parsed(bad)


def test_prometheus_can_read_the_metrics() -> None:
    families = parsed(metrics_text(STATUS))
    values = {}
    for name, (kind, samples) in families.items():
        assert name.startswith("skipring_")
        assert (kind == "counter") == name.endswith("_total")
        assert [sample.labels for sample in samples] == [{"node": "clinic-3"}]
        values[name.removeprefix("skipring_")] = samples[0].value
    assert values == {
        "hop": 17,
        "steps": 400,
        "holding": 1,
        "over": 0,
        "ballot": 2,
        "token_updates": 15,
        "own_updates_total": 5,
        "refused_for_budget_total": 0,
        "late_turns_total": 2,
        "declined_turns_total": 3,
        "cut_updates_total": 4,
        "prepare_seconds": 0.25,
        "refused_offers_total": 0,
        "recoveries_total": 1,
        "epsilon": 1.25,
        "epsilon_releases": math.inf,
        "test_error": 0.125,
        "timeout_seconds": 0.5,
        "reachable_nodes": 2,
        "certificate_expires_seconds": 86400.5,
        "standstill_seconds": 0.0,
        "peak_memory_bytes": 4096,
        "running_seconds": 3.5,
    }


def test_every_epsilon_says_what_it_hides_and_how() -> None:
    text = metrics_text(dataclasses.replace(STATUS, budget=2.0))
    helps = dict(re.findall(r"^# HELP (skipring_epsilon\w*) (.*)$", text, re.MULTILINE))
    assert len(helps) == 3
    said = "protects one record (replace-one) at delta 1e-05 against another node (method own account)"
    assert all(said in words for words in helps.values())


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 1e-300, -2.5e30, 0, 10**20, True])
def test_all_numbers_can_be_read(value: float) -> None:
    found = parsed(metrics_text(dataclasses.replace(STATUS, timeout=value)))["skipring_timeout_seconds"][1][0].value
    assert found == float(value) or (math.isnan(found) and math.isnan(value))


def test_a_status_is_read_as_it_was_written() -> None:
    assert to_json(STATUS) == TOLD
    assert list(to_json(STATUS)) == list(TOLD)
    assert STATUS.ballot == (2, 1)
    later: dict[str, Any] = {"refused_for_budget": 0, "late": 0, "declined": 0, "cut": 0, "prepare_time": None}
    later |= {"finishing": (), "majority": 0, "expires_in": None}
    assert STATUS.asked_to_finish == "1 of 2 needed have asked to finish: clinic-1"
    before = {key: value for key, value in TOLD.items() if key not in later}
    assert from_json(NodeStatus, before | {"new": 1}) == dataclasses.replace(STATUS, **later)
    for wrong, words in (
        ({"hop": "17"}, 'status.hop = "17": must be a whole number'),
        ({"holding": 1}, "status.holding = 1: must be true or false"),
        ({"ballot": [1]}, r"status.ballot = \[1\]: must be a list of 2"),
        ({"turns": [1, 2.5, 3]}, r"status.turns\[1\] = 2.5: must be a whole number"),
        ({"name": None}, "status.name = null: must be a text"),
    ):
        with pytest.raises(InvalidInput, match=words):
            from_json(NodeStatus, TOLD | wrong, "status")


@pytest.fixture
def port() -> int:
    """A port that nobody uses, and that no outgoing connection is given either."""
    for number in itertools.count(12_000 + os.getpid() % 8_000):
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", number))
            return number
    raise AssertionError


@pytest.fixture
def monitor(port: int) -> Iterator[Monitor]:
    made = Monitor(f"127.0.0.1:{port}", lambda: STATUS)
    yield made
    made.close()


def ask(port: int, path: str, method: str = "GET", host: str | None = None) -> tuple[int, str, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=60.0)
    try:
        connection.request(method, path, headers={} if host is None else {"Host": host})
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read().decode()
    finally:
        connection.close()


@pytest.mark.usefixtures("monitor")
def test_what_can_be_asked(port: int) -> None:
    assert ask(port, "/health") == (200, "text/plain; charset=utf-8", "ok\n")
    code, kind, text = ask(port, "/metrics")
    assert (code, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert text == metrics_text(STATUS)
    code, kind, text = ask(port, "/status")
    assert (code, kind) == (200, "application/json")
    assert json.loads(text, parse_constant=pytest.fail) == TOLD  # JSON has no word for infinity, but a number


@pytest.mark.usefixtures("monitor")
def test_what_cannot(port: int) -> None:
    for path in ("/", "/metrics/", "/status?x", "/../status", "/health%00", "*"):
        assert ask(port, path)[0] == 404
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "HEAD"):
        assert ask(port, "/status", method)[0] == 501


@pytest.mark.usefixtures("monitor")
def test_a_web_site_cannot_have_its_visitors_read_it(port: int) -> None:
    """Its name may lead to 127.0.0.1; but browsers say which name they were given."""
    for host in (
        "evil.example",
        "127.0.0.1.evil.example",
        f"evil.example:{port}",
        "localhost.evil.example:80",
        "[::2]:1",
    ):
        assert {ask(port, path, host=host)[0] for path in ("/status", "/metrics", "/health", "/")} == {403}
    for host in ("localhost", f"localhost:{port}", "127.0.0.1", f"127.0.0.1:{port}", "[::1]", f"[::1]:{port}"):
        assert ask(port, "/status", host=host)[0] == 200


@pytest.mark.parametrize("address", ["0.0.0.0:8600", "192.168.1.5:8600", "clinic.example:8600", "[2001:db8::1]:8600"])
def test_only_this_machine_is_listened_to(address: str) -> None:
    with pytest.raises(InvalidInput):
        Monitor(address, lambda: STATUS)


def test_the_other_kind_of_loopback_address(port: int) -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", port))
    except OSError:
        pytest.skip("this machine has no IPv6")
    made = Monitor(f"[::1]:{port}", lambda: STATUS)
    try:
        with socket.create_connection(("::1", port), 60.0) as held:
            held.sendall(b"GET /health HTTP/1.0\r\n\r\n")
            assert b"200 OK" in held.recv(1000)
    finally:
        made.close()


def test_a_port_that_is_in_use(port: int, monitor: Monitor) -> None:
    with pytest.raises(InvalidInput, match="cannot be listened on"):
        Monitor(f"127.0.0.1:{port}", lambda: STATUS)
    monitor.close()
    Monitor(f"127.0.0.1:{port}", lambda: STATUS).close()


@pytest.mark.usefixtures("monitor")
def test_rude_clients_disturb_nobody(port: int, capfd: pytest.CaptureFixture[str]) -> None:
    with ExitStack() as stack:
        for data in (
            b"",
            b"GET /metr",
            b"\x00" * 1000,
            b"GET / HTTP/9.9\r\n\r\n",
            b"GET " + b"x" * 70_000,
            b"\r\n\r\n",
        ):
            for rude in (False, True):
                held = stack.enter_context(socket.create_connection(("127.0.0.1", port), 60.0))
                held.sendall(data)
                if rude:  # whoever answers gets a reset
                    held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    held.close()
        assert ask(port, "/health")[0] == 200
    assert capfd.readouterr() == ("", "")


def test_a_node_that_cannot_answer(port: int, capfd: pytest.CaptureFixture[str]) -> None:
    """The connection is closed; nothing is printed, and the next one may be luckier."""
    asked: list[str] = []

    def status() -> NodeStatus:
        asked.append("once more")
        if len(asked) == 1:
            raise TimeoutError("busy")
        return STATUS

    made = Monitor(f"127.0.0.1:{port}", status)
    try:
        with pytest.raises(ConnectionError):
            ask(port, "/status")
        assert ask(port, "/status")[0] == 200
    finally:
        made.close()
    assert capfd.readouterr() == ("", "")
