"""Real traces: phones that are seldom there, a GPU cluster with stragglers, and links across a country.

Each panel follows one trace with several ways to treat late nodes, on the same rows. Timeouts are Lemma 2's for the
times after which the trace's nodes answer (reachable, ready and computed), so that nothing is tuned by the outcome.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import Floats
from .._threads import one_blas_thread
from ..delays import Empirical
from ..errors import InvalidInput
from ..privacy import gdp_epsilon
from ..runs import parse_run
from ..schedules import USUAL_SCHEDULE, Federated
from ..simulation import Interrupted, RunOutput, Setup, build, run_many, transcript_account, who_is_ready
from ..timeouts import best_timeout
from .curves import deviation

TRACE_DELTA, TRACE_NOISE = 1e-6, 30.0
TRACE_FILES = ("phones.npz", "alibaba-minibatch.npz", "seattle-rtt.npz")
TRACE_PANELS = {
    "phones": "300 phones, available 16 % of the time",
    "cluster": "100 workers of a GPU cluster",
    "links": "99 nodes across the internet",
}
TRACE_CASES = ("never skip", "Lemma 2", "kept", "ahead", "ahead, fewer rows", "server")
#: How many times of answers Lemma 2's timeout is found from.
_ANSWERS = 20_000
#: At this number of points of a run its epsilon in this run is computed.
_POINTS = 9


@dataclass(frozen=True, kw_only=True)
class TraceStudy:
    """How large the study is; `rounds` are turns of every node, or a server's iterations."""

    data: str = "houses-openml"
    rounds: int = 40
    runs: int = 20
    most_nodes: int = 300

    @classmethod
    def quick(cls) -> TraceStudy:
        """Return a study for a look: bundled rows, fewer nodes, one run."""
        return cls(data="breast-cancer", rounds=6, runs=2, most_nodes=20)

    @property
    def pieces(self) -> int:
        """How many runs there are to make."""
        return len(TRACE_PANELS) * len(TRACE_CASES) * self.runs


@dataclass(frozen=True, eq=False, kw_only=True)
class TraceCurve:
    """One way to treat late nodes on one trace: means over runs, point by point, and the first run's epsilon.

    `epsilon` is that of the pair that learned most (of what the server learned about the busiest node), at the points
    where it was computed, and nan elsewhere.
    """

    panel: str
    case: str
    timeout: float
    steps: NDArray[np.int64]
    updates: Floats
    latency: Floats
    error: Floats
    error_std: Floats
    epsilon: Floats
    passed_on: float
    fewest: float
    most: float


