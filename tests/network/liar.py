"""Histories in which one certified member lies: it sends anything, at any time, to anybody, until it is silent.

The liar runs a peer of its own, so that it knows what an honest node in its place would, and a script that sends what
no honest node sends, and changes or keeps back what its peer would have sent. The promises are checked for the others.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any, get_args

import world
from world import Broken, Make, Weather, World, parameters_of

from skipring.network.protocol import (
    KNOWN_BYTES,
    Accepted,
    Answer,
    Ask,
    Ballot,
    Final,
    Hello,
    Kind,
    Message,
    Offer,
    Outcome,
    Pass,
    Peer,
    Prepare,
    Promise,
    Ready,
    Reject,
    Resume,
    Rules,
    Token,
    WishesKnown,
    blank_chain,
    marks_of,
    stamped,
)
from skipring.network.protocol._cutting import known

#: Seconds between two lies, and until when the liar lies; from then on it is silent.
EVERY, SILENT_AT = 0.5, 60.0
HUGE = 2**63 - 1


class LyingWorld(World):
    """A world in which one member lies as a script tells it."""

    def __init__(
        self, seed: int, rules: Rules, weather: Weather, liar: int, script: Script, make: Make = Peer, *, still: bool
    ) -> None:
        self.liar = liar
        self.script = script
        self.lies = random.Random(seed + 1)
        self.overheard: list[tuple[int, int, Message]] = []  # what was sent to the liar, and what it sent
        self.forged: set[bytes] = set()
        self.still = still  # whether the liar is dead afterwards, or just honest again
        super().__init__(seed, rules, weather, make)
        self.later(EVERY, self.lie)

    @property
    def lying(self) -> bool:
        return self.now < SILENT_AT

    def lie(self) -> None:
        if self.lying:
            self.script.act(self)
            self.later(EVERY, self.lie)
        elif self.still and self.machines[self.liar].peer is not None:
            machine = self.machines[self.liar]
            machine.peer, machine.gone = None, True
            machine.life += 1

    def say_to(self, node: int, message: Message) -> None:
        """Send a lie; it arrives, and soon."""
        if node != self.liar and self.lying:
            self.check_sent(self.liar, node, message)
            self.later(self.lies.uniform(0.0, 0.1), lambda: self.deliver(self.liar, node, message))

    def say_to_all(self, message: Message) -> None:
        for node in range(self.rules.nodes):
            self.say_to(node, message)

    def send(self, sender: int, to: int, message: Message) -> None:
        if sender == self.liar and self.lying:
            changed = self.script.instead(self, to, message)
            if changed is not None:
                World.send(self, sender, to, changed)
            return
        super().send(sender, to, message)

    def deliver(self, sender: int, to: int, message: Message) -> None:
        if to == self.liar:
            self.overheard.append((sender, to, message))
            if self.lying and not self.script.hears(message):
                return
        super().deliver(sender, to, message)

    def check_sent(self, sender: int, to: int, message: Message) -> None:
        if sender != self.liar:
            super().check_sent(sender, to, message)
        elif isinstance(message, Ready):
            self.readied.add((sender, message.ballot, message.hop))

    def check_asked(self, sender: int, to: int, message: Ask) -> None:
        if sender != self.liar:
            super().check_asked(sender, to, message)

    def check_release(self, parameters: bytes) -> None:
        made_by_liar = parameters in self.forged or self.updates.get(parameters, (None,))[0] == self.liar
        if not made_by_liar:
            super().check_release(parameters)

    def check_chain(self, token: Token) -> None:
        """What the liar has made up has no history; all that came after it has."""
        parameters, count = parameters_of(token), 0
        while parameters != world.INITIAL.parameters and parameters not in self.forged:
            self.check_release(parameters)
            parameters, count = self.updates[parameters][1], count + 1
        if parameters not in self.forged and count != token.updates:
            raise Broken("2: the final model is not one chain of updates")

    # What the liar knows, and makes up.

    @property
    def ballot(self) -> Ballot:
        """The highest ballot that the liar has heard of."""
        return self.machines[self.liar].memory.promised

    def model(self, hops: list[int], ballot: Ballot | None = None) -> Token:
        """Return a model that nobody has made, with marks for these hops; the liar can sign its own only."""
        made = self.lies.randbytes(32)
        self.forged.add(made)
        token = Token(0, made, blank_chain(self.rules.steps, b"world"))
        for hop in sorted(set(hops)):
            token = self.marked(token, ballot or self.ballot, hop)
        return token

    def marked(self, token: Token, ballot: Ballot, hop: int) -> Token:
        """Return a token with one more mark, signed by the liar in the name of the hop's node."""
        node, seal = self.rules.node_of(hop), self.seals[self.liar]
        commitment = hashlib.sha256(parameters_of(token)).digest()
        return stamped(token, ballot, hop, token.parameters, commitment, me=node, seal=seal)

    def remade(self, token: Token, ballot: Ballot) -> Token:
        """Return a token with the signed history of one that the liar was given, and other parameters.

        At its own turns after it the liar may add marks, which are good ones.
        """
        made = self.lies.randbytes(32)
        self.forged.add(made)
        made_up = replace(token, parameters=made)
        own = [hop for hop in range(1, self.rules.steps + 1) if self.rules.node_of(hop) == self.liar]
        for hop in own:
            if hop > marks_of(made_up.chain).bit_length() and self.lies.random() < 0.3:
                made_up = self.marked(made_up, ballot, hop)
        return made_up

    def some_token(self, marks: list[int], ballot: Ballot) -> Token:
        """Return a token that nobody has made, or one that the liar was given, changed or not."""
        sent = [message for _, _, message in self.overheard if isinstance(message, Pass | Final | Outcome)]
        given = [message.token for message in sent if not (isinstance(message, Pass) and message.since)]
        if not given or self.lies.random() < 0.4:
            return self.model(marks)
        token = self.lies.choice(given)
        return token if self.lies.random() < 0.3 else self.remade(token, ballot)

    def some_known(self) -> bytes:
        """Return marks that some node may have, or that nobody has."""
        marks = self.lies.choice(self.machines).memory.copy.token.chain[32:][: self.lies.randrange(6)]
        return known(marks) if self.lies.random() < 0.7 else self.lies.randbytes(KNOWN_BYTES)

    def any_message(self) -> Message:
        """Return a message of any kind with any content: made up, or one that was sent, or one of those changed."""
        rng, rules = self.lies, self.rules
        number = rng.choice([0, self.ballot[0], self.ballot[0] + 1, self.ballot[0] + rng.randrange(5000), HUGE])
        ballots = [self.ballot, (number, rng.randrange(rules.nodes)), (number, self.liar)]
        hops = [rng.randint(0, rules.steps + 1), rules.steps + 1, self.machines[self.liar].memory.copy.hop + 1]
        marks = [hop for hop in range(1, rules.steps + 1) if rng.random() < rng.choice([0.0, 0.5, 1.0])]
        any_votes = tuple((node, rng.randbytes(8)) for node in range(rules.nodes))
        parts: dict[str, Callable[[], Any]] = {
            "ballot": lambda: rng.choice(ballots),
            "promised": lambda: rng.choice(ballots),
            "hop": lambda: min(rng.choice(hops), rules.steps + 1),
            "has": lambda: rng.random() < 0.5,
            "asked": lambda: rng.random() < 0.5,
            "rank": lambda: (rng.choice(ballots), rng.choice(hops), rng.choice(list(Kind))),
            "token": lambda: self.some_token(marks, rng.choice(ballots)),
            "one": lambda: self.some_token(marks, rng.choice(ballots)).trail,
            "other": lambda: self.some_token(marks, rng.choice(ballots)).trail,
            "signature": lambda: rng.randbytes(8),
            "vote": lambda: rng.randbytes(8),
            "votes": lambda: any_votes,
            "promises": lambda: any_votes,
            "wishes": lambda: rng.choice([(), any_votes, ((self.liar, self.seals[self.liar].wish()),)]),
            "turns": lambda: rng.randbytes(rng.choice([0, 9, 100])),
            "known": self.some_known,
            "since": lambda: rng.choice([0, 0, 1, 2, rng.randrange(rules.steps)]),
            "heard": lambda: rng.randbytes(4 * rng.choice([0, 1, rules.nodes])),
        }
        if self.overheard and rng.random() < 0.5:
            message: Message = rng.choice(self.overheard)[2]
            names = [field.name for field in fields(message)]
            changed = [name for name in names if rng.random() < 0.3]
            return replace(message, **{name: parts[name]() for name in changed})
        kind = rng.choice(get_args(Message))
        made: Message = kind(**{field.name: parts[field.name]() for field in fields(kind)})
        return made


