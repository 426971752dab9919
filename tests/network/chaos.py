"""Real processes in trouble: nodes that are killed, delayed and cut off, and what their journals must say in the end.

The promises are those of docs/protocol.md, as far as journals can tell.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import re
import shutil
import signal
import sqlite3
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from networks import IDENTITY
from numpy.typing import NDArray
from summing import account_of

from skipring.network.node import AccountTerms, OwnAccount
from skipring.network.protocol import (
    Ballot,
    Entry,
    Kept,
    Kind,
    Memory,
    Over,
    Passing,
    Place,
    Released,
    Token,
    blank_chain,
    marks_of,
    updated_hops,
)
from skipring.network.setup import (
    LocalNetwork,
    NewSettings,
    Via,
    agreed_run,
    make_network,
    node_status,
    run_text,
    terms_of,
)
from skipring.network.storage import JournalReading, digest_of, read_journal
from skipring.network.storage._entries import lines_in, token_in
from skipring.network.transport import Address, read_roster
from skipring.privacy import Transcript, TranscriptAccountant, gdp_epsilon
from skipring.runs import parse_run, read_run_file

#: Of all epsilons here.
DELTA = 1e-5


class Broken(AssertionError):
    """A promise was broken."""


# Networks on this machine.


def make(
    folder: Path,
    addresses: Sequence[Address],
    *,
    steps: int,
    delay: str | None,
    timeout: float,
    lease: float,
    silence: float,
    via: Via | None = None,
) -> None:
    """Make a network whose nodes start quickly: a few rows in a file, and nothing that takes long to load."""
    rng = np.random.default_rng(1)
    features = rng.normal(size=(20 * len(addresses), 4))
    labels = (features.sum(axis=1) + rng.normal(size=len(features)) > 0.0).astype(float)
    rows = folder.parent / "rows.csv"
    np.savetxt(rows, np.column_stack([features, labels]), delimiter=",", header="a,b,c,d,outcome", comments="")
    run = {
        "data": {"path": str(rows), "label": "outcome"},
        "model": {"name": "logistic"},
        "schedule": {"name": "random-ring", "steps": steps},
        "delay": {"timeout": timeout, "ready": "fresh"},  # or there would be little to wait for
        "privacy": {"noise_multiplier": 5.0},
        "network": {"lease": lease, "silence": silence},
    }
    names = [f"node{number}" for number in range(1, len(addresses) + 1)]
    text = run_text(agreed_run(parse_run(run), len(addresses), IDENTITY)).encode()
    make_network(folder, names, addresses, run=text, settings=NewSettings(delay=delay), via=via)


def on_loopback(first: int, count: int) -> list[Address]:
    """Return addresses of this machine with neighbouring ports."""
    return [Address("127.0.0.1", first + node) for node in range(count)]


def listen_at(folder: Path, node: int, address: Address) -> None:
    """Let a node listen somewhere else than where others reach it: behind a proxy."""
    _change(folder, node, r'(?m)^listen = "[^"]*"', f'listen = "{address}"')


def give_budget(folder: Path, node: int, releases: int) -> None:
    """Let a node give away so many releases and no more, whatever happens elsewhere."""
    noise = terms_in(folder, node).noise_multiplier
    epsilon = gdp_epsilon(math.sqrt(releases + 0.5) * 2.0 / noise, DELTA)
    budget = f'[budget]\nepsilon = {epsilon}\ndelta = {DELTA}\ncount = "releases"'
    _change(folder, node, r"(?m)^\[budget\]$", budget)


def _change(folder: Path, node: int, before: str, after: str) -> None:
    path = folder / f"node{node + 1}" / "node.toml"
    text, found = re.subn(before, after, path.read_text())
    assert found == 1
    path.write_text(text)


class Network(LocalNetwork):
    """A network whose nodes are killed, and started again unless they are to stay dead."""

    def __init__(self, folder: Path, prefix: Callable[[str], Sequence[str]] = lambda name: ()) -> None:
        # If this process is killed itself, so are the nodes.
        with_us = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        super().__init__(folder, prefix=lambda name: [*with_us, *prefix(name)])
        self.gone: set[str] = set()
        self.kills: list[tuple[float, str]] = []

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGTERM, _interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._processes:
                self.stop()
        finally:
            signal.signal(signal.SIGTERM, self._before)

    def start_node(self, name: str) -> None:
        """Start a node, if it is not to stay dead."""
        if name not in self.gone:
            super().start_node(name)

    def kill(self, *names: str, for_good: bool = False) -> None:
        """Kill nodes at once, without a word."""
        if for_good:
            self.gone.update(names)
        for name in names:
            if name in self._processes and self._processes[name].poll() is None:
                os.kill(self.pid(name), signal.SIGKILL)
                self.kills.append((time.time(), name))

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Let time stand still in all nodes, to see or change something at one moment."""
        pids = [self.pid(name) for name in self.alive]
        try:
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def holder(self) -> str | None:
        """Return who says that it holds the token, under the highest ballot; it may have passed it on meanwhile."""
        found = [status for config in self.configs if (status := node_status(config, 0.2)) and status.holding]
        return max(found, key=lambda status: (status.ballot, status.hop)).name if found else None

    @property
    def alive(self) -> list[str]:
        """The nodes that are not to stay dead."""
        return [name for name in self.roster.names if name not in self.gone]

    @property
    def ended(self) -> set[str]:
        """Those that have the final model."""
        return {name for name in self.roster.names if (self.folder / name / "result.json").exists()}

    def readings(self) -> list[JournalReading]:
        """Read all journals, whether their nodes run or not."""
        return [read_journal(config.journal) for config in self.configs if config.journal.exists()]

    def watch(self, seconds: float) -> None:
        """Start nodes again that died, for so long; none may end by itself before the run is over."""
        until = time.monotonic() + seconds
        while True:
            for name, process in list(self._processes.items()):
                code = process.poll()
                if code is not None and code < 0:
                    self.start_node(name)
                elif code or (code == 0 and name not in self.ended):
                    raise Broken(f"{name} ended with exit code {code}: {self.log(name, 5)}")
            if time.monotonic() >= until:
                return
            time.sleep(min(0.1, max(0.0, until - time.monotonic())))

    def wait(self, what: str, condition: Callable[[], bool], deadline: float = 180.0) -> None:
        """Wait until a condition holds, and fail if it never does."""
        until = time.monotonic() + deadline
        while not condition():
            if time.monotonic() > until:
                logs = "".join(f"\n{name}: {self.log(name, 6)}" for name in self.alive)
                raise Broken(f"6: not {what} after {deadline:.0f} s; {self._where()}{logs}")
            self.watch(0.2)

    def finish(self, deadline: float = 180.0) -> None:
        """Wait until every node that lives has the final model; stop all."""
        self.wait("finished", lambda: self.ended.issuperset(self.alive), deadline)
        until = time.monotonic() + 30.0
        while not self.settled and time.monotonic() < until:  # if too few answer, they never are
            self.watch(0.5)
        self.stop()

    @property
    def settled(self) -> bool:
        """Whether all that live, and that a recovery has cost something, know how much."""
        memories = [reading.memory for reading in self.readings() if reading.node in self.alive]
        return all(memory.settled is not None for memory in memories if memory.starts and memory.ledger)

    def log(self, name: str, lines: int) -> str:
        """Return the end of a node's log."""
        path = self.folder / name / "node.log"
        return " / ".join(path.read_text(errors="replace").splitlines()[-lines:]) if path.exists() else "no log"

    def _where(self) -> str:
        memories = {reading.node: reading.memory for reading in self.readings()}
        said = [
            f"{name} promised {memory.promised}, has {memory.copy.rank}, passing {memory.passing}, gone {memory.gone}"
            for name, memory in memories.items()
        ]
        return "; ".join(said)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


