"""Eight real nodes, two of them slow, beside the simulator's prediction for the same numbers.

    python benchmarks/slow_nodes.py [--rounds 60] [--ready fresh kept ahead]

Nodes get ready in exponential times (mean 20 ms) and compute for 5 ms on a full batch. Node 7 does both ten times as
slowly (its learner sleeps). In every second run node 8 is stopped for 0.6 of every 0.8 seconds by a signal, as on a
machine that others use more: in the simulation, a trace says when it can be reached. The simulation's hop latency is
the median overhead that the nodes measured. Printed are the time of a round and the share of turns with an update, of
each kind of node. A real node may be stopped while it has the token, which the simulation does not know of.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from network import free_port
from skipring.network.setup import LocalNetwork, node_result
from skipring.network.storage import read_journal
from skipring.runs import parse_run
from skipring.simulation import build
from skipring.simulation.engine import run_many

NODES, TIMEOUT, MEAN, COMPUTE = 8, 0.1, 0.02, 0.005
SLOWER, PERIOD, AWAY = 10.0, 0.8, 0.6


def run_of(rounds: int, ready: str) -> dict[str, dict[str, object]]:
    """Return the run that both sides follow."""
    return {
        "data": {"name": "breast-cancer", "nodes": NODES},
        "schedule": {"name": "random-ring", "steps": NODES * rounds},
        "delay": {"timeout": TIMEOUT, "ready": ready},
        "compute": {"late": "fewer-rows"},
        "privacy": {"protects": "record", "noise_multiplier": 4.0},
        "learning": {"batch": 60},
        "model": {"name": "logistic"},
    }


def stop_and_go(pid: int, over: threading.Event) -> None:
    """Let a process run for a moment in each period only."""
    with contextlib.suppress(ProcessLookupError):
        while not over.is_set():
            os.kill(pid, signal.SIGSTOP)
            time.sleep(AWAY)
            os.kill(pid, signal.SIGCONT)
            over.wait(PERIOD - AWAY)
        os.kill(pid, signal.SIGCONT)


def real(folder: Path, rounds: int, ready: str, *, stopped: bool) -> tuple[float, list[float], float]:
    """Run the nodes; return the seconds of a round, the share of turns with an update of each, and the overhead."""
    file = folder / "run.toml"
    lines = []
    for section, values in run_of(rounds, ready).items():
        lines += [f"[{section}]", *(f"{key} = {value!r}".replace("'", '"') for key, value in values.items())]
    file.write_text("\n".join(lines) + "\n")
    network = folder / "net"
    port = free_port(NODES)
    words = ["network", "init", str(network), "--nodes", str(NODES), "--run", str(file), "--port", str(port)]
    subprocess.run([sys.executable, "-m", "skipring", *words], check=True, stdout=subprocess.DEVNULL)
    for node in range(NODES):
        settings = network / f"node{node + 1}" / "node.toml"
        factor = SLOWER if node == 6 else 1.0
        law = f'[delay]\nlaw = "exponential:{MEAN * factor:g}"\ncompute = "constant:{COMPUTE * factor:g}"\n'
        settings.write_text(re.sub(r"\[delay\]\n.*", "", settings.read_text(), flags=re.DOTALL) + law)
    nodes, over = LocalNetwork(network), threading.Event()
    nodes.start()
    stopper = None
    try:
        states = nodes.look()
        while any(state.running for state in states):
            time.sleep(0.2)
            states = nodes.look()
            moved = any(state.status is not None and state.status.hop > NODES for state in states)
            if stopped and stopper is None and moved:
                pid = int((network / "node8" / "node.pid").read_text().split()[0])
                stopper = threading.Thread(target=stop_and_go, args=(pid, over), daemon=True)
                stopper.start()
            if any(state.status is not None and state.status.over for state in states):
                over.set()
    finally:
        over.set()
        nodes.stop()
    results = [node_result(network / f"node{node + 1}") for node in range(NODES)]
    told = [one for one in results if one is not None]
    readings = read_journal(network / "node1" / "journal.sqlite")
    written = [when for when, _ in readings.entries]
    shares = [one.own_updates / rounds for one in told]
    overhead = statistics.median(one.overhead for one in told if one.overhead is not None)
    return (max(written) - min(written)) / rounds, shares, overhead - COMPUTE


def simulated(rounds: int, ready: str, hop: float, *, stopped: bool) -> tuple[float, list[float]]:
    """Return what the simulator says of the same, the median and the mean of twenty runs."""
    events = np.array(
        [(node, 0.0, 1) for node in range(NODES - 1)] + [(NODES - 1, 0.0, 0), (NODES - 1, AWAY, 1), (0, PERIOD, 1)]
    )
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "away.npz", events=events)
        asked = run_of(rounds, ready)
        asked["delay"] |= {"law": f"exponential:{MEAN}", "hop_latency": hop}
        asked["compute"] |= {"law": f"constant:{COMPUTE}"}
        asked["stragglers"] = {"speeds": [1.0] * 6 + [SLOWER, 1.0]}
        if stopped:
            asked["stragglers"]["availability"] = f"trace:{folder}/away.npz"
        setup = build(parse_run(asked))
        outputs = list(run_many(setup, list(range(20))))
    seconds = statistics.median(float(output.latency[-1]) for output in outputs) / rounds
    made = np.mean([output.turns - output.skips for output in outputs], axis=0) / rounds
    return seconds, made.tolist()


def main() -> None:
    """Print a table for each kind of readiness."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--ready", nargs="+", default=["fresh", "kept", "ahead"])
    asked = parser.parse_args()
    print(f"{'ready':6} {'node 8':8} {'':10} {'s/round':>8} {'nodes 1-6':>10} {'node 7':>7} {'node 8':>7}")
    for stopped in (False, True):
        for ready in asked.ready:
            with tempfile.TemporaryDirectory() as folder:
                seconds, shares, overhead = real(Path(folder), asked.rounds, ready, stopped=stopped)
            predicted, made = simulated(asked.rounds, ready, max(overhead, 1e-4), stopped=stopped)
            for name, time_, of in (("real", seconds, shares), ("simulated", predicted, made)):
                words = f"{ready:6} {'stopped' if stopped else 'runs':8} {name:10} {time_:8.3f}"
                print(f"{words} {np.mean(of[:6]):10.2f} {of[6]:7.2f} {of[7]:7.2f}", flush=True)


if __name__ == "__main__":
    main()
