"""Nodes on networks that delay, stall, break off and come apart: the run waits or goes on, and loses nothing."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import chaos
import pytest
from networks import free_ports
from proxy import Proxy, Trouble

from skipring.network.protocol import Kept, Over
from skipring.network.transport import Address


@pytest.mark.slow
def test_connections_that_are_slow_and_break(tmp_path: Path) -> None:
    nodes, folder = 4, tmp_path / "network"
    first = free_ports(2 * nodes)
    gates, behind = chaos.on_loopback(first, nodes), chaos.on_loopback(first + nodes, nodes)
    chaos.make(folder, gates, steps=200, delay=None, timeout=1.0, lease=0.5, silence=5.0)
    for node, address in enumerate(behind):
        chaos.listen_at(folder, node, address)
    trouble = Trouble(delay=0.03, resets=0.5, reset_after=(3000, 20_000), stalls=0.005, stall=(0.5, 1.5))
    with (
        Proxy(tmp_path, list(zip(gates, behind, strict=True)), trouble) as proxy,
        chaos.Network(folder) as network,
    ):
        network.start()
        network.finish()
    print(chaos.check_all(network), proxy.counts)
    assert proxy.counts["connections"] > nodes * (nodes - 1) // 2  # one for each pair, and those that were made anew
    assert proxy.counts["reset"] > 0


# Namespaces: each node with a network card of its own, plugged into a bridge. There is no way out of them.


def run(*words: str) -> str:
    """Run a command, and return what it says."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


_LABEL = "skipring"
_numbers = itertools.count()