# What journals must say.


class Update(NamedTuple):
    """An update, as its author's journal has it; tokens are known by their chains."""

    author: int
    place: Place
    before: bytes
    number: int


@dataclass
class Findings:
    """What the journals of all nodes add up to."""

    terms: AccountTerms
    updates: dict[bytes, Update] = field(default_factory=dict)  # the chain with it -> the update
    starts: dict[Ballot, tuple[int, bytes]] = field(default_factory=dict)  # ballot -> who went on with which chain
    sent: dict[tuple[int, Place], bytes] = field(default_factory=dict)  # who was about to pass on which chain
    taken: dict[Place, tuple[int, bytes]] = field(
        default_factory=dict
    )  # who passed on which chain, and it was accepted
    votes: defaultdict[tuple[Ballot, bytes], set[int]] = field(default_factory=lambda: defaultdict(set))
    seen: defaultdict[int, set[bytes]] = field(default_factory=lambda: defaultdict(set))  # who has had which chains
    final: bytes = b""

    @property
    def recoveries(self) -> int:
        """How many ballots somebody has gone on under, beside the first."""
        return len(self.starts) - 1


#: Whoever hears of nobody for two rounds waits: so often its own turn may come until then, and once more after a crash.
_IN_A_ROW = 5


def terms_in(folder: Path, me: int) -> AccountTerms:
    """Return what decides the cost of a node's updates."""
    path = folder / "run.toml"
    return terms_of(read_run_file(path), path, read_roster(folder / "roster.toml"), me, parts=1)


