"""Runs that went many ways, made up at random: trees of tokens, who was sent which, and what each node can tell of it.

They are wilder than what the protocol does: any copy may be gone on with, again and again, and any node may be silent
afterwards. What it keeps is what the accounts rest on: one way per ballot, a ballot that is gone on under was promised
by a majority before, and whoever leads a recovery has written down from where.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from world import fake_seals

from skipring.network.protocol import (
    Ballot,
    Kind,
    Rank,
    Rules,
    Token,
    Told,
    blank_chain,
    stamped,
)


@dataclass
class Ways:
    """All that happened in a run, and what each node can tell."""

    rng: random.Random
    rules: Rules
    quick: float  # how often nodes are in time
    updates: dict[bytes, tuple[int, bytes]] = field(default_factory=dict)  # token -> author, token before
    number: dict[bytes, int] = field(default_factory=dict)
    hop: dict[bytes, int] = field(default_factory=dict)
    seen: dict[int, set[bytes]] = field(default_factory=dict)
    releases: list[tuple[int, Ballot, int, Token]] = field(default_factory=list)  # author, ballot, hop, token with it
    starts: dict[Ballot, Rank | None] = field(default_factory=dict)  # None: it was never gone on with
    promised: dict[Ballot, set[int]] = field(default_factory=dict)
    informed: dict[Ballot, set[int]] = field(default_factory=dict)  # who knows the start
    passed: dict[int, dict[Ballot, int]] = field(default_factory=dict)
    taken: dict[int, dict[Ballot, int]] = field(default_factory=dict)
    copies: dict[Rank, Token] = field(default_factory=dict)
    outcome: Token | None = None

    @property
    def first(self) -> Ballot:
        return 0, self.rules.path[0]

    @property
    def decided(self) -> Ballot:
        return max((ballot for ballot, start in self.starts.items() if start is not None), default=self.first)

    def told(self, node: int, below: Ballot | None = None) -> Told:
        """Return what a node tells, or what it knows of lower ballots."""
        starts = {
            ballot: start if node in self.informed[ballot] else None
            for ballot, start in self.starts.items()
            if node in self.promised[ballot] and (below is None or ballot < below)
        }
        if below is not None:
            return Told(starts)
        return Told(starts, self.passed.get(node, {}), self.taken.get(node, {}))

    # How it comes about.

    def go(self, ballot: Ballot, token: Token, hop: int, kind: Kind, until: int) -> None:
        """Let a run go on under a ballot from a copy, up to a hop."""
        rng, rules = self.rng, self.rules
        holder = rules.node_of(hop) if 1 <= hop <= rules.steps else rng.randrange(rules.nodes)
        if ballot == self.first:
            holder = rules.path[0]
        at, waits = hop, kind is Kind.ACCEPTED
        while True:
            if waits and rng.random() < self.quick:
                token = self.update(ballot, at, token)
            while True:
                at += 1
                if at > min(until, rules.steps):
                    break
                self.offer(holder, ballot, at, token)
                if rng.random() < self.quick:  # it was in time
                    holder, waits = self.take(ballot, at, token), True
                    break
            if at > min(until, rules.steps):
                break
        if until > rules.steps:
            self.end(holder, ballot, token)

    def update(self, ballot: Ballot, hop: int, token: Token) -> Token:
        """Let the node of a hop, which has the token, make an update."""
        node, made, before = self.rules.node_of(hop), self.rng.randbytes(16), token.parameters
        assert isinstance(before, bytes)
        self.updates[made] = node, before
        self.look(node, token)
        seal = fake_seals(self.rules.nodes)[node]
        token = stamped(token, ballot, hop, made, self.rng.randbytes(32), me=node, seal=seal)
        self.number[made], self.hop[made] = token.updates, hop
        self.releases.append((node, ballot, hop, token))
        self.look(node, token)
        self.copies[ballot, hop, Kind.UPDATED] = token
        return token

    def offer(self, holder: int, ballot: Ballot, hop: int, token: Token) -> None:
        """Let a holder send the token for a hop, perhaps in vain."""
        node = self.rules.node_of(hop)
        if node != holder:
            self.note(self.passed, holder, ballot, hop)
            self.look(node, token)

    def take(self, ballot: Ballot, hop: int, token: Token) -> int:
        """Let the node of a hop take the token; return it."""
        node = self.rules.node_of(hop)
        self.note(self.taken, node, ballot, hop)
        self.copies[ballot, hop, Kind.ACCEPTED] = token
        return node

    def end(self, holder: int, ballot: Ballot, token: Token) -> None:
        """Let everybody have the final model."""
        self.outcome = token
        self.note(self.passed, holder, ballot, self.rules.steps + 1)
        for node in range(self.rules.nodes):
            self.look(node, token)

    def look(self, node: int, token: Token) -> None:
        if token.updates:
            assert isinstance(token.parameters, bytes)
            self.seen.setdefault(node, set()).add(token.parameters)

    @staticmethod
    def note(where: dict[int, dict[Ballot, int]], node: int, ballot: Ballot, hop: int) -> None:
        of_node = where.setdefault(node, {})
        of_node[ballot] = of_node.get(ballot, 0) | 1 << hop


def detour(informed: set[int]) -> Ways:
    """A run in which node 4 sees bare, beside the line, what is hidden from it on the line.

    Node 0 releases an update. Node 1 takes the token and passes it on as it is; nodes 2 and 4 update it, then node 3
    has it. Meanwhile node 1 was told to go on from its copy, under a ballot of node 3 that nodes 1, 3 and 4 have
    promised, and sends it to node 4. Node 3 passes the token on, node 0 releases once more, and goes on with that under
    a third ballot, which all have promised. Of the second one only the informed know from where it went on.
    """
    found = Ways(random.Random(1), Rules(nodes=5, path=[0, 1, 2, 4, 3, 0], timeout=1.0), 1.0)
    first, beside, last = found.first, (1, 3), (2, 2)
    bare = found.update(first, 1, Token(0, b"initial", blank_chain(6, b"ways")))
    found.offer(0, first, 2, bare)
    found.take(first, 2, bare)
    found.offer(1, first, 3, bare)
    found.take(first, 3, bare)
    token = found.update(first, 3, bare)
    found.offer(2, first, 4, token)
    found.take(first, 4, token)
    token = found.update(first, 4, token)
    found.offer(4, first, 5, token)
    found.take(first, 5, token)
    found.offer(1, beside, 3, bare)
    found.offer(1, beside, 4, bare)
    found.take(beside, 4, bare)
    found.starts = {beside: (first, 2, Kind.ACCEPTED), last: (first, 6, Kind.UPDATED)}
    found.promised = {beside: {1, 3, 4}, last: set(range(5))}
    found.informed = {beside: informed, last: set(range(5))}
    found.offer(3, first, 6, token)
    found.take(first, 6, token)
    found.end(0, last, found.update(first, 6, token))
    return found


def ways(seed: int) -> Ways:
    """Make up a run."""
    rng = random.Random(seed)
    nodes = rng.randint(3, 6)
    path = [rng.randrange(nodes) for _ in range(rng.randint(4, rng.choice([3, 8]) * nodes))]
    found = Ways(rng, Rules(nodes=nodes, path=path, timeout=1.0), rng.choice([0.6, 0.9, 1.0]))
    steps, majority = found.rules.steps, found.rules.majority
    initial = Token(0, b"initial", blank_chain(steps, b"ways"))
    found.copies[found.first, 0, Kind.INITIAL] = initial
    recoveries, told = rng.randint(1, 4), rng.choice([0.0, 0.3, 0.8])
    found.go(found.first, initial, 0, Kind.INITIAL, rng.randint(steps // 2, steps))
    for number in range(1, recoveries + 1):
        ballot, last = (number, rng.randrange(nodes)), number == recoveries
        goes_on = last or rng.random() < 0.8
        promised = set(rng.sample(range(nodes), rng.randint(majority if goes_on else 1, nodes))) | {ballot[1]}
        found.promised[ballot] = set(range(nodes)) if last else promised
        found.informed[ballot] = {ballot[1], *(node for node in promised if rng.random() < told)}
        found.starts[ballot] = None
        if goes_on:
            # Mostly one of the furthest copies, which is what a recovery finds.
            furthest = sorted(found.copies)[-rng.choice([1, 3, len(found.copies)]) :]
            rank = rng.choice(furthest)
            found.starts[ballot] = rank
            token = found.copies[rank]
            found.copies[ballot, rank[1], rank[2]] = token
            found.go(ballot, token, rank[1], rank[2], steps + 1 if last else rng.randint(rank[1], steps))
    return found
