"""How nodes reach each other: what is said of a connection that fails, and large models that cross each other."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from skipring.errors import InvalidInput
from skipring.network.protocol import Final, Message, Outcome, Token
from skipring.network.setup import make_network
from skipring.network.storage import digest_of
from skipring.network.transport import Agreement, Keys, Roster, Shape, Transport, link, parse_nodes, read_roster
from skipring.network.transport import connections as transport
from skipring.network.transport._native_log import reason_in

AGREEMENT = Agreement({"schedule.steps": 8, "simulation.seed": 1})


class Listener:
    """Whoever is told what arrives, and remembers it."""

    def __init__(self) -> None:
        self.got: list[Message] = []
        self.said: list[str] = []

    def received(self, sender: int, message: Message) -> None:
        self.got.append(message)

    def wants(self, sender: int, message: Message) -> str:
        return ""

    def done(self, sender: int) -> None: ...

    def connected(self, node: int) -> None: ...

    def say(self, event: str, **facts: object) -> None:
        self.said.append(f"{event} {facts}" if facts.keys() - {"why"} else str(facts["why"]))


def made(folder: Path, roster: Roster, me: int, *, size: int = 8) -> tuple[Transport, Listener]:
    listener = Listener()
    keys = Keys.read(folder / roster.names[me])
    listen, models = str(roster.addresses[me]), folder / roster.names[me]
    shape = Shape("<f8", size)
    return Transport(
        me, roster, keys, listen=listen, agreement=AGREEMENT, shape=shape, steps=8, models=models, receiver=listener
    ), listener


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("transport") / "net"
    make_network(folder, *parse_nodes("a,node-2,3"))
    return folder


@pytest.fixture
def quiet(net: Path) -> tuple[Transport, Listener]:
    """A node that nobody has connected to."""
    return made(net, read_roster(net / "roster.toml"), 0)


# What a link knows of a large model.


def test_a_large_model_of_which_nothing_leaves_does_not_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is still on its way, for the receiver may be at work; but nobody should wait for it for ever."""
    monkeypatch.setattr(link, "_STALLED", 0.2)

    async def story() -> None:
        free = asyncio.Event()

        def stream_unary(_: str) -> Any:
            async def call(parts: Any, metadata: Any) -> None:
                await anext(parts)
                await free.wait()
                async for _ in parts:
                    free.clear()
                    await free.wait()

            return call

        failure = type("Failure", (Exception,), {})
        caller: Any = SimpleNamespace(
            grpc=SimpleNamespace(aio=SimpleNamespace(AioRpcError=failure)),
            frame=lambda message: (b"heading", iter([b"chunk"])),
            metadata=lambda node: (),
        )
        one = link.Link(caller, 1)
        one._channel, one.connected = SimpleNamespace(stream_unary=stream_unary), True

        def seen() -> tuple[bool, bool]:
            return one.carries, one.moves

        assert seen() == (False, False)
        one.send(Final((0, 0), Token(0, b"", b"")))
        await asyncio.sleep(0.02)
        assert seen() == (True, True)
        await asyncio.sleep(0.3)
        assert seen() == (True, False)
        free.set()
        await asyncio.sleep(0.02)
        assert seen() == (True, True)  # the next chunk has left
        free.set()
        await asyncio.sleep(0.02)
        assert seen() == (False, False)

    asyncio.run(story())


# What is said.


def test_the_same_refusal_is_said_once_whatever_its_numbers(quiet: tuple[Transport, Listener]) -> None:
    node, listener = quiet
    for number in range(50):
        for name in ("a", "node-2", "node-3", "3", "4"):
            node.say_once("refused", f"{name}: frame = {number} bytes: is no frame")
            node.say_once("refused", f"{name}: a model of norm {number / 7:.3g}e+{number}, and 5 is the largest")
            node.say_once("refused", f"{name}: ballot = ({number}, 7): there are only 3 nodes")
    assert len(listener.said) == 5 * 3
    assert listener.said[0] == "a: frame = 0 bytes: is no frame"