def check_journals(terms: AccountTerms, readings: Sequence[JournalReading], gone: Iterable[int] = ()) -> Findings:
    """Check all promises that journals can tell of; `gone` are nodes that need not know the final model."""
    first = terms.path[0]
    found = Findings(terms)
    run = readings[0].run_digest.split()[0]
    blank = blank_chain(terms.steps, bytes.fromhex(run))
    found.starts[0, first] = first, blank
    for node, reading in enumerate(readings):
        if reading.run_digest.split()[0] != run:
            raise Broken(f"node {node} has another run")
        memory = Memory.blank(first, Token(0, b"", blank))
        for _, entry in reading.entries:
            _check_entry(found, node, memory, entry)
            memory = memory.after(entry)
    _check_ballots(found)
    _check_end(found, readings, set(gone), blank)
    return found


def _check_entry(found: Findings, node: int, memory: Memory, entry: Entry) -> None:
    if isinstance(entry, Kept):
        _check_kept(found, node, memory, entry)
    elif isinstance(entry, Released):
        _check_released(found, node, memory, entry)
    elif isinstance(entry, Passing):
        copy, place = memory.copy, (entry.ballot, entry.hop)
        if entry.ballot != copy.ballot or entry.hop <= copy.hop:
            raise Broken(f"3: node {node} passes on {place}, having {copy.rank}")
        if found.sent.setdefault((node, place), copy.token.chain) != copy.token.chain:
            raise Broken(f"3: node {node} passes on two tokens for {place}")
    elif isinstance(entry, Over):
        found.seen[node].add(entry.token.chain)


def _check_kept(found: Findings, node: int, memory: Memory, entry: Kept) -> None:
    had, new = memory.copy, entry.copy
    chain, place = new.token.chain, (new.ballot, new.hop)
    found.seen[node].add(chain)
    if new.ballot < memory.promised:
        raise Broken(f"4: node {node} accepts {new.rank} below its promise {memory.promised}")
    if new.kind is Kind.FINAL:
        found.votes[new.ballot, chain].add(node)
    if entry.sender is None and new.ballot != had.ballot:
        if (new.hop, new.kind, chain) != (had.hop, had.kind, had.token.chain):
            raise Broken(f"1: node {node} goes on under ballot {new.ballot} with something else")
        if found.starts.setdefault(new.ballot, (node, chain))[0] != node:
            raise Broken(f"1: nodes {found.starts[new.ballot][0]} and {node} both go on under {new.ballot}")
    elif new.kind is Kind.ACCEPTED:
        denied = None if entry.sender is None else memory.denied(entry.sender)
        if place <= (had.ballot, had.hop) or (denied is not None and place <= denied):
            raise Broken(f"3: node {node} accepts {place}, which it had, or said it never would")
        if found.terms.path[new.hop - 1] != node:
            raise Broken(f"3: node {node} accepts {place}, which is not its own")
        own = entry.sender == memory.sender and (had.ballot, had.token.chain) == (new.ballot, chain)
        found.taken[place] = node if own or entry.sender is None else entry.sender, chain


