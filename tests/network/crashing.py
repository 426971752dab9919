"""A node that is killed (SIGKILL) at each of its writes, into ledger or journal, while it learns what recoveries cost.

`python crashing.py FOLDER` goes through all stories and all moments, and prints a line of JSON for each look at the
ledger: what it says, and the least that it may say, by all that the node had come to know until then.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from spending import FIRST, STEPS, Spender, terms
from summing import account_of

from skipring.network.protocol import Entry, Forgotten, Forked, Heard, Over, Released, Settled, Token, Trail
from skipring.network.storage import LedgerFile

#: Each begins with ten updates. After `crisis` there was a recovery that forked nothing, and the run is over.
STORIES = (
    "crisis|settle fork",
    "crisis|fork settle",
    "crisis|settle fork restart settle",
    "crisis|settle recovery",
    "crisis|forgotten settle",
    "|fork restart update over settle",
    "|forgotten restart update over settle",
)


class Deadly:
    """Counts what is written, and kills its process before one of them; a line of the ledger is half written then."""

    def __init__(self, point: int, known: Path) -> None:
        self.point, self.count, self._known = point, 0, known
        self._entry: Entry | None = None
        self._real = {name: getattr(os, name) for name in ("write", "pwrite", "fsync")}
        for name, real in self._real.items():
            setattr(os, name, self._before(name, real))

    def _before(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def deadly(file: int, *given: Any) -> Any:
            if self.count == self.point:
                if name == "write":
                    real(file, given[0][: len(given[0]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            self.count += 1
            done = real(file, *given)
            if name == "write" and not isinstance(self._entry, Settled | Released):
                self._happened()  # it stands in the ledger; but an update is sent, and what is certain believed, later
            return done

        return deadly

    def commits(self, connection: Any) -> Any:
        """Return a connection to the journal that is dead before, or right after, an entry is there."""
        deadly, nothing = self, self._before("commit", lambda _: None)

        class Connection:
            def execute(self, query: str, *values: Any) -> Any:
                if query == "COMMIT":
                    nothing(-1)
                    deadly._happened()
                done = connection.execute(query, *values)
                if query == "COMMIT":
                    nothing(-1)
                return done

            def __getattr__(self, name: str) -> Any:
                return getattr(connection, name)

        return Connection()

    def begins(self, entry: Entry) -> None:
        """Take the news that an entry is written next."""
        self._entry = entry

    def _happened(self) -> None:
        if self._entry is not None:
            with self._known.open("ab", buffering=0) as file:
                file.write(pickle.dumps(self._entry))
            self._entry = None


def steps_of(spender: Spender, step: str) -> Iterator[Entry]:
    """Return what a step writes into the journal."""
    copy = spender.journal.memory.copy
    chain, stamps = copy.token.chain, ((0, bytes(16) + copy.token.chain[:32] + b"signature"),)
    recovered = spender.journal.memory.promised > FIRST
    if step == "crisis":
        yield Heard((1, 1))
        yield Over(Token(copy.token.updates, b"model", chain, stamps), (1, 1))
    elif step == "over":
        yield Over(Token(copy.token.updates, b"model", chain, stamps), FIRST)
    elif step == "settle":
        line = ((FIRST, copy.hop), ((1, 1), STEPS)) if recovered else ((FIRST, STEPS),)
        yield Settled(Trail(chain, stamps), line, (), FIRST)
    elif step == "fork":
        yield Forked(FIRST)
    elif step == "recovery":
        yield Heard((2, 1))
    elif step == "forgotten":
        yield Forgotten(Trail(spender.next_update().copy.token.chain, ()), 1)
    elif step == "update":
        yield spender.next_update()


def live(folder: Path, steps: list[str], point: int) -> None:
    """Go through the steps of a story, up to a write."""
    known, spender = Deadly(point, folder / "known"), None
    for step in ["restart", *steps]:
        if step == "restart":
            if spender is not None:
                spender.close()
            spender = Spender(folder, "one")
            spender.journal._connection = known.commits(spender.journal._connection)
            continue
        assert spender is not None
        for entry in steps_of(spender, step):
            known.begins(entry)
            spender.counted.append(entry)


def in_child(folder: Path, steps: list[str], point: int = -1) -> bool:
    """Go through the steps of a story in a process of its own; say whether it was killed."""
    child = os.fork()
    if not child:
        try:
            live(folder, steps, point)
            os._exit(0)
        finally:
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL), code
    return code != 0


def least(folder: Path, base: list[Entry]) -> float:
    """Return mu^2 of all that the node has come to know."""
    entries = list(base)
    with (folder / "known").open("ab+") as file:
        file.seek(0)
        while True:
            try:
                entries.append(pickle.load(file))
            except EOFError:
                return account_of(terms(), entries).mu2


def tell(story: str, points: tuple[int, ...], when: str, folder: Path, base: list[Entry]) -> None:
    """Look at the ledger."""
    (record,) = (each for each in LedgerFile(folder / "rows.ledger").read() if each.about.node == "a")
    facts = {"story": story, "points": points, "when": when, "says": record.mu2, "least": least(folder, base)}
    print(json.dumps(facts | {"in_full": record.in_full}), flush=True)


def attack(folder: Path, story: str, *, again: bool) -> None:
    """Kill a node at each write of a story, and, if told to do so `again`, at each one of what it does then."""
    before, after = story.split("|")
    steps, settles = after.split(), ["settle"] if before else ["update", "over", "settle"]
    ready = folder / "ready"
    begun = Spender(ready, "one")
    begun.update(10)
    for entry in steps_of(begun, before):
        begun.counted.append(entry)
    base = [entry for _, entry in begun.journal.entries()]
    begun.close()
    other = Spender(ready, "two", node="b")  # on the same rows, in another run
    other.update(2)
    other.close()
    point, is_dead = 0, True
    while is_dead:
        dead = shutil.copytree(ready, folder / "dead")
        is_dead = in_child(dead, steps, point)
        tell(story, (point,), "dead", dead, base)
        second, dies_again = 0, again
        while dies_again:
            twice = shutil.copytree(dead, folder / "twice")
            dies_again = in_child(twice, settles, second)
            tell(story, (point, second), "dead again", twice, base)
            _end(story, (point, second), twice, base, settles)
            second += 1
        _end(story, (point,), dead, base, settles)
        point += 1
    shutil.rmtree(ready)


def _end(story: str, points: tuple[int, ...], folder: Path, base: list[Entry], settles: list[str]) -> None:
    other = Spender(folder, "two", node="b")
    other.update()
    other.close()
    for when, steps in (("started", []), ("settled", settles), ("started again", [])):
        in_child(folder, steps)
        tell(story, points, when, folder, base)
    shutil.rmtree(folder)


if __name__ == "__main__":
    for each in STORIES:
        attack(Path(sys.argv[1]), each, again="again" in sys.argv)