class Namespaces:
    """A namespace for each node, 10.77.0.1 and on, and a hub with two bridges: the second one for who is cut off."""

    def __init__(self, nodes: int) -> None:
        self._label = f"{_LABEL}-{os.getpid()}-{next(_numbers)}"
        self.nodes = nodes

    def name(self, node: int) -> str:
        """Return the namespace of a node."""
        return f"{self._label}-{node}"

    @property
    def hub(self) -> str:
        """The namespace that has the bridges."""
        return f"{self._label}-hub"

    def prefix(self, name: str) -> list[str]:
        """Return what runs a node's command in its namespace; nodes are node1 and so on."""
        return ["ip", "netns", "exec", self.name(int(name.removeprefix("node")) - 1)]

    def address(self, node: int, port: int = 7600) -> Address:
        """Return where a node can be reached by others."""
        return Address(f"10.77.0.{node + 1}", port)

    def gate(self, node: int, port: int = 7600) -> Address:
        """Return an address of the hub, for the proxy of a node."""
        return Address(f"10.77.1.{node + 1}", port)

    def __enter__(self) -> Namespaces:
        remove_leftovers()
        try:
            run("ip", "netns", "add", self.hub)
            for bridge in ("whole", "cut"):
                run("ip", "-n", self.hub, "link", "add", bridge, "type", "bridge")
                run("ip", "-n", self.hub, "link", "set", bridge, "up")
            for node in range(self.nodes):
                name, port = self.name(node), f"port{node}"
                run("ip", "netns", "add", name)
                run("ip", "-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", self.hub)
                run("ip", "-n", name, "address", "add", f"{self.address(node).host}/16", "dev", "eth0")
                run("ip", "-n", self.hub, "address", "add", f"{self.gate(node).host}/16", "dev", "whole")
                run("ip", "-n", self.hub, "link", "set", port, "master", "whole", "up")
                for card in ("lo", "eth0"):
                    run("ip", "-n", name, "link", "set", card, "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        remove(name for name in (self.hub, *map(self.name, range(self.nodes))) if name in namespaces())

    def unplug(self, *nodes: int) -> None:
        """Take the links of nodes down: they reach nobody, and nobody reaches them."""
        for node in nodes:
            run("ip", "-n", self.hub, "link", "set", f"port{node}", "down")

    def plug_in(self, *nodes: int) -> None:
        """Take the links up again."""
        for node in nodes:
            run("ip", "-n", self.hub, "link", "set", f"port{node}", "up")

    def cut(self, *nodes: int) -> None:
        """Put nodes on the other bridge: they reach each other only."""
        for node in nodes:
            run("ip", "-n", self.hub, "link", "set", f"port{node}", "master", "cut")

    def heal(self) -> None:
        """Put all on one bridge."""
        for node in range(self.nodes):
            run("ip", "-n", self.hub, "link", "set", f"port{node}", "master", "whole")


def namespaces() -> list[str]:
    """Return the names of all namespaces."""
    return [line.split()[0] for line in run("ip", "netns", "list").splitlines() if line.strip()]


def remove(names: Iterable[str]) -> None:
    """Remove namespaces, and end what still runs in them."""
    for name in names:
        for pid in run("ip", "netns", "pids", name).split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        run("ip", "netns", "delete", name)
        shutil.rmtree(Path("/etc/netns") / name, ignore_errors=True)


def remove_leftovers() -> None:
    """Remove the namespaces of tests that are no more."""
    for name in namespaces():
        found = re.fullmatch(rf"{_LABEL}-([0-9]+)-[0-9]+-(hub|relay|(gate|site)?[0-9]+)", name)
        if found is not None and not Path(f"/proc/{found[1]}").exists():
            remove([name])


def why_no_namespaces() -> str:
    """Say why this machine has no namespaces for us; nothing if it has."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "network namespaces need the command ip (iproute2)"
    try:
        with Namespaces(1) as trial:
            run("ip", "netns", "exec", trial.name(0), "true")
    except RuntimeError as problem:
        return f"this machine does not allow network namespaces: {problem}"
    return ""


@pytest.fixture
def spaces() -> Iterator[Callable[[int], Namespaces]]:
    """Make namespaces that are removed in the end, whatever happens."""
    reason = why_no_namespaces()
    if reason:
        pytest.skip(reason)
    with contextlib.ExitStack() as made:
        yield lambda nodes: made.enter_context(Namespaces(nodes))


@pytest.mark.slow
def test_nodes_behind_proxies_in_namespaces(tmp_path: Path, spaces: Callable[[int], Namespaces]) -> None:
    nodes, folder = 8, tmp_path / "network"
    world = spaces(nodes)
    gates, behind = map(world.gate, range(nodes)), map(world.address, range(nodes))
    routes = list(zip(gates, behind, strict=True))
    chaos.make(
        folder, [gate for gate, _ in routes], steps=60, delay="exponential:0.05", timeout=1.5, lease=1.5, silence=10.0
    )
    hub = ["ip", "netns", "exec", world.hub]
    trouble = Trouble(delay=0.2, reset_after=(1000, 12_000), stalls=0.02)
    with Proxy(tmp_path, routes, trouble, hub) as proxy, chaos.Network(folder, world.prefix) as network:
        network.start()
        network.finish(300.0)
    print(chaos.check_all(network), proxy.counts)
    assert proxy.counts["reset"] > 0
    assert proxy.counts["stalled"] > 0


def newest(network: Any, *nodes: int) -> float:
    """When the token last got to one of these nodes."""
    found = [reading.entries for reading in network.readings() if network.roster.index(reading.node) in nodes]
    return max((at for entries in found for at, entry in entries if isinstance(entry, Kept)), default=0.0)


def around_the_token(network: Any, path: Sequence[int]) -> tuple[int, int]:
    """Who holds the token, and whom it may have sent it to already; to be asked while all is frozen."""
    holder = max(range(len(network.roster)), key=lambda node: newest(network, node))
    passing = network.readings()[holder].memory.passing
    assert passing is not None
    return holder, path[passing[1] - 1]


def stands_still(network: Any) -> bool:
    """Whether the token has got nowhere for five seconds."""
    return time.time() - newest(network, *range(len(network.roster))) > 5.0


@pytest.mark.slow
def test_a_network_that_comes_apart(tmp_path: Path, spaces: Callable[[int], Namespaces]) -> None:
    nodes, folder = 6, tmp_path / "network"
    world = spaces(nodes)
    addresses = [world.address(node) for node in range(nodes)]
    chaos.make(folder, addresses, steps=200, delay="exponential:0.1", timeout=0.5, lease=0.5, silence=5.0)
    path = chaos.terms_in(folder, 0).path
    with chaos.Network(folder, world.prefix) as network:
        network.start()
        network.wait("begun", lambda: sum(bool(reading.releases) for reading in network.readings()) == nodes)
        # First a minority that has not got the token, then the one that has it: the others must get it back.
        for with_token in (False, True):
            with network.frozen():
                here = around_the_token(network, path)
                minority = here if with_token else [node for node in range(nodes) if node not in here][:2]
                world.unplug(*minority)
                cut = time.time()
            others = set(range(nodes)) - set(minority)
            network.watch(7.0)
            network.wait("going on in the majority", partial(is_newer, network, others, cut + 5.0))
            world.plug_in(*minority)
            network.wait("going on everywhere", partial(is_newer, network, minority, time.time()))
        assert max(reading.memory.promised for reading in network.readings()) > (0, path[0])
        # Two halves: neither is a majority, so that whoever has the token waits, and nothing can be decided.
        world.cut(0, 2, 4)
        network.wait("two rounds in one half", partial(stands_still, network))
        assert not network.ended
        assert not any(isinstance(entry, Over) for reading in network.readings() for _, entry in reading.entries)
        world.heal()
        network.finish()
    print(chaos.check_all(network))


def is_newer(network: Any, nodes: Iterable[int], than: float) -> bool:
    """Whether the token has been with one of these nodes since."""
    return newest(network, *nodes) > than


@pytest.mark.slow
def test_namespaces_are_removed(spaces: Callable[[int], Namespaces]) -> None:
    """Those of this test when it ends, and those of one that was killed when the next one begins."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    left = f"{_LABEL}-{dead.pid}-0-hub"
    run("ip", "netns", "add", left)
    with Namespaces(2) as world:
        mine = [world.hub, world.name(0), world.name(1)]
        assert set(mine) <= set(namespaces())
        assert left not in namespaces()
    assert not set(mine) & set(namespaces())
