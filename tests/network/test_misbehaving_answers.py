"""A member that is called and answers what no node answers: its caller does not die of it, and calls again."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from networks import free_ports
from raw_call import framed
from test_transport import AGREEMENT, Listener, made, net, until

from skipring.network.protocol import FRESH, Final, Hello, Outcome, Token
from skipring.network.transport import Address, Transport, connections, link, read_roster, server_name
from skipring.network.transport.stream import FrameKind

__all__ = ["net"]  # a fixture

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter, int], Awaitable[None]]

LISTENS = framed(FrameKind.PREFACE, b"{}")
SIZE = 6 << 20


class Member:
    """The first node of a network: whoever has its key, and answers as it likes."""

    def __init__(self, folder: Path, answer: Answer) -> None:
        port = free_ports(3)
        places = tuple(Address("127.0.0.1", port + at) for at in range(3))
        self.roster = replace(read_roster(folder / "roster.toml"), addresses=places)
        self._folder, self._answer, self.calls, self.open = folder, answer, 0, 0

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.calls, self.open = self.calls + 1, self.open + 1
        try:
            await self._answer(reader, writer, self.calls)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open -= 1
            writer.close()

    async def start(self, *, size: int = 8) -> tuple[Transport, Listener]:
        """Listen, and return the second node, which calls."""
        keys, place = self._folder / "a", self.roster.addresses[0]
        assert place is not None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(keys / "node.crt", keys / "node.key")
        context.load_verify_locations(keys / "ca.crt")
        context.verify_mode = ssl.CERT_REQUIRED
        self._server = await asyncio.start_server(self._take, place.host, place.port, ssl=context)
        node, listener = made(self._folder, self.roster, 1, size=size)
        await node.start()
        return node, listener

    async def stop(self) -> None:
        self._server.close()


def once(data: bytes) -> Answer:
    """Answer each call with the same bytes."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        writer.write(data)
        await writer.drain()
        await asyncio.sleep(0.05)

    return answer