class Script:
    """What a liar does: nothing yet."""

    def act(self, found: LyingWorld) -> None:
        """Send lies; called every half second."""

    def hears(self, message: Message) -> bool:
        """Say whether the liar lets a message in at all."""
        return True

    def instead(self, found: LyingWorld, to: int, message: Message) -> Message | None:
        """Say what is sent instead of what an honest node in the liar's place would send; None for nothing."""
        return message


class EndsTheRun(Script):
    """Tell one node that the run is over, with a model of its own."""

    def act(self, found: LyingWorld) -> None:
        token = found.remade(found.machines[found.liar].memory.copy.token, found.ballot)
        made = fake(Outcome, token=token, ballot=found.ballot)
        found.say_to((found.liar + 1) % found.rules.nodes, made)


class VotesForOthers(Script):
    """Send an outcome with votes that it has made itself, in everybody's name."""

    def act(self, found: LyingWorld) -> None:
        token = found.remade(found.machines[found.liar].memory.copy.token, found.ballot)
        vote = found.seals[found.liar].vote(found.ballot, token)
        votes = tuple((node, vote) for node in range(found.rules.nodes))
        found.say_to_all(fake(Outcome, token=token, ballot=found.ballot, votes=votes))


class Bricks(Script):
    """Ask all for a promise that nobody can outbid."""

    def act(self, found: LyingWorld) -> None:
        found.say_to_all(Prepare((HUGE, found.liar)))
        found.say_to_all(fake(Reject, promised=(HUGE, found.liar)))
        found.say_to_all(Hello((HUGE, found.liar)))


