"""A proxy that connections go through, which delays, stalls and resets them; `python proxy.py FILE` is its process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import random
import socket
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from skipring.network.transport import Address


@dataclass(frozen=True)
class Trouble:
    """What happens to connections; each piece of data is some bytes that arrived together."""

    delay: float  # each way
    resets: float = 0.2  # share of connections that are reset
    reset_after: tuple[int, int] = (500, 100_000)  # bytes
    stalls: float = 0.01  # share of pieces that a connection stalls at
    stall: tuple[float, float] = (1.0, 4.0)  # seconds
    seed: int = 1


class Proxy:
    """A process that passes connections on; in a namespace if `prefix` says so."""

    def __init__(
        self, folder: Path, routes: Sequence[tuple[Address, Address]], trouble: Trouble, prefix: Sequence[str] = ()
    ) -> None:
        self._counts = folder / "proxy-counts.json"
        settings = folder / "proxy.json"
        pairs = [[str(where), str(to)] for where, to in routes]
        settings.write_text(json.dumps({"routes": pairs, "trouble": asdict(trouble), "counts": str(self._counts)}))
        self._words = [*prefix, sys.executable, __file__, str(settings)]

    def __enter__(self) -> Proxy:
        self._process = subprocess.Popen(self._words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        if self._process.stdout.readline() != b"listening\n":
            self._process.wait()
            raise RuntimeError("the proxy cannot listen")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()  # its input ends, so it does; also if this process is killed

    @property
    def counts(self) -> dict[str, int]:
        """How many connections there were, and what happened to them."""
        found: dict[str, int] = json.loads(self._counts.read_text())
        return found


class _Connection:
    """One connection through the proxy, with its own fate."""

    def __init__(self, trouble: Trouble, rng: random.Random, counts: Counter[str]) -> None:
        self._trouble, self._rng, self._counts = trouble, rng, counts
        low, high = map(math.log, trouble.reset_after)
        doomed = rng.random() < trouble.resets
        self._left = math.exp(rng.uniform(low, high)) if doomed else math.inf
        self._stalled_until = 0.0
        counts["connections"] += 1

    async def join(self, near: _Stream, far: _Stream) -> None:
        pumps = [asyncio.ensure_future(self._pump(*pair)) for pair in ((near, far), (far, near))]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(2.0 * self._trouble.delay)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            for _, writer in (near, far):
                reset(writer)

    async def _pump(self, source: _Stream, target: _Stream) -> None:
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        deliver = asyncio.ensure_future(self._deliver(pieces, target[1]))
        now = asyncio.get_running_loop().time
        try:
            while data := await source[0].read(1 << 16):
                self._left -= len(data)
                if self._left < 0:
                    self._counts["reset"] += 1
                    reset(source[1])
                    reset(target[1])
                    return
                pieces.put_nowait((now() + self._trouble.delay, data))
        finally:
            await asyncio.sleep(self._trouble.delay)  # what was said last still arrives
            deliver.cancel()

    async def _deliver(self, pieces: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        now = asyncio.get_running_loop().time
        while True:
            due, data = await pieces.get()
            if self._rng.random() < self._trouble.stalls:
                self._counts["stalled"] += 1
                self._stalled_until = now() + self._rng.uniform(*self._trouble.stall)
            await asyncio.sleep(max(due, self._stalled_until) - now())
            writer.write(data)  # messages are small: nothing piles up


_Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def reset(writer: asyncio.StreamWriter) -> None:
    """Break a connection off, so that both ends notice at once."""
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def serve(settings: dict[str, Any]) -> Counter[str]:
    """Be the proxy, until the input ends."""
    trouble, counts = Trouble(**settings["trouble"]), Counter[str]()
    rng = random.Random(trouble.seed)
    tasks: set[asyncio.Task[Any]] = set()

    async def connect(to: Address, *near: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        try:
            far = await asyncio.open_connection(to.host, to.port)
        except OSError:
            counts["refused"] += 1
            reset(near[1])
            return
        with contextlib.suppress(OSError):
            await _Connection(trouble, rng, counts).join(near, far)

    for where, to in settings["routes"]:
        here, there = Address.parse(where), Address.parse(to)
        await asyncio.start_server(lambda *near, there=there: connect(there, *near), here.host, here.port)
    print("listening", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return counts


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[1]).read_text())
    made = asyncio.run(serve(given))
    Path(given["counts"]).write_text(json.dumps(made))
