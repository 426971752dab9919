"""A network of real node processes under attack: its run goes on and ends, and each refusal is in a log, once."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, get_args

import numpy as np
import pytest
from networks import IDENTITY, free_ports
from raw_call import RawCall, framed
from world import fake_seals

from skipring.network.node import NodeSetup
from skipring.network.protocol import (
    Compute,
    Final,
    Hello,
    Here,
    Kind,
    Memory,
    Message,
    Offer,
    Outcome,
    Pass,
    Peer,
    PrepareBatch,
    Rules,
    SetTimer,
    StopTimer,
    Timer,
    Token,
    Told,
    Trail,
    blank_chain,
    extended_chain,
)
from skipring.network.setup import LocalNetwork, NewSettings, agreed_run, load_node, make_network, run_text
from skipring.network.transport import Heading, Keys, encode, node_uri, parse_nodes, server_name
from skipring.network.transport import certificates as x
from skipring.network.transport._calls import Allowance
from skipring.network.transport.stream import FrameKind
from skipring.runs import parse_run

#: Each attack is made so often; the log has one line about it.
TIMES = 5
#: No hop is faster than this while the attacks last, so that the run does not end before them.
SLOW = 0.2
STEPS = 400
#: How long a flood lasts at most.
FLOOD = 3.0
NOW = datetime.now(UTC)
RUN = {
    "model": {"name": "logistic"},
    "schedule": {"name": "ring", "steps": STEPS},
    "delay": {"timeout": 2.0},
    "privacy": {"noise_multiplier": 5.0},
    "network": {"lease": 1.0, "silence": 15.0},
}


def wait_for(what: str, condition: Callable[[], bool], seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"in vain: {what}"
        time.sleep(0.05)


class Attacked(NamedTuple):
    """What the attacks left: the network's folder, and how they ended for the attacker."""

    folder: Path
    ended: dict[str, set[str]]

    def log(self, node: str) -> list[dict[str, Any]]:
        """Return the lines of a node's log; all of them must be JSON."""
        return [json.loads(line) for line in (self.folder / node / "node.log").read_text().splitlines()]

    def refusals(self, node: str) -> Counter[str]:
        return Counter(line["why"] for line in self.log(node) if line["event"] == "refused")


def make(folder: Path) -> None:
    """Make a network whose nodes start quickly, and what a fourth one needs that has the third one's keys."""
    rng = np.random.default_rng(1)
    features = rng.normal(size=(60, 4))
    labels = (features.sum(axis=1) > 0.0).astype(float)
    rows = folder.parent / "rows.csv"
    np.savetxt(rows, np.column_stack([features, labels]), delimiter=",", header="a,b,c,d,outcome", comments="")
    port = free_ports(4)
    text = run_text(agreed_run(parse_run(RUN | {"data": {"path": str(rows), "label": "outcome"}}), 3, IDENTITY))
    late = NewSettings(delay=f"{SLOW}+exponential:0.001")
    make_network(folder, *parse_nodes("a,b,c", port=port), run=text.encode(), settings=late)
    other = shutil.copytree(folder / "c", folder / "other")
    settings = (other / "node.toml").read_text()
    for offset in (0, 1000):
        settings = settings.replace(str(port + 2 + offset), str(port + 3 + offset))
    (other / "node.toml").write_text(settings)
    for key, value in (("steps", "77"), ("noise_multiplier", "6.0")):
        text, found = re.subn(rf"(?m)^{key} = .*$", f"{key} = {value}", text)
        assert found == 1
    (other / "run.toml").write_text(text)