class Silences(Script):
    """Ask everybody for a token beyond the last hop, which none will take from then on."""

    def act(self, found: LyingWorld) -> None:
        found.say_to_all(Ask(found.ballot, found.rules.steps + 1))
        found.say_to_all(Ask(found.ballot, found.rules.steps))


class Rejects(Script):
    """Tell everybody that somebody has promised more."""

    def act(self, found: LyingWorld) -> None:
        number = found.ballot[0] + 1
        found.say_to_all(fake(Reject, promised=(number, found.lies.randrange(found.rules.nodes))))


class Recovers(Script):
    """Recover a token that is not lost, again and again."""

    def act(self, found: LyingWorld) -> None:
        found.say_to_all(Prepare((found.ballot[0] + 1, found.liar)))


class Greets(Script):
    """Say that it holds the token, though it does not."""

    def act(self, found: LyingWorld) -> None:
        found.say_to_all(Hello(found.ballot))


class Swallows(Script):
    """Take the token, say that all is fine, and never pass it on."""

    def act(self, found: LyingWorld) -> None:
        found.say_to_all(Hello(found.ballot))

    def instead(self, found: LyingWorld, to: int, message: Message) -> Message | None:
        return None if isinstance(message, Offer | Pass | Final) else message


class EndsEarly(Script):
    """Propose a final model while the run goes on: the initial one, or one of its own."""

    def act(self, found: LyingWorld) -> None:
        token = found.initial if found.lies.random() < 0.5 else found.model([])
        found.say_to_all(Final(found.ballot, token))

    def hears(self, message: Message) -> bool:
        return not isinstance(message, Reject)  # it knows why they reject it


class PassesOnNothing(Script):
    """Offer a hop that is not its own to offer, and pass on a token without any update."""

    def act(self, found: LyingWorld) -> None:
        rules = found.rules
        hop = found.lies.randint(1, rules.steps)
        node = rules.node_of(hop)
        found.say_to(node, Offer(found.ballot, hop))
        message = Pass(found.ballot, hop, found.model([]))
        found.later(1.0, lambda: found.say_to(node, message))


class GoesTwoWays(Script):
    """Make two updates at one turn, and pass one on to one node and the other to another; or to the same."""

    def __init__(self) -> None:
        self.passed: Pass | None = None

    def instead(self, found: LyingWorld, to: int, message: Message) -> Message | None:
        if isinstance(message, Pass) and found.rules.node_of(message.hop) != found.liar:
            self.passed = message
        return message

    def act(self, found: LyingWorld) -> None:
        passed, rules = self.passed, found.rules
        if passed is None:
            return
        last = marks_of(passed.token.chain).bit_length()
        later = [hop for hop in range(passed.hop + 1, rules.steps + 1) if rules.node_of(hop) != found.liar]
        if not later or not last or rules.node_of(last) != found.liar:
            return
        # Its own update anew, on the chain before it, which it still has: the same marks, another digest.
        made = found.lies.randbytes(32)
        found.forged.add(made)
        blank = blank_chain(rules.steps, b"world")
        marks = marks_of(passed.token.chain) ^ 1 << (last - 1)
        before = blank[:32] + marks.to_bytes(len(blank) - 32, "little")
        stamps = tuple(each for each in passed.token.stamps if each[0] != found.liar)
        token = Token(passed.token.updates - 1, made, before, stamps)
        twin = found.marked(token, passed.ballot, last)
        hop = found.lies.choice(later[: rules.nodes])
        found.say_to(rules.node_of(hop), Offer(passed.ballot, hop))
        message = Pass(passed.ballot, hop, twin)
        found.later(1.0, lambda: found.say_to(rules.node_of(hop), message))


