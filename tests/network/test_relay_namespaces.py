"""Sites that let nothing in, behind routers that hide them: what a relay between them carries, sees and survives."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import chaos
import numpy as np
import pytest
import relays
import sites
from test_namespaces import is_newer, run

from skipring.network.protocol import Kept
from skipring.network.setup import Via, relay_addresses
from skipring.network.transport import server_name

NODES, FIRST = 3, 7600


@pytest.fixture
def world() -> Iterator[Callable[[int], sites.Sites]]:
    """Make sites that are removed in the end, whatever happens."""
    reason = sites.why_no_sites() or relays.why_no_relay()
    if reason:
        pytest.skip(reason)
    with contextlib.ExitStack() as made:
        yield lambda count: made.enter_context(sites.Sites(count))


def make(folder: Path, nodes: int, *, steps: int, delay: str | None, silence: float = 60.0) -> None:
    """Make a network whose nodes know the relay by its name."""
    via = Via(sites.RELAY, sites.PORT, relays.account())
    addresses = relay_addresses(nodes, FIRST, via)
    chaos.make(folder, addresses, steps=steps, delay=delay, timeout=1.0, lease=1.0, silence=silence, via=via)


@contextmanager
def recorded(there: sites.Sites, file: Path) -> Iterator[dict[str, bytes]]:
    """Record what goes through the relay; afterwards it is in the result, by its way."""
    words = [*there.at("relay"), sys.executable, str(Path(__file__).with_name("recorder.py")), str(file)]
    found: dict[str, bytes] = {}
    recorder = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert recorder.stdout is not None
        assert recorder.stdout.readline() == b"recording\n"
        yield found
    finally:
        recorder.communicate()  # its input ends, so it does
    found.update((way, bytes.fromhex(data)) for way, data in json.loads(file.read_text()).items())


def records(data: bytes) -> list[int]:
    """Return the kinds of the TLS records that some bytes are made of; fail if they are anything else."""
    kinds, at = [], 0
    while at + 5 <= len(data):
        kind, version, size = data[at], data[at + 1 : at + 3], int.from_bytes(data[at + 3 : at + 5], "big")
        assert kind in (20, 21, 22, 23), data[at : at + 40]
        assert version in (b"\x03\x01", b"\x03\x03")
        assert size <= (1 << 14) + 256
        kinds.append(kind)
        at += 5 + size
    return kinds


@pytest.mark.slow
def test_three_sites_that_let_nothing_in(tmp_path: Path, world: Callable[[int], sites.Sites]) -> None:
    folder, there = tmp_path / "network", world(NODES)
    make(folder, NODES, steps=60, delay="exponential:0.05")
    # Nobody can call a site, not even at a port where somebody listens; from its own side of the router that works.
    listening = "import socket, time; s = socket.create_server(('0.0.0.0', 443)); print(1, flush=True); time.sleep(60)"
    with subprocess.Popen([*there.at("site", 0), sys.executable, "-c", listening], stdout=subprocess.PIPE) as somebody:
        assert somebody.stdout is not None
        assert somebody.stdout.readline() == b"1\n"
        assert there.can_connect(there.at("gate", 0), sites.INSIDE, 443)
        assert not there.can_connect(there.at("relay"), there.gate_host(0), 443)
        assert not there.can_connect(there.at("site", 1), there.gate_host(0), 443)
        run("ip", "-n", there.name("relay"), "route", "add", "192.168.1.0/24", "via", there.gate_host(0))
        assert not there.can_connect(there.at("relay"), sites.INSIDE, 443)
        somebody.kill()
    with relays.Relay(folder, there.at("relay")) as relay:
        relay.start()
        assert there.can_connect(there.at("site", 0), there.relay_host, sites.PORT)
        assert not there.can_connect(there.at("site", 0), there.relay_host, FIRST)  # one port, and no other
        with recorded(there, tmp_path / "record.json") as seen, chaos.Network(folder, there.prefix) as network:
            network.start()
            network.finish()
    report = chaos.check_all(network)
    print(report)
    assert report.lost == 0
    check_ciphertext(network, seen)


def check_ciphertext(network: chaos.Network, seen: dict[str, bytes]) -> None:
    """Check that what went through the relay was TLS 1.3, and that nothing which nodes have said can be read in it."""
    ports = [str(port) for port in network.roster.ports]
    ways = {way: data for way, data in seen.items() if data and set(way.split(">")) & set(ports)}
    # One connection between each two nodes is enough, whoever has called.
    called = {name for name, port in zip(network.roster.names, ports, strict=True) if port in " ".join(ways)}
    assert len(called) >= 2
    assert len(ways) >= 2 * NODES
    for way, data in ways.items():
        kinds = records(data)
        # A hello of each side, and at most one more if they did not agree at once; all else is encrypted.
        assert kinds[0] == 22, way
        assert kinds.count(22) <= 2
    whole = b"".join(ways.values())
    readings = network.readings()
    tokens = [entry.copy.token for each in readings for _, entry in each.entries if isinstance(entry, Kept)]
    # Of each token its digest, which is sent with it, and that of the run, which is in every message; and all models
    # that journals still have: the last that a node had, and the final one.
    secrets = {token.chain[:32] for token in tokens} | {bytes.fromhex(readings[0].run_digest.split()[0])}
    secrets |= {token.parameters for token in tokens if token.parameters and isinstance(token.parameters, bytes)}
    secrets.add(np.load(network.folder / "node1" / "model.npy").tobytes())
    assert len(secrets) > 60
    assert min(map(len, secrets)) >= 32
    assert len(whole) > 200 * len(tokens)  # they did go this way
    assert not [secret for secret in secrets if secret in whole]
    # This is what can be seen: whom a node calls. (And so these are the bytes inside of ssh.)
    for name in called:
        assert server_name(name).encode() in whole


@pytest.mark.slow
def test_the_relay_dies_and_comes_back_at_another_address(tmp_path: Path, world: Callable[[int], sites.Sites]) -> None:
    folder, there = tmp_path / "network", world(NODES)
    make(folder, NODES, steps=150, delay="exponential:0.1")
    with relays.Relay(folder, there.at("relay")) as relay, chaos.Network(folder, there.prefix) as network:
        relay.start()
        network.start()
        everybody = range(NODES)
        for moves in (False, True):
            network.wait("going on", partial(is_newer, network, everybody, time.time()))
            relay.kill()
            network.watch(3.0)
            if moves:
                there.move_relay()
            relay.start()
        network.wait("going on", partial(is_newer, network, everybody, time.time()))
        assert not network.ended
        network.finish()
    report = chaos.check_all(network)
    print(report)
    assert (report.lost, report.recoveries) == (0, 0)


@pytest.mark.slow
def test_a_site_gets_another_uplink_after_twenty_seconds_without(
    tmp_path: Path, world: Callable[[int], sites.Sites]
) -> None:
    folder, there = tmp_path / "network", world(NODES)
    make(folder, NODES, steps=300, delay="exponential:0.1")
    with relays.Relay(folder, there.at("relay")) as relay, chaos.Network(folder, there.prefix) as network:
        relay.start()
        network.start()
        network.wait("begun", lambda: sum(bool(reading.releases) for reading in network.readings()) == NODES)
        there.cut(0)
        network.watch(20.0)
        there.move_site(0)
        there.heal(0)
        network.wait("back", partial(is_newer, network, [0], time.time()))
        assert not network.ended
        there.move_site(1)  # at once, and without a word to either end
        network.wait("back", partial(is_newer, network, [1], time.time()))
        network.finish()
    report = chaos.check_all(network)
    print(report)
    assert (report.lost, report.recoveries) == (0, 0)