async def swallow(_: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
    """Say that one listens, and never anything more."""
    writer.write(LISTENS)
    await asyncio.sleep(3600.0)


def refusal(text: bytes) -> bytes:
    return framed(FrameKind.REFUSAL, text)


ANSWERS = {
    "a list as code": refusal(b'{"code": []}'),
    "an object as code": refusal(b'{"code": {}, "why": 3}'),
    "deep": refusal(b"[" * 60000),
    "half a sign": refusal(b'{"code": "flood", "why": "\\ud800"}'),
    "another run": refusal(b'{"code": "other run", "marks": {"a": []}, "shows": {"schedule.steps": 1}}'),
    "a list as code, later": LISTENS + refusal(b'{"code": []}'),
    "no message": LISTENS + framed(FrameKind.MESSAGE, b"\xff" * 10),
    "nothing was asked": LISTENS + framed(FrameKind.TAKEN, b"") * 3000,
    "no ticket": LISTENS + framed(FrameKind.FETCH, b"\xff\xfe" * 20),
    "no kind": framed(99, b""),
    "no preface": framed(FrameKind.MESSAGE, b"x"),
}


@pytest.mark.parametrize("data", ANSWERS.values(), ids=ANSWERS)
def test_whatever_it_answers_it_is_called_again(net: Path, data: bytes) -> None:
    """And when it is itself again, the two find each other."""

    async def story() -> None:
        member = Member(net, once(data))
        node, _ = await member.start()
        await until(lambda: member.calls >= 2)
        await member.stop()
        good, _ = made(net, member.roster, 0)
        await good.start()
        await until(lambda: 0 in node.reachable and 1 in good.reachable)
        await good.stop()
        await node.stop()

    asyncio.run(story())


def test_what_is_wrong_is_said_of_whom_it_is(net: Path) -> None:
    """Also of a node whose name is that of an article."""

    async def story() -> None:
        member = Member(net, once(LISTENS + framed(99, b"")))
        node, heard = await member.start()
        await until(lambda: bool(heard.said))
        assert heard.said == ["a: a frame of a kind that nobody knows"]
        await node.stop()
        await member.stop()

    asyncio.run(story())


def test_a_problem_that_nobody_has_thought_of_does_not_end_the_calls(
    net: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said, and the node is called again."""

    async def story() -> None:
        member = Member(net, once(LISTENS))
        usual, failures = Transport.call, iter(range(3))

        async def call(self: Transport, node: int, purpose: str, ticket: str = "") -> object:
            if next(failures, None) is not None:
                raise LookupError("what is this")
            return await usual(self, node, purpose, ticket)

        monkeypatch.setattr(Transport, "call", call)
        node, heard = await member.start()
        await until(lambda: member.calls > 0)
        assert heard.said[0] == "a: LookupError: what is this"
        await node.stop()
        await member.stop()

    asyncio.run(story())


def test_a_node_that_hangs_up_at_once_is_not_called_all_the_time(net: Path) -> None:
    """The pauses between the calls grow as they do for one that does not answer."""

    async def story() -> None:
        member = Member(net, once(LISTENS))
        node, _ = await member.start()
        await asyncio.sleep(3.0)
        assert 2 <= member.calls <= 6  # 0.1, 0.2, 0.4, 0.8, 1 s, and what a call itself takes
        await node.stop()
        await member.stop()

    asyncio.run(story())


def test_a_flood_of_models_to_be_called_for_costs_one_connection(net: Path) -> None:
    """Each that is offered takes the place of the one before: files that can be open are few."""
    most = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        nonlocal most
        most = max(most, member.open)
        if number == 1:
            writer.write(LISTENS)
            for _ in range(300):
                writer.write(framed(FrameKind.FETCH, b"%016d" % number) * 10)
                await writer.drain()
                await asyncio.sleep(0.001)
        await reader.read()  # and nobody answers whoever calls for one

    member = Member(net, answer)

    async def story() -> None:
        node, _ = await member.start()
        await until(lambda: member.calls >= 2)
        descriptors = len(os.listdir("/proc/self/fd"))
        await asyncio.sleep(2.0)
        assert len(os.listdir("/proc/self/fd")) < descriptors + 50  # of both ends
        assert len([task for task in node._tasks if not task.done()]) < 10
        await node.stop()
        await member.stop()

    asyncio.run(story())
    assert most < 50


def test_of_models_that_wait_the_newest_alone_is_kept(net: Path) -> None:
    """A member that takes none: the one on its way and the newest are held, and no connection for any other."""

    async def story() -> None:
        member = Member(net, swallow)
        node, _ = await member.start(size=SIZE)
        await until(lambda: 0 in node.reachable)
        model = bytes(SIZE)
        for number in range(20):
            node.send(0, Outcome(Token(number % 8, model, bytes(33)), (number, 0), ()))
        await until(lambda: member.calls == 2)
        await asyncio.sleep(0.2)
        assert member.calls == 2
        assert len(asyncio.all_tasks()) < 20
        assert node.carries_to(0)
        await node.stop()
        await member.stop()

    asyncio.run(story())


def test_a_model_that_does_not_move_gives_way_to_a_newer_one(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first connection has swallowed is given up: the newer one gets a connection of its own."""
    monkeypatch.setattr(link, "_STALLED", 0.3)

    async def story() -> None:
        member = Member(net, swallow)
        node, _ = await member.start(size=SIZE)
        await until(lambda: 0 in node.reachable)
        node.send(0, Final((0, 0), Token(0, bytes(SIZE), b"")))
        await until(lambda: member.calls == 2 and not node.moves_to(0))
        node.send(0, Final((1, 0), Token(0, bytes(SIZE), b"")))
        await until(lambda: member.calls == 3 and node.moves_to(0))
        await node.stop()
        await member.stop()

    asyncio.run(story())


def test_what_waits_for_a_node_is_little(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither many messages nor old ones nor long ones, however long the node is away."""
    now = 1000.0
    monkeypatch.setattr(link, "time", type("Clock", (), {"monotonic": staticmethod(lambda: now)}))
    node, _ = made(net, read_roster(net / "roster.toml"), 1, size=200_000)
    waiting = node._links[0]._waiting
    for _ in range(3000):
        node.send(0, Hello((0, 0)))
    assert len(waiting) == 1000
    for _ in range(200):
        node.send(0, Outcome(Token(0, bytes(200_000), bytes(33)), (0, 0), ()))
    assert sum(len(data) for _, data in waiting) <= 8 << 20
    assert len(waiting) > 35
    now += FRESH
    node.send(0, Hello((0, 0)))
    assert len(waiting) == 1


def test_a_crowd_of_calls_makes_way_for_its_own_alone(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that has called, and is slow to say who it is, is let in however many others call; and it is said."""
    monkeypatch.setattr(connections, "_GUESTS", 4)
    port = free_ports(3)
    places = tuple(Address("127.0.0.1", port + at) for at in range(3))
    roster = replace(read_roster(net / "roster.toml"), addresses=places)

    async def story() -> None:
        node, heard = made(net, roster, 0)
        await node.start()
        slow = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
        crowd = [await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.4", 0)) for _ in range(50)]
        await until(lambda: bool(heard.said))
        assert len(node._guests) <= 4 + 2 * 3
        context, keys = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), net / "node-2"
        context.load_cert_chain(keys / "node.crt", keys / "node.key")
        context.load_verify_locations(keys / "ca.crt")
        await slow[1].start_tls(context, server_hostname=server_name("a"))
        facts = {"for": "talk", "run": AGREEMENT.digest.hex(), "process": "x", "number": 0}
        slow[1].write(framed(FrameKind.PREFACE, json.dumps(facts).encode()))
        await until(lambda: 1 in node.reachable)
        assert heard.said == ["127.0.0.4: too many calls that do not say who they are; its oldest makes way"]
        for _, writer in (slow, *crowd):
            writer.close()
        await node.stop()

    asyncio.run(story())