class ForgesMarks(Script):
    """Offer a hop to its node, and pass on a token with a mark of that node which it has not made."""

    def act(self, found: LyingWorld) -> None:
        rules = found.rules
        victim = (found.liar + 1) % rules.nodes
        turns = [hop for hop in range(1, rules.steps + 1) if rules.node_of(hop) == victim]
        hop = found.lies.choice(turns) if turns else 1
        own = [before for before in range(1, hop) if rules.node_of(before) in (victim, found.liar)]
        found.say_to(victim, Offer(found.ballot, hop))
        message = Pass(found.ballot, hop, found.model(own))
        found.later(1.0, lambda: found.say_to(victim, message))


class TwoFinals(Script):
    """Propose one final model to some and another one to others, when it is its turn to propose."""

    def __init__(self) -> None:
        self.other: Token | None = None

    def instead(self, found: LyingWorld, to: int, message: Message) -> Message | None:
        if isinstance(message, Final) and to % 2:
            if self.other is None or self.other.chain != message.token.chain:
                made = found.lies.randbytes(32)
                found.forged.add(made)
                self.other = replace(message.token, parameters=made)
            return replace(message, token=self.other)
        return message


class FalseRanks(Script):
    """Claim to be further than anybody in every recovery, and lead some itself."""

    def instead(self, found: LyingWorld, to: int, message: Message) -> Message | None:
        if isinstance(message, Promise):
            return replace(message, rank=(found.ballot, found.rules.steps + 1, Kind.FINAL))
        return message

    def act(self, found: LyingWorld) -> None:
        if found.lies.random() < 0.1:
            memory = found.machines[(found.liar + 1) % found.rules.nodes].memory
            found.say_to_all(fake(Resume, ballot=found.ballot, rank=memory.copy.rank))


class DeniesEverything(Script):
    """Say that it has no token that it has, and that it has those which it has not."""

    def instead(self, found: LyingWorld, to: int, message: Message) -> Message | None:
        if isinstance(message, Answer):
            return replace(message, has=not message.has)
        return None if isinstance(message, Accepted) and found.lies.random() < 0.5 else message


class WishesForOthers(Script):
    """Wish that the run ends, in everybody's name, and end it: with its own wish, or with those that it has made up."""

    def act(self, found: LyingWorld) -> None:
        wish = found.seals[found.liar].wish()
        nodes = range(found.rules.nodes) if found.lies.random() < 0.5 else [found.liar]
        wishes = tuple((node, wish) for node in nodes)
        token = found.machines[found.liar].memory.copy.token
        found.say_to_all(WishesKnown(wishes))
        found.say_to_all(Final(found.ballot, token, wishes))
        found.say_to_all(fake(Outcome, token=token, ballot=found.ballot, wishes=wishes))

    def hears(self, message: Message) -> bool:
        return not isinstance(message, Reject)  # it knows why they reject it


class EndsWithAnOldToken(Script):
    """Wait until a majority wishes the run to end, and propose the token that it had last before anybody else does."""

    def __init__(self) -> None:
        self.told = False

    def act(self, found: LyingWorld) -> None:
        memory = found.machines[found.liar].memory
        if memory.copy.token.updates and len(memory.wishes) >= found.rules.majority:
            self.told = True
            found.say_to_all(Final(found.ballot, memory.copy.token, memory.wishes))

    def instead(self, found: LyingWorld, to: int, message: Message) -> Message | None:
        if not self.told:
            found.later(0.0, lambda: self.act(found))
        return None if isinstance(message, Final) else message  # nor does it propose what it should


class ProposesAgainAndAgain(Script):
    """Once a majority wishes the run to end, propose models of its own with the history of the newest token."""

    def act(self, found: LyingWorld) -> None:
        memory = found.machines[found.liar].memory
        given = [message.token for _, _, message in found.overheard if isinstance(message, Final)]
        if given and len(memory.wishes) >= found.rules.majority:
            for _ in range(20):
                made = found.lies.randbytes(32)
                found.forged.add(made)
                found.say_to_all(Final(found.ballot, replace(given[-1], parameters=made), memory.wishes))

    def hears(self, message: Message) -> bool:
        return not isinstance(message, Reject)


