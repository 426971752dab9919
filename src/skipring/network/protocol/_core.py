"""What all parts of a peer share: memory, state, and the actions that they ask for, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ._state import Idle, Rules, State
from .actions import (
    Action,
    Broke,
    Compute,
    News,
    PrepareBatch,
    Rule,
    Say,
    Send,
    SetTimer,
    StopTimer,
    Timer,
    Write,
)
from .journal import Entry, Heard, Memory
from .messages import Ballot, Hello, Message, Place, Signatures, Token, WishesKnown
from .seal import Seal
from .sight import Sight
from .stamps import StampCheck, turns_of

#: How far one message moves the highest ballot that a node knows of.
STEP = 1000

#: Says whether a node takes part at a place, given its ledger.
Willing = Callable[[Place, Sequence[Place]], bool]


class Core:
    """A node's memory and state, and how it sends, writes and waits."""

    def __init__(self, me: int, rules: Rules, memory: Memory, seal: Seal, willing: Willing, sight: Sight) -> None:
        self.me, self.rules, self.memory, self.seal, self.sight = me, rules, memory, seal, sight
        self.state = State.after_a_start(memory)
        self._willing = willing
        self._actions: list[Action] = []
        #: The hops of each node, as the marks of a chain.
        self.turns = turns_of(rules.path, rules.nodes)
        self.stamps = StampCheck(self.turns, rules.steps, seal)

    # What is asked for.

    def send(self, to: int, message: Message) -> None:
        """Send a message to a node."""
        self._actions.append(Send(to, message))

    def send_all(self, message: Message) -> None:
        """Send a message to all others."""
        for node in self.others:
            self.send(node, message)

    def write(self, entry: Entry) -> None:
        """Write an entry, and know from now on what it says."""
        self.memory = self.memory.after(entry)
        self._actions.append(Write(entry))

    def wait(self, timer: Timer, seconds: float) -> None:
        """Set a timer."""
        self._actions.append(SetTimer(timer, seconds))

    def stop(self, *timers: Timer) -> None:
        """Stop some timers."""
        for timer in timers:
            self._actions.append(StopTimer(timer))

    def prepare(self, place: Place) -> None:
        """Have the batch of a place loaded."""
        self.state.preparing = place
        self._actions.append(PrepareBatch(*place))

    def compute(self, place: Place, token: Token) -> None:
        """Have the update of a place made, within the time that is left of the turn."""
        seconds = self.sight.turn_timeout()
        self.wait(Timer.TURN, seconds)
        self._actions.append(Compute(*place, token, seconds))

    def say(self, text: str, news: News) -> None:
        """Tell the people who run the node."""
        self._actions.append(Say(text, news))

    def broke(self, node: int, rule: Rule, what: str, *, proof: bool = False) -> None:
        """Name a node that has broken a rule; after a proof nothing is taken from it any more."""
        self._actions.append(Broke(node, rule, what, proof))
        if proof:
            self.state.shut_out |= {node}

    def done(self) -> list[Action]:
        """Return what was asked for since the last time."""
        actions, self._actions = self._actions, []
        return actions

    # What follows from memory and state.

    @property
    def others(self) -> list[int]:
        """All nodes but this one."""
        return [node for node in range(self.rules.nodes) if node != self.me]

    @property
    def place(self) -> Place:
        """Where the newest copy of this node is."""
        return self.memory.copy.ballot, self.memory.copy.hop

    @property
    def furthest(self) -> Place:
        """The furthest place that this node knows of, or is at."""
        return max(self.state.seen, self.place)

    def is_new(self, place: Place, sender: int) -> bool:
        """Say whether a place is beyond all that this node has, or has told that sender that it has not.

        What one node was told binds this node towards that node alone. Another one that asks in vain, and perhaps about
        all hops to come, must not keep the token from coming by its right way. That is enough for safety. The node that
        was told so goes on from there, and offers that place never again; nobody else had it to offer, for one node
        goes on per ballot.
        """
        denied = self.memory.denied(sender)
        return place > self.place and (denied is None or place > denied)

    @property
    def last_turn(self) -> int:
        """The last hop of this node, 0 if it has none."""
        return self.turns[self.me].bit_length()

    def is_willing(self, place: Place) -> bool:
        """Say whether this node takes part at a place."""
        return self._willing(place, self.memory.ledger)

    @property
    def proven(self) -> Ballot:
        """The highest ballot of which this node knows that a majority has promised it; the first one needs no proof."""
        ticket = self.memory.ticket
        return (0, self.rules.path[0]) if ticket is None else ticket.ballot

    @property
    def wished(self) -> Signatures:
        """The wishes of a majority that the run ends, as far as this node knows; nothing if they are fewer."""
        return self.memory.wishes if len(self.memory.wishes) >= self.rules.majority else ()

    def tell_wishes(self, node: int) -> None:
        """Tell a node who wishes the run to end: it may have missed it, and may have the token."""
        if self.memory.wishes:
            self.send(node, WishesKnown(self.memory.wishes))

    def note(self, ballot: Ballot) -> bool:
        """Remember a ballot that a node speaks of, and say whether it is within reach.

        One message moves this node by a bounded step, so that no number is ever used up. At a step for each message
        that a peer may send, the largest one is further away than a lifetime. A node that is behind others by more
        catches up, step by step, as they speak.
        """
        reach = max(self.state.highest[0], self.memory.promised[0]) + STEP
        self.state.highest = max(self.state.highest, ballot if ballot[0] <= reach else (reach, ballot[1]))
        return ballot[0] <= reach

    # What happens in every part.

    def rest(self) -> None:
        """There was a sign of progress: wait anew, each node for another time."""
        state = self.state
        state.failures = 0
        state.signs += 1
        state.hushed = state.new = False
        state.agreed = frozenset()
        if not state.holds or state.has_it:
            state.doubted = None
        self.wait_for_progress()
        self.wait(Timer.HUSH, self.rules.silence / 2.0)

    def wait_for_progress(self) -> None:
        """Wait for a sign of progress from now on."""
        self.wait(Timer.SILENCE, self.rules.patience(self.me, self.state.recoveries))

    def greet(self) -> None:
        """Let all nodes know that the token is on its way: in a large ring a node's turn comes seldom."""
        self.hear_greeting()
        self.send_all(Hello(self.memory.copy.ballot))

    def oppose(self, node: int) -> None:
        """Take note that a node shows a token: a final model that only others have proposed came before its time."""
        proposed = self.state.proposed
        if proposed is not None and node not in proposed[0]:
            self.state.proposed, self.state.unopposed = None, False

    def hear_greeting(self) -> None:
        """Take note that a node has greeted."""
        self.state.quiet = False
        self.wait(Timer.BEAT, self.rules.beat)

    def let_go(self) -> None:
        """Stop being the holder, whatever was going on."""
        self.state.doing = Idle()
        self.stop(Timer.OFFER, Timer.TURN, Timer.SKIP, Timer.LEASE, Timer.WAIT, Timer.WATCH, Timer.VOTE)

    def give_way(self, heard: Heard) -> None:
        """Promise a higher ballot: what is done under this one is lost, and released all the same."""
        self.let_go()
        self.state.recovering = None
        self.write(heard)
        self.rest()
