"""How nodes reach each other: what is said of a connection that fails, and large models that cross each other."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from networks import free_ports

from skipring.errors import InvalidInput
from skipring.network.protocol import Final, Hello, Here, Message, Outcome, Token
from skipring.network.setup import make_network
from skipring.network.storage import ModelWriter, digest_of
from skipring.network.transport import (
    Address,
    Agreement,
    Keys,
    Roster,
    RunShape,
    Transport,
    connections,
    link,
    node_uri,
    parse_nodes,
    read_roster,
    refusals,
    server_name,
)
from skipring.network.transport import certificates as x
from skipring.network.transport.stream import Closed, Refusal, Refused

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
    listen = None if roster.addresses[me] is None else str(roster.addresses[me])
    models = folder / roster.names[me]
    shape = RunShape("<f8", size, steps=8)
    return Transport(
        me, roster, keys, listen=listen, agreement=AGREEMENT, shape=shape, models=models, receiver=listener
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


def test_a_large_model_of_which_nothing_leaves_does_not_move(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is still on its way, for the receiver may be at work; but nobody should wait for it for ever."""
    monkeypatch.setattr(link, "_STALLED", 0.2)

    async def story() -> None:
        (one, _), (other, _) = await two_nodes(net, size=32 << 20)
        stalled = threading.Event()
        monkeypatch.setattr(ModelWriter, "write", lambda *_: stalled.wait())
        assert (one.carries_to(1), one.moves_to(1)) == (False, False)
        one.send(1, Final((0, 0), Token(0, bytes(32 << 20), b"")))
        await until(lambda: one.carries_to(1) and not one.moves_to(1))  # what fits in between has left
        stalled.set()
        await until(lambda: not one.carries_to(1))
        await stop(one, other)

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
    monkeypatch.setattr(refusals, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    for _ in range(5):
        node.say_once("refused", "a: garbage")
    clock[0] += 601.0
    node.say_once("refused", "a: garbage")
    assert listener.said == ["a: garbage", "refused {'why': 'a: garbage', 'before': 5}"]


def test_what_others_write_cannot_forge_lines(quiet: tuple[Transport, Listener]) -> None:
    node, listener = quiet
    node.failed(1, Refused(Refusal.MALFORMED, "\n2026-01-01 over model=evil\r\x1b[2J\u2028" + "x" * 10_000))
    assert len(listener.said) == 1
    assert listener.said[0].isprintable()
    assert len(listener.said[0]) <= 500


# What a node that was refused makes of it.

OTHER = Agreement({"schedule.steps": 9, "simulation.seed": 1}).marks
#: What may stand where the marks of another run are expected.
NO_MARKS: list[object] = [None, 5, "text", [[1]], {"schedule.steps": {"a": []}}, {"a": {"b": {}}}, [1] * 3000]


def other_run(marks: object, shows: object = None) -> Refused:
    return Refused(Refusal.OTHER_RUN, "", {"marks": marks, "shows": shows})


def tls_error(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}]")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("failed", "line"),
    [
        (other_run(OTHER), "node-2 has another run; differing: schedule.steps"),
        (other_run({"evil": "1" * 16}), "differing: schedule.steps, simulation.seed"),
        *((other_run(marks), "node-2 has another run") for marks in NO_MARKS),
        *((other_run(OTHER, marks), "node-2 has another run") for marks in NO_MARKS),
        (other_run(OTHER, {"schedule.steps": "9"}), "node-2 has another run: schedule.steps is 9 there, 8 here"),
        (Refused(Refusal.STRANGER, "who are you?"), "node-2 does not listen: who are you?"),
        (Refused(Refusal.TAKEN_OVER, ""), "node-2: another process has called it with the certificate of this node"),
        (ssl.SSLCertVerificationError("Hostname mismatch"), ":7601 is not it"),
        (tls_error("WRONG_VERSION_NUMBER"), ":7601 is not it"),
        (tls_error("TLSV1_ALERT_UNKNOWN_CA"), "node-2 hangs up"),
        (Closed(), "node-2 hangs up"),
    ],
)
def test_why_a_node_was_refused(quiet: tuple[Transport, Listener], failed: Exception, line: str) -> None:
    node, listener = quiet
    for _ in range(3):
        node.failed(1, failed)
    assert len(listener.said) == 1
    assert line in listener.said[0]
    assert "evil" not in listener.said[0]


