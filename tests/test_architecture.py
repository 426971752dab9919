"""The rooms of the house: each uses only those before it, and is entered through its front door."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import skipring
import skipring.network
from skipring._lazy import names_in
from skipring.learning import BUILT_IN
from skipring.schedules import RIVALS, SCHEDULES

#: What any room may use, for each house; it uses no room. The network is a house inside the house.
FLOORS = {
    skipring: {
        "errors",
        "_arrays",
        "_binomial",
        "_cache",
        "_command",
        "_digest",
        "_function",
        "_json",
        "_lazy",
        "_threads",
        "_numbers",
        "_version",
        "_writing",
    },
    skipring.network: {"_files", "_packing"},
}
#: The compiled pieces of an update, which numba inlines into the loops of a simulation, are no public names, nor is
#: their plain twin.
BACK_DOORS = ("learning._compiled", "learning._evaluated", "learning.reference")
HOUSE = Path(skipring.__file__).parent
houses = pytest.mark.parametrize("house", FLOORS, ids=lambda house: house.__name__)


def rooms_of(house: ModuleType) -> list[str]:
    return re.findall(r"^- `(\w+)`: ", house.__doc__ or "", flags=re.MULTILINE)


@cache
def offered_by(house: ModuleType, room: str) -> list[str]:
    """Return the names that may be taken from a room."""
    root = Path(house.__path__[0])
    door = root / f"{room}.py" if (root / f"{room}.py").exists() else root / room / "__init__.py"
    body = ast.parse(door.read_text()).body
    made = [node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    given = [target.id for node in body if isinstance(node, ast.Assign | ast.AnnAssign) for target in targets(node)]
    return [*names_in(door), *(name for name in made + given if not name.startswith("_"))]


def targets(node: ast.Assign | ast.AnnAssign) -> list[ast.Name]:
    every = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [target for target in every if isinstance(target, ast.Name)]


def imports(house: ModuleType) -> Iterator[tuple[str, str, str]]:
    """Yield the room of each import, the room that it enters, and what is behind the door, if it goes there."""
    root = Path(house.__path__[0])
    for path in root.rglob("*.py"):
        inside = ["skipring", *path.relative_to(HOUSE).parts[:-1]]
        room = path.relative_to(root).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom) or not node.level or room in ("__init__", "__main__"):
                continue
            where = ".".join([*inside[: len(inside) - node.level + 1], *filter(None, [node.module])])
            for way in (f"{where}.{name.name}" for name in node.names):
                entered, _, behind = way.removeprefix(f"{house.__name__}.").partition(".")
                if way.startswith(f"{house.__name__}.") and entered != room:
                    at_the_door = not behind or entered in FLOORS[house] or behind in offered_by(house, entered)
                    yield room, entered, "" if at_the_door else behind


@houses
def test_every_room_is_listed_in_the_order_in_which_they_build_on_each_other(house: ModuleType) -> None:
    rooms, floor = rooms_of(house), FLOORS[house]
    there = {path.name.removesuffix(".py") for path in Path(house.__path__[0]).iterdir() if path.suffix in ("", ".py")}
    assert there - floor - {"__init__", "__main__", "__pycache__"} == set(rooms)
    wrong = {
        (room, entered)
        for room, entered, _ in imports(house)
        if entered not in floor | {"__version__"} and (room in floor or rooms.index(entered) >= rooms.index(room))
    }
    assert not wrong


@houses
def test_rooms_are_entered_through_their_front_door(house: ModuleType) -> None:
    ways = {(room, f"{entered}.{behind}") for room, entered, behind in imports(house) if behind}
    assert not {(room, way) for room, way in ways if room != "simulation" or not way.startswith(BACK_DOORS)}


def test_files_are_of_a_few_hundred_lines() -> None:
    long = {path for path in HOUSE.rglob("*.py") if len(path.read_text().splitlines()) > 500}
    assert not {str(path.relative_to(HOUSE)) for path in long}


Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def functions() -> list[tuple[str, Function, bool]]:
    """Return where each function is, and whether it is compiled, or makes one that is."""
    found = []
    for path in HOUSE.rglob("*.py"):
        every = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, Function)]
        for node in every:
            inside = [each for each in ast.walk(node) if isinstance(each, Function)]
            compiled = any("njit" in ast.unparse(mark) for each in inside for mark in each.decorator_list)
            found.append((f"{path.relative_to(HOUSE)}: {node.name}", node, compiled))
    return found


def parameters(node: Function) -> int:
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return len([each for each in given if each.arg not in ("self", "cls")])


def test_functions_are_short() -> None:
    """Compiled loops may be longer: a call from one compiled function to another is not free, nor is reading both."""
    lengths = {name: (node.end_lineno or 0) - node.lineno + 1 for name, node, compiled in functions() if not compiled}
    assert len(lengths) > 2000
    assert not {name: length for name, length in lengths.items() if length > 60}


def test_functions_take_few_parameters() -> None:
    many = {name: compiled for name, node, compiled in functions() if parameters(node) > 8}
    assert len(many) <= 12
    assert [name for name, compiled in many.items() if not compiled] == ["simulation/simulate.py: simulate"]


@pytest.mark.parametrize("name", [*SCHEDULES, *RIVALS, *sorted(BUILT_IN)])
def test_the_name_of_a_schedule_or_loss_is_written_in_few_files(name: str) -> None:
    """The object knows its name, and others ask it."""
    found = {path for path, texts in written().items() if name in texts}
    assert 1 <= len(found) <= 5, found


@cache
def written() -> dict[str, set[str]]:
    """The texts in quotes of each file."""
    trees = {str(path.relative_to(HOUSE)): ast.walk(ast.parse(path.read_text())) for path in HOUSE.rglob("*.py")}
    return {
        path: {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        for path, nodes in trees.items()
    }


@houses
def test_a_room_offers_only_what_is_its_own(house: ModuleType) -> None:
    """A name has one home, and whoever needs it goes there."""
    borrowed = {
        (str(door.relative_to(HOUSE)), name.name)
        for door in Path(house.__path__[0]).glob("*/__init__.py")
        for node in ast.walk(ast.parse(door.read_text()))
        if isinstance(node, ast.ImportFrom) and node.level > 1 and node.module not in FLOORS[skipring]
        for name in node.names
    }
    assert not borrowed


def test_a_name_that_a_room_offers_stands_once() -> None:
    """In an import of the room's door: it needs no other list, and no module behind it needs one either."""
    doors = {HOUSE / "__init__.py", HOUSE / "cli/__init__.py", *(HOUSE / f"{room}.py" for room in rooms_of(skipring))}
    lists = {path for path in HOUSE.rglob("*.py") if re.search(r"^__all__", path.read_text(), re.MULTILINE)}
    assert lists <= doors, "delete __all__ in the others"