def trace_study(
    folder: Path,
    study: TraceStudy,
    *,
    stop: threading.Event | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[TraceCurve]:
    """Follow the traces of a folder, panel by panel and case by case."""
    for name in TRACE_FILES:
        if not (folder / name).is_file():
            raise InvalidInput.because("traces", folder, f"{name} is not in it; docs/lateness.md says what it holds")
    curves: list[TraceCurve] = []
    with one_blas_thread():
        for panel, case in product(TRACE_PANELS, TRACE_CASES):
            setup = _setup(folder, study, panel, case)
            outputs = []
            before = len(curves) * study.runs
            for output in run_many(setup, list(range(study.runs)), stop=stop):
                outputs.append(output)
                if progress is not None:
                    progress(before + len(outputs))
            if len(outputs) < study.runs:
                raise Interrupted(f"{before + len(outputs)} of {study.pieces} runs are finished")
            curves.append(_curve(setup, panel, case, outputs))
    return curves


def _values(folder: Path, study: TraceStudy, panel: str) -> dict[str, dict[str, Any]]:
    """Return the run file of a panel. Half of what a phone or worker takes is preparing, half is computing.

    Nodes hold mostly one class each, and the intercept learns the classes' shares: who is left out is missed.
    """
    nodes = min(study.most_nodes, {"phones": 300, "cluster": 100, "links": 99}[panel])
    values: dict[str, dict[str, Any]] = {
        "data": {"name": study.data, "nodes": nodes, "split": "dirichlet-even", "alpha": 0.1},
        "model": {"intercept": True},
        "schedule": {"name": USUAL_SCHEDULE, "steps": nodes * study.rounds},
        "delay": {"hop_latency": 0.05},
        "privacy": {"protects": "record", "noise_multiplier": TRACE_NOISE, "delta": TRACE_DELTA},
        "learning": {"rate": 0.3},
        "simulation": {"seed": 1, "evaluate_every": max(1, nodes * study.rounds // 80)},
    }
    phones, cluster, links = (folder / name for name in TRACE_FILES)
    prepare = compute = f"trace:{phones},training_seconds,0.5"
    if panel == "phones":
        values["stragglers"] = {"availability": f"trace:{phones}"}
    elif panel == "cluster":
        # Mini-batch times are published relative to the longest; here that is ten seconds.
        prepare = compute = f"trace:{cluster},job4,0.005"
    else:
        prepare, compute = "lomax:3,2", "exponential:0.2"
        values["network"] = {"latency": f"trace:{links}"}
    values["delay"]["law"], values["compute"] = prepare, {"law": compute}
    return values


def _setup(folder: Path, study: TraceStudy, panel: str, case: str) -> Setup:
    values = _values(folder, study, panel)
    values["delay"]["timeout"] = 1.0  # found below, from the setup itself
    if case in ("kept", "ahead"):
        values["delay"]["ready"] = case
    elif case == "ahead, fewer rows":
        values["delay"]["ready"], values["compute"]["late"] = "ahead", "fewer-rows"
    elif case == "server":
        values["schedule"] = {"name": Federated.name, "steps": study.rounds}
        values["simulation"]["evaluate_every"] = 1
        if "network" in values:  # a server is as far from all nodes as two nodes are in the median
            pairs = build(parse_run(_values(folder, study, panel))).lateness.latency
            assert pairs is not None
            values["delay"]["hop_latency"] = float(np.median(pairs.seconds))
            del values["network"]
    setup = build(parse_run(values))
    timeout = math.inf if case == "never skip" else best_timeout(_answers(setup), setup.run.delay.hop_latency)
    return setup.having(timeout=timeout)


def _answers(setup: Setup) -> Empirical:
    """Return the law of how long a node takes to answer that is asked at any time and begins anew."""
    rng = np.random.default_rng(7)
    nodes, lateness = setup.data.nodes, setup.lateness
    asked = rng.permutation(np.arange(_ANSWERS) % nodes)
    times = setup.delay.at_turns(asked, rng)
    if lateness.compute is not None:
        times = times + lateness.compute.at_turns(asked, rng)
    if lateness.availability is not None:
        moments = np.sort(rng.random(_ANSWERS // nodes + 1)) * lateness.availability.period
        waits = np.concatenate([lateness.availability.waits(float(moment), nodes) for moment in moments])
        who = np.tile(np.arange(nodes), len(moments))
        # Of the same node, since who is slow may also be seldom there.
        by_node = times[np.argsort(asked, kind="stable")]
        count = np.bincount(asked, minlength=nodes)
        first = np.cumsum(count) - count
        times = waits + by_node[first[who] + np.floor(rng.random(len(who)) * count[who]).astype(int)]
    return Empirical(times.tolist())


def _curve(setup: Setup, panel: str, case: str, outputs: Sequence[RunOutput]) -> TraceCurve:
    errors, latencies = (np.array([getattr(each, name) for each in outputs]) for name in ("test_error", "latency"))
    counts = np.sort(np.mean([each.turns - each.skips for each in outputs], axis=0))
    quarter = max(1, len(counts) // 4)
    chosen = np.unique(np.linspace(1, len(setup.points) - 1, _POINTS).astype(int))
    epsilon = np.full(len(setup.points), np.nan)
    epsilon[0] = 0.0
    for point in chosen:
        epsilon[point] = _epsilon(setup, outputs[0], int(setup.points[point]))
    return TraceCurve(
        panel=panel,
        case=case,
        timeout=setup.timeout,
        steps=setup.points,
        updates=np.mean([each.updates for each in outputs], axis=0),
        latency=latencies.mean(axis=0),
        error=errors.mean(axis=0),
        error_std=deviation(errors),
        epsilon=epsilon,
        passed_on=float(np.mean([each.passed_on.mean() if len(each.passed_on) else 0.0 for each in outputs])),
        fewest=float(counts[:quarter].mean()),
        most=float(counts[-quarter:].mean()),
    )


def _epsilon(setup: Setup, output: RunOutput, steps: int) -> float:
    """Return what was learned by then about the node of which most was: by another node, or by the server."""
    if setup.iterations:
        # The server sees every upload, each of which counts in full; a batch holds all rows of a node.
        assert setup.part_counts == (1,)
        uploads = int(who_is_ready(setup, 0)[:steps].sum(axis=0).max())
        return gdp_epsilon(2.0 / setup.noise_multiplier * math.sqrt(uploads), TRACE_DELTA)
    return transcript_account(setup, output, steps).epsilon(TRACE_DELTA)