def test_being_away_is_no_refusal(quiet: tuple[Transport, Listener]) -> None:
    node, listener = quiet
    for failed in (
        ConnectionRefusedError(),
        TimeoutError(),
        Refused(Refusal.NOT_WANTED, "not asked for"),
        Refused(Refusal.REPLACED, ""),
    ):
        node.failed(1, failed)
    assert listener.said == []


# Keys.


@pytest.mark.parametrize("spoil", ["another", "garbage", "authority"])
def test_keys_that_do_not_fit_together(net: Path, tmp_path: Path, spoil: str) -> None:
    folder = Path(shutil.copytree(net / "a", tmp_path / "a"))
    assert Keys.read(folder).key.read_bytes().startswith(b"-----BEGIN PRIVATE KEY")
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


# Two nodes, or one and an impostor.


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60.0):
        while not condition():
            await asyncio.sleep(0.02)


async def two_nodes(folder: Path, *, size: int = 8) -> list[tuple[Transport, Listener]]:
    """Start the first two nodes of a network, at free ports, and wait until they have found each other."""
    roster = read_roster(folder / "roster.toml")
    port = free_ports(3)
    places = tuple(Address("127.0.0.1", port + at) if place else None for at, place in enumerate(roster.addresses))
    found = [made(folder, replace(roster, addresses=places), node, size=size) for node in range(2)]
    for node, _ in found:
        await node.start()
    (one, _), (other, _) = found
    await until(lambda: 1 in one.reachable and 0 in other.reachable)
    return found


async def stop(*nodes: Transport) -> None:
    for node in nodes:
        await node.stop()


@pytest.mark.parametrize("sender", [0, 1])
def test_a_node_sends_one_large_model_after_the_other(net: Path, sender: int) -> None:
    """Whichever of the two has called: who was called has the other one call for the model."""

    async def story() -> None:
        size = 6 << 20
        nodes = await two_nodes(net, size=size)
        (one, heard), (_, got) = nodes[sender], nodes[1 - sender]
        token = Token(0, os.urandom(size), bytes(33))
        one.send(1 - sender, Final((0, 0), token))
        one.send(1 - sender, Outcome(token, (0, 0), ()))
        one.send(1 - sender, Outcome(token, (0, 0), ()))  # on its way already
        await until(lambda: len(got.got) == 2)
        assert [type(message).__name__ for message in got.got] == ["Final", "Outcome"]
        models = [message.token.parameters for message in got.got if isinstance(message, Final | Outcome)]
        assert {digest_of(model) for model in models} == {digest_of(token.parameters)}
        assert heard.said + got.said == []
        await stop(*(node for node, _ in nodes))

    asyncio.run(story())


def test_one_connection_serves_both_directions(net: Path) -> None:
    """The later node has called the earlier one; nobody calls back."""

    async def story() -> None:
        (one, at_one), (other, at_other) = await two_nodes(net)
        for _ in range(100):
            one.send(1, Hello((0, 0)))
            other.send(0, Here((0, 1)))
        await until(lambda: len(at_one.got) == len(at_other.got) == 100)
        assert [len(node._streams) for node in (one, other)] == [1, 1]
        await stop(one, other)

    asyncio.run(story())


def test_a_node_that_nobody_can_call(tmp_path: Path) -> None:
    """It listens on nothing, and calls those before and after it; large models get to it, too."""
    make_network(tmp_path / "net", *parse_nodes("a=outgoing,node-2=127.0.0.1,3=127.0.0.1:9"))

    async def story() -> None:
        (one, heard), (other, got) = await two_nodes(tmp_path / "net", size=6 << 20)
        assert one._listening == []
        token = Token(0, os.urandom(6 << 20), bytes(33))
        one.send(1, Outcome(token, (0, 0), ()))
        other.send(0, Outcome(token, (0, 0), ()))
        await until(lambda: len(heard.got) == len(got.got) == 1)
        assert heard.said + got.said == []
        await stop(one, other)

    asyncio.run(story())