class Enemy:
    """Somebody with all keys that the test needs, who calls nodes of a running network."""

    def __init__(self, folder: Path, setup: NodeSetup, network: LocalNetwork) -> None:
        self.folder, self.setup, self.network = folder, setup, network
        self.run = setup.agreement.digest
        self.ended: dict[str, set[str]] = {}
        key = x.private_key((folder / "ca" / "ca.key").read_bytes())
        certificate = x.certificate((folder / "ca" / "ca.crt").read_bytes())
        assert key is not None
        assert certificate is not None
        self.authority = x.Authority(key, certificate)

    def port(self, node: str) -> int:
        address = self.setup.roster.addresses[self.setup.roster.index(node)]
        assert address is not None
        return address.port

    def hop(self) -> int:
        return max(0 if state.status is None else state.status.hop for state in self.network.look())

    def goes_on(self) -> None:
        """See to it that the run gets further, whatever is going on."""
        before = self.hop()
        wait_for("the run goes on", lambda: self.hop() > before + 1)

    def attack(self) -> None:
        """Do everything that follows, while the run goes on; then let it come to its end quickly."""
        with self.another_run():
            wait_for("the run begins", lambda: self.hop() > 0)
            for act in (self.strangers, self.liars, self.carriers, self.visitors, self.crowds, self.flood):
                act()
        self.goes_on()
        assert {state.starts for state in self.network.look()} == {1}
        for node in "abc":
            settings = self.folder / node / "node.toml"
            settings.write_text(re.sub(r"(?m)^law = ", "# law = ", settings.read_text()))
            os.kill(self.network.pid(node), signal.SIGKILL)
        wait_for("the run ends", lambda: bool(self.network.look()) and self.network.over)

    @contextmanager
    def another_run(self) -> Iterator[None]:
        """Have a real node beside the attacks whose run file says something else, until it has said so."""
        log = self.folder / "other" / "node.log"
        words = [sys.executable, "-m", "skipring", "node", "run", str(self.folder / "other" / "node.toml")]
        with open(log, "wb") as file, subprocess.Popen(words, stdout=file, stderr=file) as process:
            try:
                yield
                wait_for(
                    "a node with another run is refused by both",
                    lambda: all(f'"{name} has another run: ' in log.read_text() for name in "ab"),
                )
            finally:
                process.terminate()

    # Who has no right to be here.

    def issued(self, name: str, begin: timedelta, end: timedelta, authority: x.Authority | None = None) -> Keys:
        key, certificate = x.issue(
            authority or self.authority,
            name,
            (server_name(name), "127.0.0.1"),
            node_uri(name),
            NOW + begin,
            NOW + end,
        )
        folder = Path(tempfile.mkdtemp(dir=self.folder.parent))
        made = Keys(folder / "node.key", folder / "node.crt", self.folder / "ca" / "ca.crt")
        made.key.write_bytes(x.key_pem(key))
        made.certificate.write_bytes(x.certificate_pem(certificate))
        return made

    def strangers(self) -> None:
        day = timedelta(days=1)
        other = x.new_authority(NOW - day, NOW + day)
        forged = x.Authority(other.key, self.authority.certificate)
        good = Keys.read(self.folder / "b")
        for _ in range(TIMES):
            self.shake("no certificate", None)
            self.shake("other authority", self.issued("b", -day, day, other))
            self.shake("forged", self.issued("b", -day, day, forged))
            self.shake("expired", self.issued("b", -2 * day, -day))
            self.shake("not yet valid", self.issued("b", day, 2 * day))
            self.shake("TLS 1.2", good, newest=ssl.TLSVersion.TLSv1_2)
            self.plain("HTTP", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            self.plain("garbage", bytes(range(256)))
        self.shake("as it should be", good)
        another, unknown = self.issued("b", -day, day), self.issued("d", -day, day)
        for keys, what in ((another, "another key"), (unknown, "unknown name"), (Keys.read(self.folder / "a"), "self")):
            for _ in range(TIMES):
                self.talk(what, "a", keys, [self.frame(Hello((0, 0)))])

    def shake(self, what: str, keys: Keys | None, newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> None:
        """Make a TLS connection, and note whether the node has anything to say on it."""
        with ExitStack() as stack:
            held = stack.enter_context(socket.create_connection(("127.0.0.1", self.port("a")), 30.0))
            try:
                tls = stack.enter_context(
                    self.context(keys, newest).wrap_socket(held, server_hostname=server_name("a"))
                )
                tls.sendall(framed(FrameKind.PREFACE, b"{}"))
                answer = tls.recv(9)
            except OSError:
                answer = b""
        self.note(what, "heard" if answer else "refused")

    def context(self, keys: Keys | None, newest: ssl.TLSVersion) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=x.certificate_pem(self.authority.certificate).decode())
        context.maximum_version = newest
        if keys is not None:
            context.load_cert_chain(keys.certificate, keys.key)
        return context

    def plain(self, what: str, data: bytes) -> None:
        with socket.create_connection(("127.0.0.1", self.port("a")), 30.0) as held:
            held.sendall(data)
            try:
                self.note(what, "heard" if held.recv(9) else "refused")
            except ConnectionError:
                self.note(what, "refused")

    # Who is a node, and sends what no node sends.

    def frame(self, message: Message, heading: Heading | None = None, run: bytes | None = None) -> bytes:
        return encode(self.run if run is None else run, message, heading)

    def talk(
        self,
        what: str,
        to: str,
        keys: Keys,
        frames: Sequence[bytes],
        purpose: str = "talk",
        *,
        run: str | None = None,
        kind: int = FrameKind.MESSAGE,
        seconds: float = 60.0,
    ) -> None:
        """Make a call, and note how it ends; if the real node takes its place too early, make it again.

        What is carried begins with a message, which the node must want, and goes on with chunks.
        """
        deadline, code = time.monotonic() + seconds, "taken over"
        while code == "taken over" and time.monotonic() < deadline:
            context = self.context(keys, ssl.TLSVersion.TLSv1_3)
            with RawCall(self.port(to), context, server_name(to), deadline - time.monotonic()) as call:
                call.preface(purpose, self.run.hex() if run is None else run)
                if purpose == "carry":
                    call.send(framed(kind, frame) for frame in frames[:1])
                    if len(frames) > 1 and call.wait_for(FrameKind.GO_ON):
                        call.send(framed(FrameKind.CHUNK, frame) for frame in frames[1:])
                else:
                    call.send(framed(kind, frame) for frame in frames)
                code = call.finish(hang_up=purpose == "talk")
        self.note(what, code)

    def note(self, what: str, how: str) -> None:
        self.ended.setdefault(what, set()).add(how)

    def token(self, parameters: bytes | None = None, updates: int = 0, chain: bytes | None = None) -> Token:
        if chain is None:
            chain = blank_chain(STEPS, self.run)
        return Token(updates, bytes(self.setup.shape.size) if parameters is None else parameters, chain)

    def liars(self) -> None:
        """Call a with the keys of c, which goes on calling it at the same time."""
        shape, first = self.setup.shape, (0, self.setup.rules.path[0])
        inside, count = Heading(shape.dtype, shape.size), shape.size // 8
        blank = blank_chain(STEPS, self.run)
        not_mine = next(hop for hop in range(1, STEPS) if self.setup.rules.path[hop - 1] != self.setup.me)
        by_another = self.token(updates=1, chain=extended_chain(blank, first, not_mine, bytes(32)))
        good = self.frame(Offer(first, 1))

        def passed(token: Token, heading: Heading = inside) -> bytes:
            return self.frame(Pass(first, not_mine + 1, token), heading)

        lies: dict[str, bytes] = {
            "frame of another run": self.frame(Hello(first), run=bytes(32)),
            "garbage frame": b"\xff" * 50,
            "truncated frame": good[:-2],
            "empty frame": b"",
            "frame of 5 MB": bytes(5_000_000),
            "node out of range": self.frame(Hello((0, 3))),
            "hop out of range": self.frame(Offer(first, STEPS + 2)),
            "huge ballot": self.frame(Hello((2**63, 0))),
            "other numbers": passed(self.token(), Heading("<f4", shape.size)),
            "other size": passed(self.token(bytes(shape.size + 8)), Heading(shape.dtype, shape.size + 8)),
        }
        # They are well formed, so that the stream goes on; the last two were right once, and change nothing.
        tokens = [
            passed(self.token(np.full(count, np.nan).tobytes())),
            passed(self.token(np.full(count, np.inf).tobytes())),
            passed(self.token(np.full(count, 1e6).tobytes())),
            passed(by_another),
            self.frame(Final(first, self.token(chain=bytes(40))), inside),
            self.frame(Outcome(self.token(updates=2, chain=blank), first, ()), inside),
            self.frame(Outcome(self.token(), first, ()), inside),
            self.frame(Pass(first, 1, self.token()), inside),
            good,
        ]
        keys = Keys.read(self.folder / "c")
        self.talk("tokens", "a", keys, tokens * TIMES)
        for _ in range(TIMES):
            self.talk("preface of another run", "a", keys, [good], run="00" * 32)
            for what, lie in lies.items():  # by the way that the real c does not use at the same time
                self.talk(what, "a", keys, [lie], "carry")
            self.talk("garbage frame", "a", keys, [b"\xff" * 50])
            missing = passed(self.token(), Heading(shape.dtype, shape.size, bytes(32)))
            self.talk("model missing", "a", keys, [missing])
            self.talk("other purpose", "a", keys, [good], "listen")
            self.talk("other kind", "a", keys, [good], kind=99)
            self.talk("out of place", "a", keys, [good], kind=FrameKind.CHUNK)
            self.talk("no such ticket", "a", keys, [], "collect")
        self.talk("as b", "a", Keys.read(self.folder / "b"), [b"\xff" * 50])
        for _ in range(TIMES):
            self.talk("the wrong way", "c", Keys.read(self.folder / "a"), [good])
        self.goes_on()

    def carriers(self) -> None:
        """Send models in chunks that are not what their heading says."""
        shape, first = self.setup.shape, (0, self.setup.rules.path[0])
        model = bytes(shape.size)
        heading = Heading(shape.dtype, shape.size, hashlib.sha256(model).digest())
        head = self.frame(Final(first, self.token()), heading)
        inline = self.frame(Final(first, self.token(chain=bytes(33))), Heading(shape.dtype, shape.size))
        carried: dict[str, list[bytes]] = {
            "too many bytes": [head, model + b"0"],
            "too few bytes": [head, model[:-1], b""],
            "wrong checksum": [head, b"1" + model[1:]],
            "no body": [head],
            "chunk of 5 MB": [head, bytes(5_000_000)],
            "no heading": [b""],
            "no model": [self.frame(Hello(first))],
            "model in the heading": [inline],
            "not asked for": [self.frame(Pass(first, 1, self.token()), heading), model],
        }
        for _ in range(TIMES):
            for what, chunks in carried.items():
                self.talk(what, "a", Keys.read(self.folder / "c"), chunks, "carry")

    # Who just takes up room.

    def crowds(self) -> None:
        """Hold connections open without a word."""
        with ExitStack() as stack:
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
            stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
            for _ in range(1000):
                stack.enter_context(socket.create_connection(("127.0.0.1", self.port("b")), 30.0))
            context = self.context(Keys.read(self.folder / "c"), ssl.TLSVersion.TLSv1_3)
            for _ in range(200):
                held = stack.enter_context(socket.create_connection(("127.0.0.1", self.port("b")), 30.0))
                with suppress(OSError):  # a node may have had enough
                    stack.enter_context(context.wrap_socket(held, server_hostname=server_name("b")))
            self.goes_on()

    def visitors(self) -> None:
        """Bother the monitor's web server."""
        with ExitStack() as stack:
            for index, data in enumerate(
                [b"GET /metr", b"", b"\x00" * 5000, b"GET / HTTP/9.9\r\n\r\n", b"POST /status\r\n\r\n"]
            ):
                for _ in range(TIMES):
                    held = stack.enter_context(socket.create_connection(("127.0.0.1", self.port("b") + 1000), 30.0))
                    held.sendall(data)
                    if index % 2:  # hang up rudely: whoever answers gets a reset
                        held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                        held.close()
            self.goes_on()

    def flood(self) -> None:
        """Send messages as fast as possible for a while, or until the node has enough."""
        small = self.frame(Here((0, 0)))
        keys = Keys.read(self.folder / "c")
        self.talk("flood", "b", keys, [small] * 50_000, seconds=FLOOD)
        for _ in range(TIMES):
            self.talk("after the flood", "b", keys, [small])


REFUSED_BY_A = {
    "no certificate": "a caller, while connecting: has no certificate",
    "other authority": "a caller, while connecting: has a certificate of another authority",
    "expired": "a caller, while connecting: has a certificate that has expired",
    "not yet valid": "a caller, while connecting: has a certificate that is not yet valid",
    "TLS 1.2": "a caller, while connecting: does not know TLS 1.3",
    "HTTP": "a caller, while connecting: does not speak TLS",
    "as it should be": "b speaks of another run",
    "another key": r"127\.0\.0\.1: certificate = \w+: is not the one that the roster has for node b",
    "unknown name": r"127\.0\.0\.1: certificate = \w+: unknown: 'd' is no node of the roster",
    "self": r"127\.0\.0\.1 has the certificate of this very node",
    "preface of another run": "c speaks of another run",
    "garbage frame": "c: frame = 50 bytes: is no protocol buffer of this protocol",
    "empty frame": "c: frame = 0 bytes: has no message of a known kind, or no digest of a run",
    "frame of 5 MB": "c: a frame of 5000000 bytes",
    "node out of range": r"c: ballot = \(0, 3\): there are only 3 nodes",
    "hop out of range": f"c: hop = {STEPS + 2}: the run has only {STEPS} hops",
    "huge ballot": "c: number = 9223372036854775808: is too large",
    "not a number": "c: a model with numbers that are not finite",
    "too far out": r"c: a model of norm 2e\+06, and \S+ is the largest",
    "other numbers": "c: a model of other numbers than <f8",
    "other size": "c: a model of 40 bytes, not of 32",
    "model missing": "c: a model is missing",
    "updated by another": "c: passes on a token that it never had: the last update.*",
    "without an update": "c: passes on a token that it never had: it has no update yet.*",
    "short chain": "c: chain = 40 bytes: must be .*",
    "other count": "c: chain = 0 updates: the token says 2",
    "outcome without votes": "c: says that the run is over, with 0 good votes of 0",
    "too many bytes": "c: a model larger than it says",
    "too few bytes": "c: a model that breaks off",
    "wrong checksum": "c: a model that its checksum does not fit",
    "no model": "c: no model follows its heading",
    "as b": "b: frame = 50 bytes: is no protocol buffer of this protocol",
    "other purpose": "c: a call of a kind that nobody knows",
    "other kind": "c: a frame of a kind that nobody knows",
    "out of place": "c: a frame that nobody waits for",
}


@pytest.mark.early
def test_a_run_under_attack(tmp_path: Path) -> None:
    """One run for all attacks: to start its processes takes longer than the attacks."""
    folder = tmp_path / "net"
    make(folder)
    network = LocalNetwork(folder)
    network.start()
    try:
        enemy = Enemy(folder, load_node(folder / "c" / "node.toml"), network)
        enemy.attack()
    finally:
        network.stop()
    attacked = Attacked(folder, enemy.ended)
    check_the_run_ends_and_all_nodes_have_the_same_model(attacked)
    check_each_refusal_is_in_the_log_once(attacked)
    check_a_flood_is_cut_off(attacked)
    check_whoever_has_lost_its_keys_is_told(attacked)
    check_a_node_with_another_run_is_told_which_keys_differ(attacked)
    check_logs_have_lines_of_json_and_nothing_else(attacked)
    check_how_attacks_end_for_the_attacker(attacked)


def check_the_run_ends_and_all_nodes_have_the_same_model(attacked: Attacked) -> None:
    models = {(attacked.folder / node / "model.npy").read_bytes() for node in "abc"}
    assert len(models) == 1
    results = [json.loads((attacked.folder / node / "result.json").read_text()) for node in "abc"]
    assert len({(result["model"], result["updates"]) for result in results}) == 1
    assert all(result["over"] and result["hop"] == STEPS and result["own_updates"] for result in results)
    for node in "abc":
        assert [line["event"] for line in attacked.log(node)].count("over") == 1


def check_each_refusal_is_in_the_log_once(attacked: Attacked) -> None:
    found = attacked.refusals("a")
    (shown,) = [line for line in found if line.startswith("c has another run: ")]  # the real node with another run file
    del found[shown]
    for what, line in REFUSED_BY_A.items():
        fitting = {why: times for why, times in found.items() if re.fullmatch(line, why)}
        assert list(fitting.values()) == [1], (what, fitting)
    assert len(found) == len(REFUSED_BY_A), sorted(found)


def check_a_flood_is_cut_off(attacked: Attacked) -> None:
    """If it was one: on a busy machine messages may arrive no faster than they are allowed to."""
    enough = attacked.ended["flood"] == {"flood"}
    assert attacked.refusals("b")["c sends too much"] == enough
    if enough:  # for a while, the real c is not listened to either
        assert attacked.refusals("c")["b does not listen: c sends too much"] == 1
        assert attacked.ended["after the flood"] == {"flood"}


def test_how_much_a_peer_may_send(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("skipring.network.transport._calls.time", SimpleNamespace(monotonic=lambda: clock[0]))
    allowance = Allowance()
    assert all(allowance.take() for _ in range(10_000))
    assert not allowance.take()
    spent = [allowance.spent]
    for seconds in (9.0, 1.0):  # there is room for more soon, but nobody is let in for a while
        clock[0] += seconds
        spent.append(allowance.spent)
    assert spent == [True, True, False]
    for _ in range(100):  # at the highest rate, for as long as you like
        assert all(allowance.take() for _ in range(5000))
        clock[0] += 1.0


def check_whoever_has_lost_its_keys_is_told(attacked: Attacked) -> None:
    """Somebody else has called node a as b and as c: their own logs say so."""
    for node in "bc":
        assert attacked.refusals(node)["a: another process has called it with the certificate of this node"] == 1


def check_a_node_with_another_run_is_told_which_keys_differ(attacked: Attacked) -> None:
    differing = "differing: privacy.noise_multiplier, schedule.steps"
    found = attacked.refusals("other")
    assert all(found[f"{name} has another run; {differing}"] == 1 for name in "ab")
    with_values = [
        line for line in found if re.match(r"[ab] has another run: privacy\.noise_multiplier is \S+ there", line)
    ]
    assert len(with_values) == 2
    assert all(re.search(r"; schedule\.steps is \d+ there, \d+ here$", line) for line in with_values)
    assert attacked.refusals("b")["c speaks of another run"] == 1


def check_logs_have_lines_of_json_and_nothing_else(attacked: Attacked) -> None:
    for node in ("a", "b", "c", "other"):
        events = {line["event"] for line in attacked.log(node)}
        assert events <= {"started", "note", "refused", "protocol", "over", "stopped", "waiting", "standstill"}


def check_how_attacks_end_for_the_attacker(attacked: Attacked) -> None:
    """The same way each time."""
    ended = {what: next(iter(how)) for what, how in attacked.ended.items()}
    assert {what: len(how) for what, how in attacked.ended.items()} == dict.fromkeys(ended, 1)
    by_tls = ("no certificate", "other authority", "forged", "expired", "not yet valid", "TLS 1.2", "HTTP", "garbage")
    assert {ended[what] for what in by_tls} == {"refused"}
    assert ended["as it should be"] == "heard"
    assert ended["another key"] == ended["unknown name"] == "stranger"
    assert ended["self"] == ended["the wrong way"] == "unwelcome"
    assert ended["frame of another run"] == ended["preface of another run"] == "other run"
    assert ended["truncated frame"] == ended["chunk of 5 MB"] == ended["no heading"] == "malformed"
    assert ended["other purpose"] == ended["other kind"] == ended["out of place"] == "malformed"
    assert ended["wrong checksum"] == "damaged"
    assert ended["not asked for"] == ended["no such ticket"] == "not wanted"
    assert {what for what, how in ended.items() if how == "OK"} == {"tokens", "no body"}


def test_whatever_a_node_says_the_others_go_on() -> None:
    """The state machine takes any message in any state, also those that make no sense; what is lost is time."""
    path = [hop % 3 for hop in range(12)]
    for seed in range(1500):
        chance = random.Random(seed)
        me = seed % 3
        blank = Memory.blank(path[0], Token(0, b"", blank_chain(12, b"run")))
        peer = Peer(me, Rules(3, path, 1.0, short=0), blank, fake_seals(3)[me])
        timers: set[Timer] = set()
        todo: list[Compute | PrepareBatch] = []
        actions = peer.begin()
        for _ in range(40):
            for action in actions:
                if isinstance(action, SetTimer):
                    timers.add(action.name)
                elif isinstance(action, StopTimer):
                    timers.discard(action.name)
                elif isinstance(action, Compute | PrepareBatch):
                    todo.append(action)
            if timers and chance.random() < 0.2:
                actions = peer.expired(chance.choice(sorted(timers)))
            elif todo and chance.random() < 0.5:
                made = todo.pop()
                place = made.ballot, made.hop
                batch = isinstance(made, PrepareBatch)
                actions = peer.prepared(*place) if batch else peer.computed(*place, blank.copy.token)
            else:
                actions = peer.received((me + chance.randint(1, 2)) % 3, any_message(chance))
        assert peer.memory.promised >= (0, 0)


def any_message(chance: random.Random) -> Message:
    """Return a message that can arrive: with numbers that `decode` lets through, and no more sense than that."""
    ballot = chance.choice([0, 0, 0, 1, 2, 2**63 - 1]), chance.randrange(3)
    hop = chance.randrange(14)
    parts: dict[str, Any] = {
        "ballot": ballot,
        "promised": ballot,
        "hop": hop,
        "asked": chance.random() < 0.5,
        "has": chance.random() < 0.5,
        "rank": ((chance.randrange(3), chance.randrange(3)), hop, Kind(chance.randrange(4))),
        "token": Token(chance.randrange(3), b"", chance.choice([b"", blank_chain(12, b"run")])),
        "vote": chance.randbytes(3),
        "signature": chance.randbytes(3),
        "votes": tuple((node, chance.randbytes(3)) for node in range(chance.randrange(4))),
        "promises": tuple((node, chance.randbytes(3)) for node in range(chance.randrange(4))),
        "wishes": chance.choice(
            [
                (),
                tuple((node, chance.randbytes(3)) for node in range(chance.randrange(4))),
                tuple((node, fake_seals(3)[node].wish()) for node in range(3) if chance.random() < 0.7),
            ]
        ),
        "one": Trail(chance.choice([blank_chain(12, b"run"), blank_chain(12, b"other")]), ((1, chance.randbytes(60)),)),
        "other": Trail(blank_chain(12, b"run"), ()),
        "places": chance.choice([b"", chance.randbytes(9), zlib.compress(chance.randbytes(40)), Told().places]),
        "turns": bytes(chance.randrange(256) for _ in range(chance.randrange(100))),
        "known": chance.choice([b"", chance.randbytes(40)]),
        "since": chance.randrange(4),
        "heard": chance.choice([b"", bytes(chance.randrange(256) for _ in range(4 * 3))]),
    }
    kind = chance.choice(get_args(Message))
    made: Message = kind(**{name: parts[name] for name in kind.__dataclass_fields__})
    return made
