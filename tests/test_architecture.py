"""The rooms of the house: each uses only those before it, and is entered through its front door."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import skipring

HOUSE = Path(skipring.__file__).parent
ROOMS = re.findall(r"^- `(\w+)`: ", skipring.__doc__ or "", flags=re.MULTILINE)
#: What any room may use; it uses no room.
FLOOR = {"errors", "_binomial", "_digest", "_function", "_json", "_lazy", "_numbers", "_version"}
#: The compiled pieces of an update, which numba inlines into the loops of a simulation, are no public names.
BACK_DOORS = {("simulation", "learning", "_compiled"), ("simulation", "learning", "_evaluated")}


def imports() -> Iterator[tuple[str, str, str]]:
    """Yield the room of each import, the room that it enters, and the module behind the door, if it goes there."""
    for path in HOUSE.rglob("*.py"):
        inside = ["skipring", *path.relative_to(HOUSE).parts[:-1]]
        room = path.relative_to(HOUSE).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level:
                target = inside[: len(inside) - node.level + 1] + (node.module or "").split(".")
                entered = target[1] if len(target) > 1 and target[1] else node.names[0].name
                if entered != room and room not in ("__init__", "__main__"):
                    yield room, entered, ".".join(target[2:])


def test_every_room_is_listed_in_the_order_in_which_they_build_on_each_other() -> None:
    there = {path.name.removesuffix(".py") for path in HOUSE.iterdir() if path.suffix in ("", ".py")}
    assert there - FLOOR - {"__init__", "__main__", "__pycache__"} == set(ROOMS)
    wrong = {
        (room, entered)
        for room, entered, _ in imports()
        if entered not in FLOOR | {"__version__"} and (room in FLOOR or ROOMS.index(entered) >= ROOMS.index(room))
    }
    assert not wrong


def test_rooms_are_entered_through_their_front_door() -> None:
    assert {entry for entry in imports() if entry[2]} <= BACK_DOORS


def test_files_are_of_a_few_hundred_lines() -> None:
    long = {path for path in HOUSE.rglob("*.py") if len(path.read_text().splitlines()) > 500}
    assert not {str(path.relative_to(HOUSE)) for path in long}


def test_a_room_offers_only_what_is_its_own() -> None:
    """A name has one home, and whoever needs it goes there."""
    borrowed = {
        (str(door.relative_to(HOUSE)), name.name)
        for door in HOUSE.glob("*/__init__.py")
        for node in ast.walk(ast.parse(door.read_text()))
        if isinstance(node, ast.ImportFrom) and node.level > 1 and node.module not in FLOOR
        for name in node.names
    }
    assert not borrowed