def test_what_is_silent_is_given_up_and_called_again(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cut that nobody is told of: bytes get lost on both ways, until the connection is made anew."""
    monkeypatch.setattr(connections, "_PULSE", 0.1)
    monkeypatch.setattr(connections, "_SILENT", 0.5)

    async def story() -> None:
        (one, _), (other, got) = await two_nodes(net)
        await asyncio.sleep(1.0)  # with a pulse it stands
        (first,) = other._streams
        (answered,) = one._streams
        for stream in (first, answered):
            stream.write = lambda *_: None  # type: ignore[method-assign] # what is sent gets lost
        await until(lambda: 0 in other.reachable and first not in other._streams)
        one.send(1, Hello((0, 0)))
        await until(lambda: len(got.got) == 1)
        await stop(one, other)

    asyncio.run(story())


def test_only_who_is_to_call_is_listened_to(net: Path) -> None:
    """The earlier node of two is called: if it calls, somebody has its key, or another idea of the roster."""

    async def story() -> None:
        (one, at_one), (other, at_other) = await two_nodes(net)
        with pytest.raises(Refused, match="a has called, and is to be called instead"):
            await one.call(1, "talk")
        await until(lambda: bool(at_other.said))
        assert at_other.said == ["a has called, and is to be called instead"]
        assert at_one.said == []
        assert one.reachable == {1}
        await stop(one, other)

    asyncio.run(story())


def test_whoever_answers_must_be_the_node_that_was_called(net: Path, tmp_path: Path) -> None:
    """At two addresses somebody else answers: another authority's node, and the wrong one."""
    make_network(tmp_path / "other", *parse_nodes("a,node-2"))

    async def story() -> None:
        roster, port = read_roster(net / "roster.toml"), free_ports(3)
        places = tuple(Address("127.0.0.1", port + at) for at in range(3))
        servers = []
        for place, keys in zip(places, (tmp_path / "other" / "a", net / "a"), strict=False):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(keys / "node.crt", keys / "node.key")

            async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                writer.close()

            servers.append(await asyncio.start_server(hang_up, place.host, place.port, ssl=context))
        node, heard = made(net, replace(roster, addresses=places), 2)
        await node.start()
        await until(lambda: len(heard.said) == 2)
        await asyncio.sleep(1.0)  # nothing more comes
        await node.stop()
        for server in servers:
            server.close()
        assert sorted(heard.said) == [
            f"a: what answers at {places[0]} is not it",
            f"node-2: what answers at {places[1]} is not it",
        ]

    asyncio.run(story())


def test_a_certificate_that_is_not_the_rosters_is_nobodys(net: Path, tmp_path: Path) -> None:
    """The authority has signed it, and it has the right name: a stolen key of the authority would do that."""
    other = Path(shutil.copytree(net, tmp_path / "net"))
    days = timedelta(days=1)
    key = x.private_key((net / "ca" / "ca.key").read_bytes())
    certificate = x.certificate((net / "ca" / "ca.crt").read_bytes())
    assert key is not None
    assert certificate is not None
    now = datetime.now(UTC)
    made_up = x.issue(x.Authority(key, certificate), "a", (server_name("a"),), node_uri("a"), now - days, now + days)
    (other / "a" / "node.key").write_bytes(x.key_pem(made_up[0]))
    (other / "a" / "node.crt").write_bytes(x.certificate_pem(made_up[1]))

    async def story() -> None:
        roster, port = read_roster(net / "roster.toml"), free_ports(3)
        roster = replace(roster, addresses=tuple(Address("127.0.0.1", port + at) for at in range(3)))
        (impostor, _), (node, heard) = made(other, roster, 0), made(net, roster, 1)
        await impostor.start()
        await node.start()
        await until(lambda: bool(heard.said))
        assert heard.said == [f"a: what answers at {roster.addresses[0]} is not it"]
        assert node.reachable == set()
        await stop(impostor, node)

    asyncio.run(story())