class Anything(Script):
    """Send anything, at any time, to anybody, and change or keep back some of what it should send."""

    def __init__(self, rate: float, *, changes: float) -> None:
        self.rate, self.changes = rate, changes

    def act(self, found: LyingWorld) -> None:
        while found.lies.random() < self.rate:
            found.say_to(found.lies.randrange(found.rules.nodes), found.any_message())

    def instead(self, found: LyingWorld, to: int, message: Message) -> Message | None:
        if found.lies.random() >= self.changes:
            return message
        return found.any_message() if found.lies.random() < 0.5 else None


def fake(kind: type[Any], **given: Any) -> Any:
    """Make a message; what is not given is empty."""
    blank: dict[str, Any] = {
        "ballot": (0, 0),
        "promised": (0, 0),
        "hop": 1,
        "votes": (),
        "vote": b"",
        "promises": (),
        "wishes": (),
    }
    blank |= {"signature": b"", "rank": ((0, 0), 0, Kind.INITIAL)}
    return kind(**{field.name: given.get(field.name, blank.get(field.name)) for field in fields(kind)})


#: The attacks that are known, by name.
SCRIPTS: dict[str, Callable[[], Script]] = {
    "ends the run": EndsTheRun,
    "votes for others": VotesForOthers,
    "bricks": Bricks,
    "silences": Silences,
    "rejects": Rejects,
    "recovers": Recovers,
    "greets": Greets,
    "swallows": Swallows,
    "ends early": EndsEarly,
    "passes on nothing": PassesOnNothing,
    "forges marks": ForgesMarks,
    "goes two ways": GoesTwoWays,
    "two finals": TwoFinals,
    "false ranks": FalseRanks,
    "denies everything": DeniesEverything,
    "wishes for others": WishesForOthers,
}


#: Attacks on a run that a majority wishes to end.
AFTER_WISHES: dict[str, Callable[[], Script]] = {
    "ends with an old token": EndsWithAnOldToken,
    "proposes again and again": ProposesAgainAndAgain,
}


def attacked(seed: int, name: str, make: Make = Peer, *, wishes: int = 0) -> LyingWorld:
    """Run a calm history with one script, among five nodes; return it when it is over, or at its end.

    So many honest owners ask for the run to end after a while.
    """
    rules = Rules(nodes=5, path=[0, 1, 2, 3, 4] * 8, timeout=1.0, lease=1.0, silence=8.0)
    calm = Weather(drop=0.0, double=0.0, latency=0.01, crash=0.0, slow=0.2, clear_at=0.0, partitions=0)
    script = (SCRIPTS | AFTER_WISHES)[name]()
    found = LyingWorld(seed, rules, calm, seed % 5, script, make, still=seed % 2 == 1)
    for number in range(wishes):
        found.later(4.0 + 0.5 * number, partial(found.ask_to_finish, (found.liar + 1 + number) % 5))
    found.run(until=4000.0)
    found.check_end()
    return found


def history(seed: int, make: Make = Peer) -> LyingWorld:
    """Run one history with a liar, in any weather; its shape, too, follows from the seed."""
    rng = random.Random(seed * 7919 + 3)
    nodes = rng.randint(3, 7)
    steps = rng.randint(nodes, 6 * nodes)
    path = [rng.randrange(nodes) for _ in range(steps)]
    rules = Rules(nodes=nodes, path=path, timeout=1.0, lease=1.0, silence=8.0, short=0 if seed % 2 else 1024)
    rough = rng.random() < 0.5
    wishes = random.Random(seed * 17 + 3)
    weather = Weather(
        drop=rng.choice([0.0, 0.05, 0.2]) if rough else 0.0,
        double=rng.choice([0.0, 0.2]) if rough else 0.0,
        crash=rng.choice([0.0, 0.002, 0.01]) if rough else 0.0,
        slow=rng.choice([0.0, 0.3, 0.8]),
        clear_at=rng.choice([30.0, 90.0]) if rough else 0.0,
        partitions=rng.choice([0, 1]) if rough else 0,
        wishes=wishes.randint(1, nodes) if wishes.random() < 0.2 else 0,
    )
    script: Script = Anything(rng.choice([0.3, 0.7, 0.9]), changes=rng.choice([0.0, 0.1, 0.5]))
    if rng.random() < 0.3:
        script = SCRIPTS[rng.choice(list(SCRIPTS))]()
    still = rng.random() < 0.5 and nodes > 2
    found = LyingWorld(seed, rules, weather, rng.randrange(nodes), script, make, still=still)
    found.run(until=weather.clear_at + 6000.0)
    found.check_end()
    return found
