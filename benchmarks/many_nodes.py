"""Many node processes on one machine: how long they take to start, what a hop costs them, and how large they are.

    python benchmarks/many_nodes.py [NODES ...]       64 and 128 unless told

All nodes are in one ring, always ready; a hop is the time between two updates of the whole network, with journal and
TLS. Memory is what a process has for itself, and what it shows: the difference is code that all of them share.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from network import make_network
from skipring.network.setup import LocalNetwork, node_status

#: Hops of a run: ten of each node.
TURNS = 10


def cpu_seconds(pid: int) -> float:
    """Return the time that a process has computed."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def megabytes(pid: int) -> tuple[float, float]:
    """Return what a process has for itself, and all that it shows."""
    lines = [line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]]
    sizes = {words[0]: int(words[1]) / 1024.0 for words in lines}
    return sizes["Private_Clean:"] + sizes["Private_Dirty:"], sizes["Rss:"]


def connections(pid: int) -> int:
    """Return how many sockets a process has open."""
    return sum(
        os.readlink(link).startswith("socket:") for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()
    )


def measure(nodes: int, folder: Path) -> None:
    """Run a network, and print what it took."""
    run = f'[schedule]\nname = "ring"\nsteps = {TURNS * nodes}\n[delay]\ntimeout = 5.0\n'
    make_network(folder, nodes, run + '[privacy]\nnoise_multiplier = 5.0\n[model]\nname = "logistic"\n')
    network, began = LocalNetwork(folder), time.monotonic()
    network.start()
    try:
        pids = [network.pid(name) for name in network.roster.names]

        def hop() -> int:
            # One node is asked: to ask all of them would be most of what they do.
            status = node_status(network.configs[0])
            return 0 if status is None else status.hop

        while not hop():
            time.sleep(0.5)
        started, first = time.monotonic(), hop()
        cpu = sum(map(cpu_seconds, pids))
        own, shown = zip(*map(megabytes, pids), strict=True)
        sockets = sum(map(connections, pids))
        print(f"{nodes} nodes: start {started - began:.0f} s and {cpu:.0f} CPU seconds, {sockets} sockets;", end=" ")
        last, at = first, started
        while last < (TURNS - 1) * nodes:
            time.sleep(1.0)
            last, at = hop(), time.monotonic()
        spent = sum(map(cpu_seconds, pids)) - cpu
        print(
            f"hop {1e3 * (at - started) / (last - first):.1f} ms, {1e3 * spent / (last - first):.1f} ms of CPU;",
            end=" ",
        )
        print(f"memory of its own {statistics.median(own):.0f} MB, {statistics.median(shown):.0f} MB with shared code")
    finally:
        network.stop()


def main() -> None:
    for nodes in map(int, sys.argv[1:] or ["64", "128"]):
        with tempfile.TemporaryDirectory(prefix="skipring-benchmark-") as place:
            measure(nodes, Path(place) / "net")


if __name__ == "__main__":
    main()