def test_after_a_while_it_is_said_again_with_how_often_it_was(
    quiet: tuple[Transport, Listener], monkeypatch: pytest.MonkeyPatch
) -> None:
    node, listener = quiet
    clock = [1000.0]
    monkeypatch.setattr(transport, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    for _ in range(5):
        node.say_once("refused", "a: garbage")
    clock[0] += 601.0
    node.say_once("refused", "a: garbage")
    assert listener.said == ["a: garbage", "refused {'why': 'a: garbage', 'before': 5}"]


def test_what_others_write_cannot_forge_lines(quiet: tuple[Transport, Listener]) -> None:
    node, listener = quiet
    node.failed(1, Failed("INVALID_ARGUMENT", "\n2026-01-01 over model=evil\r\x1b[2J\u2028" + "x" * 10_000))
    assert len(listener.said) == 1
    assert listener.said[0].isprintable()
    assert len(listener.said[0]) <= 500


def test_many_threads_may_say_something(quiet: tuple[Transport, Listener]) -> None:
    node, listener = quiet

    def say() -> None:
        for number in range(3000):
            node.say_once("refused", f"kind{number % 1500}")

    threads = [threading.Thread(target=say) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {f"kind{number}" for number in range(1500)} == set(listener.said)


# What a node that was refused makes of it.


class Failed:
    """The end of a call, as gRPC tells it."""

    def __init__(self, code: str, details: str = "", marks: bytes | None = None) -> None:
        self._code, self._details = code, details
        self._trailing = () if marks is None else (("skipring-marks-bin", marks),)

    def code(self) -> Any:
        return SimpleNamespace(name=self._code)

    def details(self) -> str:
        return self._details

    def trailing_metadata(self) -> Any:
        return self._trailing


OTHER = json.dumps(Agreement({"schedule.steps": 9, "simulation.seed": 1}).marks).encode()
EVIL = json.dumps({"evil": "1" * 16}).encode()
#: What may stand where the marks of another run are expected.
NO_MARKS = [b"", b"{", b"\xff", b"5", b"null", b'"text"', b"[[1]]", b"[" * 8000, b'{"a":' * 1500, b"1" * 5000]
NO_MARKS += [b'{"schedule.steps": {"a": []}}', b"[" + b"1," * 3000 + b"1]"]


@pytest.mark.parametrize(
    ("failed", "line"),
    [
        (Failed("FAILED_PRECONDITION", marks=OTHER), "node-2 has another run; differing: schedule.steps"),
        (Failed("FAILED_PRECONDITION", marks=EVIL), "differing: schedule.steps, simulation.seed"),
        *((Failed("FAILED_PRECONDITION", marks=marks), "node-2 has another run") for marks in NO_MARKS),
        (Failed("FAILED_PRECONDITION"), "node-2 has another run"),
        (Failed("UNAUTHENTICATED", "who are you?"), "node-2 does not listen: who are you?"),
        (Failed("ALREADY_EXISTS"), "node-2: somebody else has called it with the certificate of this node"),
        (Failed("UNAVAILABLE", "ipv4:127.0.0.1:1: Hostname Verification Check failed."), ":7601 is not it"),
        (Failed("UNAVAILABLE", "Tls handshake failed (TSI_PROTOCOL_FAILURE): SSL_ERROR_SSL"), ":7601 is not it"),
        (Failed("UNAVAILABLE", "last error: UNAVAILABLE: ipv4:127.0.0.1:1: Socket closed"), "node-2 hangs up"),
    ],
)
def test_why_a_node_was_refused(quiet: tuple[Transport, Listener], failed: Failed, line: str) -> None:
    node, listener = quiet
    for _ in range(3):
        node.failed(1, failed)
    assert len(listener.said) == 1
    assert line in listener.said[0]
    assert "evil" not in listener.said[0]


def test_being_away_is_no_refusal(quiet: tuple[Transport, Listener]) -> None:
    node, listener = quiet
    for failed in (
        Failed("UNAVAILABLE", "failed to connect to all addresses: Connection refused"),
        Failed("CANCELLED"),
        Failed("ABORTED", "not asked for"),
        Failed("UNKNOWN", "Stream removed"),
    ):
        node.failed(1, failed)
    assert listener.said == []


# Keys.


@pytest.mark.parametrize("spoil", ["another", "garbage", "authority"])
def test_keys_that_do_not_fit_together(net: Path, tmp_path: Path, spoil: str) -> None:
    folder = Path(shutil.copytree(net / "a", tmp_path / "a"))
    assert Keys.read(folder).key.startswith(b"-----BEGIN PRIVATE KEY")
    if spoil == "another":
        shutil.copy(net / "3" / "node.key", folder / "node.key")
    else:
        (folder / {"garbage": "node.key", "authority": "ca.crt"}[spoil]).write_bytes(os.urandom(100))
    with pytest.raises(InvalidInput, match="do not fit together"):
        Keys.read(folder)


def test_keys_that_are_not_there(net: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(net / "a", tmp_path / "a"))
    (folder / "ca.crt").unlink()
    with pytest.raises(InvalidInput, match="cannot be read: No such file"):
        Keys.read(folder)


# What gRPC prints.


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("PEER_DID_NOT_RETURN_A_CERTIFICATE: Invalid certificate verification context", "has no certificate"),
        ("CERTIFICATE_VERIFY_FAILED: certificate has expired", "has a certificate that has expired"),
        ("CERTIFICATE_VERIFY_FAILED: self-signed certificate in chain", "self-signed certificate in chain"),
        ("CERTIFICATE_VERIFY_FAILED", "certificate verify failed"),
        ("SOMETHING_NEW_42: Invalid certificate verification context", "something new 42"),
    ],
)
def test_reasons_in_grpcs_own_words(words: str, reason: str) -> None:
    line = "I1115 17:39:22.271264   11253 ssl_transport_security.cc:2563] Handshake failed with error SSL_ERROR_SSL: "
    assert reason_in(f"{line}error:1000007d:SSL routines:OPENSSL_internal:{words}") == reason
    assert reason_in(f"{line}something else altogether") == "something else altogether"
    assert reason_in(line.replace("Handshake failed", "Handshake done")) is None