def _check_released(found: Findings, node: int, memory: Memory, entry: Released) -> None:
    had, chain, place = memory.copy, entry.copy.token.chain, (entry.copy.ballot, entry.copy.hop)
    found.seen[node].update((chain, had.token.chain))
    if (had.ballot, had.hop, had.kind) != (*place, Kind.ACCEPTED) or found.terms.path[place[1] - 1] != node:
        raise Broken(f"3: node {node} updates at {place}, having {had.rank}")
    if place in memory.ledger:
        raise Broken(f"3: node {node} updates twice at {place}")
    if marks_of(chain) != marks_of(had.token.chain) | 1 << (place[1] - 1) or chain in found.updates:
        raise Broken(f"2: the update of node {node} at {place} does not go on from what it had")
    found.updates[chain] = Update(node, place, had.token.chain, entry.copy.token.updates)


def _check_ballots(found: Findings) -> None:
    """Under one ballot there is one chain: each update goes on from the one before, each token sent has all of them."""
    made: dict[Ballot, list[tuple[int, bytes]]] = {ballot: [(0, start)] for ballot, (_, start) in found.starts.items()}
    for chain, update in sorted(found.updates.items(), key=lambda one: one[1].place):
        ballot, hop = update.place
        if ballot not in made:
            raise Broken(f"1: an update at {update.place}, and nobody has gone on under that ballot")
        if made[ballot][-1][1] != update.before:
            raise Broken(f"1: under ballot {ballot} there are two chains at hop {hop}")
        made[ballot].append((hop, chain))
    for ballot, chains in made.items():
        authors = [found.updates[chain].author for hop, chain in chains if hop]
        for author, together in itertools.groupby(authors):
            if len(list(together)) > _IN_A_ROW:
                raise Broken(f"8: node {author} goes on by itself under ballot {ballot}, and gives away its updates")
    for place, (sender, token) in found.taken.items():
        ballot, hop = place
        if ballot not in made or made[ballot][bisect_left(made[ballot], (hop, b"")) - 1][1] != token:
            raise Broken(f"1: node {sender} passes on another token at {place} than the newest one")
        if found.terms.path[hop - 1] != sender and found.sent.get((sender, place)) != token:
            raise Broken(f"7: node {sender} passed on the token of {place} without having written it down")


def _check_end(found: Findings, readings: Sequence[JournalReading], gone: set[int], blank: bytes) -> None:
    outcomes = {}
    for node, reading in enumerate(readings):
        if reading.memory.outcome is not None:
            outcomes[node] = reading.memory.outcome
        elif node not in gone:
            raise Broken(f"6: node {node} has not ended")
    if len({(token.updates, digest_of(token.parameters), token.chain) for token in outcomes.values()}) != 1:
        raise Broken("1: different final models")
    token = next(iter(outcomes.values()))
    chain, count = token.chain, 0
    releases = {(node, one.ballot, one.hop): one for node, each in enumerate(readings) for one in each.releases}
    newest = found.updates.get(chain)
    last = None if newest is None else releases.get((newest.author, *newest.place))
    if last is None or last.parameters != digest_of(token.parameters):
        raise Broken("2: the final model is not the last update of its chain")
    while chain != blank:
        update = found.updates.get(chain)
        if update is None or (update.author, *update.place) not in releases:
            raise Broken(f"2: an update of the final model, {token.updates - count}, is in nobody's journal")
        if update.number != token.updates - count:
            raise Broken("2: the final model is not one chain of updates")
        chain, count = update.before, count + 1
    majority = found.terms.nodes // 2 + 1
    if count != token.updates or count != len(updated_hops(token.chain)):
        raise Broken("2: the final model is not one chain of updates")
    if max((len(who) for (_, voted), who in found.votes.items() if voted == token.chain), default=0) < majority:
        raise Broken("1: no majority has written down the final model under one ballot")
    found.final = token.chain