WATCHED = """
import os, sys
from skipring.network.transport import watch_native_log
def refused(why):
    os.write(real, f"refused {why}\\n".encode())
    raise RuntimeError("even then the reader goes on")
real = watch_native_log(refused)
stamp = "1115 17:39:22.271264   11253"
shake = "ssl_transport_security.cc:1] Handshake failed with error SSL_ERROR_SSL: error:1:OPENSSL_internal:HTTP_REQUEST"
for _ in range(300):
    os.write(2, f"I{stamp} {shake}\\n".encode())
    os.write(2, f"W{stamp} log.cc:102] chatter {'x' * 1000}\\n".encode())
os.write(2, f"E{stamp} call.cc:358] Something is wrong\\n".encode())
os.write(2, f"E{stamp} add_port.cc:83] said elsewhere\\n".encode())
os.write(2, b"y" * 200_000 + b"\\n")
print("last words", file=sys.stderr)
1 / 0
"""


def test_what_is_printed_gets_out_to_the_last_word() -> None:
    for _ in range(3):  # it is a matter of timing
        found = subprocess.run([sys.executable, "-c", WATCHED], capture_output=True, text=True, check=False)
        lines = found.stderr.splitlines()
        assert lines[:300] == ["refused somebody, while connecting: does not speak TLS"] * 300
        assert lines[300:303] == ["refused gRPC: Something is wrong", "y" * 200_000, "last words"]
        assert lines[303].startswith("Traceback")
        assert lines[-1] == "ZeroDivisionError: division by zero"
        assert found.returncode == 1


# Two nodes, or one and an impostor, in a process of their own: gRPC's asyncio is made for one event loop per process.


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60.0):
        while not condition():
            await asyncio.sleep(0.02)


async def two_models_at_once(folder: Path) -> object:
    """Send two large models to a node before the first one is there."""
    roster, size = read_roster(folder / "roster.toml"), 6 << 20
    (one, heard), (other, got) = (made(folder, roster, node, size=size) for node in range(2))
    await one.start()
    await other.start()
    await until(lambda: 1 in one.reachable)
    token = Token(0, os.urandom(size), bytes(33))
    one.send(1, Final((0, 0), token))
    one.send(1, Outcome(token, (0, 0), ()))
    one.send(1, Outcome(token, (0, 0), ()))  # on its way already
    await until(lambda: len(got.got) == 2)
    await one.stop()
    await other.stop()
    models = [message.token.parameters for message in got.got if isinstance(message, Final | Outcome)]
    return (
        [type(message).__name__ for message in got.got],
        len({digest_of(model) for model in models}),
        heard.said + got.said,
    )


async def impostors(folder: Path) -> object:
    """Connect to two addresses at which somebody else answers: another authority's node, and the wrong one."""
    link._AWAY = 0.3
    roster = read_roster(folder / "roster.toml")
    for address, keys in zip(
        roster.addresses[1:], (folder.parent / "other" / "node-2", folder / "node-2"), strict=True
    ):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(keys / "node.crt", keys / "node.key")
        context.set_alpn_protocols(["h2"])

        async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        await asyncio.start_server(hang_up, address.host, address.port, ssl=context)
    node, heard = made(folder, roster, 0)
    await node.start()
    await until(lambda: len(heard.said) == 2)
    await asyncio.sleep(1.0)  # nothing more comes
    await node.stop()
    return sorted(heard.said)


def in_another_process(scenario: str, folder: Path) -> Any:
    words = [sys.executable, __file__, scenario, str(folder)]
    found = subprocess.run(words, stdout=subprocess.PIPE, check=True, timeout=120.0)
    return json.loads(found.stdout)


def made_at_free_ports(folder: Path) -> list[str]:
    """Make a network at ports that nobody uses, and that no outgoing connection is given either."""
    ports: list[int] = []
    for port in itertools.count(12_000 + os.getpid() % 8_000):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            ports.append(port)
        if len(ports) == 3:
            break
    names = ",".join(f"{name}=127.0.0.1:{port}" for name, port in zip(("a", "node-2", "3"), ports, strict=True))
    roster = make_network(folder, *parse_nodes(names))
    return [str(address) for address in roster.addresses]


def test_a_node_sends_one_large_model_after_the_other(tmp_path: Path) -> None:
    made_at_free_ports(tmp_path / "net")
    assert in_another_process("two_models_at_once", tmp_path / "net") == [["Final", "Outcome"], 1, []]


def test_whoever_answers_must_be_the_node_that_was_called(tmp_path: Path) -> None:
    addresses = made_at_free_ports(tmp_path / "net")
    make_network(tmp_path / "other", *parse_nodes("a,node-2"))
    assert in_another_process("impostors", tmp_path / "net") == [
        f"3: whoever answers at {addresses[2]} is not it",
        f"node-2: whoever answers at {addresses[1]} is not it",
    ]


if __name__ == "__main__":
    scenario: Callable[[Path], Any] = globals()[sys.argv[1]]
    print(json.dumps(asyncio.run(scenario(Path(sys.argv[2])))))