def check_bytes(journals: Iterable[Path]) -> int:
    """Check that all tokens with the same chain are the same bytes, wherever they were written down; count them."""
    known: dict[bytes, str] = {}
    for path in journals:
        with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            (first,) = connection.execute("SELECT body FROM entries WHERE number = 0").fetchone()
            base = Token(0, b"", bytes.fromhex(json.loads(first)["copy"]["chain"]))
            for (body,) in connection.execute("SELECT body FROM entries WHERE number > 0 ORDER BY number"):
                read = lines_in(body, base, {})
                base = read.base
                for line in read.lines:
                    token = token_in(line.entry)
                    if token is not None and known.setdefault(token.chain, line.parameters) != line.parameters:
                        raise Broken("1: two tokens with the same chain")
    return len(known)


# What nodes have given away.


def learned(found: Findings, observer: int) -> NDArray[np.float64]:
    """Return mu^2 that an observer has learned of each node, had all gradients been constants: at least so much.

    All tokens it wrote down, on whatever chain, are Gaussian then. What it learns is how far the shift of a node's
    updates reaches into the space of these tokens, for some signs of the gradients.
    """
    lines: dict[bytes, list[bytes]] = {}
    for chain in found.seen[observer]:
        at, line = chain, []
        while at in found.updates:
            line.append(at)
            at = found.updates[at].before
        if line:
            lines[chain] = line
    made = {name for line in lines.values() for name in line}
    names = sorted(made, key=lambda name: (found.updates[name].number, name))
    mu2 = np.zeros(found.terms.nodes)
    if not names:
        return mu2
    place = {name: index for index, name in enumerate(names)}
    sizes = np.asarray(found.terms.step_sizes)[[found.updates[name].number - 1 for name in names]]
    tokens = np.zeros((len(names), len(lines)))
    for column, line in enumerate(lines.values()):
        rows = [place[name] for name in line]
        tokens[rows, column] = sizes[rows]
    basis = np.linalg.qr(tokens)[0]
    authors = np.array([found.updates[name].author for name in names])
    for target in set(authors.tolist()) - {observer}:
        own = basis[authors == target]
        tries = [np.ones(len(own)), (-1.0) ** np.arange(len(own)), np.sign(np.linalg.svd(own)[0][:, 0])]
        mu2[target] = max(float(np.sum((signs @ own) ** 2)) for signs in tries)
    return mu2 * (2.0 / found.terms.noise_multiplier) ** 2


def check_accounts(folder: Path, found: Findings, readings: Sequence[JournalReading]) -> list[OwnAccount]:
    """Check that no node's own account says less than what others learned of it; return the accounts.

    Three bounds from below: what the others' journals tell, if gradients were constants; the account of somebody who
    knows the final chain alone; and for releases in full, their number.
    """
    accounts = []
    told = np.array([learned(found, observer) for observer in range(found.terms.nodes)]).T
    whole = final_account(found)
    for node, reading in enumerate(readings):
        account = account_of(terms_in(folder, node), (entry for _, entry in reading.entries))
        accounts.append(account)
        said = account.by_observer()
        if np.any(told[node] > said * (1.0 + 1e-9)):
            raise Broken(f"node {node} says {said}, and others learned {told[node]}")
        if np.any(whole[node] > said * (1.0 + 1e-9)):
            raise Broken(f"node {node} says {said}, and the final chain alone gives away {whole[node]}")
        released = sum(update.author == node for update in found.updates.values())
        full = math.sqrt(released) * 2.0 / account.terms.noise_multiplier
        if account.releases != released or account.epsilon_of_releases(DELTA) < gdp_epsilon(full, DELTA):
            raise Broken(f"node {node} has released {released} updates, and counts {account.releases}")
        result = folder / reading.node / "result.json"
        if result.exists():
            status = json.loads(result.read_text())
            if (status["own_updates"], status["guarantee"]["epsilon"]) != (
                released,
                account.epsilon(status["guarantee"]["delta"]),
            ):
                raise Broken(f"node {node} said {status['epsilon']} while it ran, and its journal says otherwise")
    return accounts


def final_account(found: Findings) -> NDArray[np.float64]:
    """Return mu^2 of [target, observer] in the final chain, as if nothing else had been sent."""
    terms = found.terms
    hops = updated_hops(found.final)
    updated = np.zeros(terms.steps, dtype=bool)
    updated[np.array(hops) - 1] = True
    run = Transcript(
        nodes=terms.nodes,
        offered=np.array(terms.path),
        updated=updated,
        step_sizes=np.asarray(terms.step_sizes)[: len(hops)],
        noise_multiplier=terms.noise_multiplier,
        convex=terms.convex,
    )
    mu2: NDArray[np.float64] = np.square(TranscriptAccountant(run).matrix(threads=1), dtype=np.float64)
    return mu2


@dataclass
class Report:
    """What happened in a run, in numbers."""

    hops: int
    updates: int
    lost: int
    recoveries: int
    releases: list[int]  # of each node
    kills: int
    of_holders: int
    seconds: float
    gaps: dict[str, float]
    epsilon: float
    epsilon_of_releases: float
    epsilon_by_journal: float  # as if nobody had told anything after the end
    epsilon_of_chain: float  # of the final chain alone

    def __str__(self) -> str:
        gaps = ", ".join(f"{name} {seconds:.2f}" for name, seconds in self.gaps.items())
        return (
            f"{self.kills} kills ({self.of_holders} of holders), {self.recoveries} recoveries, {self.hops} hops, "
            f"{self.updates} updates and {self.lost} lost ones in {self.seconds:.0f} s; standing still (s): {gaps}; "
            f"epsilon of the worst node {self.epsilon:.3f}, of releases {self.epsilon_of_releases:.3f}, "
            f"by journals alone {self.epsilon_by_journal:.3f}, of the final chain {self.epsilon_of_chain:.3f}"
        )


def check_all(network: Network) -> Report:
    """Check everything that can be told after a run, and say what happened."""
    readings = network.readings()
    gone = {network.roster.index(name) for name in network.gone}
    terms = terms_in(network.folder, 0)
    found = check_journals(terms, readings, gone)
    check_bytes(config.journal for config in network.configs)
    models = {(network.folder / name / "model.npy").read_bytes() for name in network.ended}
    if len(models) != 1:
        raise Broken("1: different final models")
    accounts = check_accounts(network.folder, found, readings)
    times = progress(readings)
    worst = max(accounts, key=lambda account: account.mu2)
    return Report(
        hops=terms.steps,
        updates=len(updated_hops(found.final)),
        lost=len(found.updates) - len(updated_hops(found.final)),
        recoveries=found.recoveries,
        releases=[account.releases for account in accounts],
        kills=len(network.kills),
        of_holders=sum(was_holding(terms, readings, network.roster.index(name), at) for at, name in network.kills),
        seconds=times[-1] - times[0],
        gaps=gaps(times),
        epsilon=worst.epsilon(DELTA),
        epsilon_of_releases=max(account.epsilon_of_releases(DELTA) for account in accounts),
        epsilon_by_journal=gdp_epsilon(math.sqrt(max(account.mu2_by_journal for account in accounts)), DELTA),
        epsilon_of_chain=gdp_epsilon(math.sqrt(final_account(found).max()), DELTA),
    )


def progress(readings: Sequence[JournalReading]) -> list[float]:
    """Return when the token got somewhere, or was updated, or ended."""
    return sorted(at for each in readings for at, entry in each.entries if isinstance(entry, Kept | Released | Over))


def gaps(times: Sequence[float]) -> dict[str, float]:
    """Return how long the token stood still."""
    waits = np.diff(np.array(times))
    return {
        "median": float(np.median(waits)),
        "99 %": float(np.quantile(waits, 0.99)),
        "longest": float(waits.max()),
        "second": float(np.sort(waits)[-2]),
        "above 2 s together": float(waits[waits > 2.0].sum()),
    }


def was_holding(terms: AccountTerms, readings: Sequence[JournalReading], node: int, at: float) -> bool:
    """Say whether a node had the token at some time, as far as journals tell: passing it on, and nobody had it yet."""
    memory = Memory.blank(terms.path[0], Token(0, b"", b""))
    for written, entry in readings[node].entries:
        if written <= at:
            memory = memory.after(entry)
    if memory.passing is None or memory.outcome is not None or memory.promised != memory.passing[0]:
        return False
    ballot, hop = memory.passing
    there = (
        isinstance(entry, Kept) and entry.sender == node and (entry.copy.ballot, entry.copy.hop) == (ballot, hop)
        for written, entry in readings[terms.path[hop - 1]].entries
        if written <= at
    )
    return not any(there)
