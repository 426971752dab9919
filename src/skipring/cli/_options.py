"""Options that several commands share, each written once.

A parameter of a command whose type is one of the classes here stands for all of its options.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from ..errors import InvalidInput


def spelled_out(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that takes each option of an object by itself, which is how typer finds them."""
    hints = get_type_hints(command, include_extras=True)
    spelled: list[Parameter] = []
    objects: dict[str, type] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        kind = hints[name]
        if not dataclasses.is_dataclass(kind) or not isinstance(kind, type):
            spelled.append(parameter.replace(annotation=kind, kind=Parameter.KEYWORD_ONLY))
            continue
        objects[name] = kind
        of = get_type_hints(kind, include_extras=True)
        for field in dataclasses.fields(kind):
            default = Parameter.empty if field.default is dataclasses.MISSING else field.default
            spelled.append(Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=of[field.name]))
    if not objects:
        return command

    def with_objects(**given: Any) -> None:
        for name, kind in objects.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in dataclasses.fields(kind)})
        command(**given)

    with_objects.__name__ = command.__name__
    with_objects.__signature__ = inspect.Signature(spelled)  # type: ignore[attr-defined] # where typer looks
    with_objects.__annotations__ = {parameter.name: parameter.annotation for parameter in spelled}
    return with_objects


Delay = Annotated[
    str,
    typer.Option(
        metavar="LAW",
        help="How long a node takes: exponential:MEAN, gamma:SHAPE,SCALE, lomax:SHAPE,SCALE, empirical:FILE.csv,"
        " scipy:NAME,ARGUMENTS; 0.1+LAW shifts, 0.9*LAW|0.1*never mixes.",
    ),
]
HopLatency = Annotated[float, typer.Option(help="Time a hop takes, between any two nodes.")]
#: As in `skipring.schedules`, which would take as long.
USUAL_SCHEDULE = "random-ring"
Schedule = Annotated[str, typer.Option(metavar="NAME", help="ring, random-ring, designed-ring, random-walk or laps.")]
Nodes = Annotated[int, typer.Option(help="Number of nodes.")]
NoiseMultiplier = Annotated[
    float,
    typer.Option(
        help="Noise std over the most that one protected unit can contribute, sigma / k. Replacing the unit moves an"
        " update by up to 2 k."
    ),
]
#: As in `skipring.privacy`, which would take a second to load for a help text.
USUAL_UNIT = "record"
Protects = Annotated[
    str,
    typer.Option(
        metavar="UNIT",
        help="What epsilon protects: one row (record), all rows of a person, or all data of a node.",
    ),
]
#: The option of that name, in refusals and in JSON.
PER_PERSON = "rows_per_person"
RowsPerPerson = Annotated[int | None, typer.Option(help="With person: no person has more rows than this at a node.")]
Rows = Annotated[
    int | None,
    typer.Option(
        help="With record or person: rows of each node (persons x rows per person). What does not fit into a batch"
        " waits for the node's next turn."
    ),
]
Ready = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="What becomes of a node's preparation: fresh (lost if it is skipped; the default), kept, or ahead (it "
        "prepares its next turn right after an update).",
    ),
]
NetworkFolder = Annotated[Path, typer.Argument(metavar="DIR", help="The network's folder (skipring network init).")]
NodeFolder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of one node.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]
Smoothness = Annotated[
    float | None, typer.Option(help="Smoothness of the loss (rows of norm 1: logistic 0.25, softmax 0.5, squared 1).")
]


#: Whom an epsilon protects, as options.
ROWS = ("protects", "batch", "rows_per_person", "rows", "parts")
#: What says how a unit's epsilon is asked for, and not what happens in a run.
BESIDE_THE_RUN = ("method", "delta_prime", *ROWS[1:])


@dataclass(frozen=True, kw_only=True)
class Whose:
    """Whom a plan protects, and how many rows there are."""

    protects: Protects = USUAL_UNIT
    rows: Rows = None
    rows_per_person: RowsPerPerson = None


@dataclass(frozen=True, kw_only=True)
class Given:
    """A run file, and what is changed of it."""

    file: Annotated[Path, typer.Argument(metavar="FILE", help="A run file; `skipring init` writes one.")]
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change a value of the run file.")
    ] = None


def with_runs(changes: list[str] | None, runs: int | None) -> list[str]:
    """Return changes of a run file, the number of runs among them where it was given."""
    if runs is not None and runs < 1:
        raise InvalidInput("runs", runs, "at least 1")
    return [*(changes or []), *([] if runs is None else [f"simulation.runs={runs}"])]


@dataclass(frozen=True, kw_only=True)
class Hops:
    """Who gets the token how often, and how likely they are skipped."""

    schedule: Schedule
    nodes: Nodes
    steps: Annotated[int | None, typer.Option(help="Number of hops of the token, skipped ones included.")] = None
    skip: Annotated[float | None, typer.Option(help="Probability that a node is skipped.")] = None

    def require_token(self) -> None:
        """Refuse a walk of unknown length, or one that nobody knows how many are skipped in."""
        for name, why in (("steps", "how many hops the token makes"), ("skip", "how often a node is skipped")):
            if getattr(self, name) is None:
                raise InvalidInput.because(name, "missing", f"say {why}")


#: As in `skipring.schedules`, which would take as long.
LAPS = "laps"


@dataclass(frozen=True, kw_only=True)
class Quorum:
    """Against how many nodes a private sum protects, and how many it needs."""

    coalition: Annotated[
        int | None, typer.Option(help="Laps: how many nodes may put together what they know (default: a fifth).")
    ] = None
    least_nodes: Annotated[
        int | None,
        typer.Option(help="Laps: how many nodes a lap needs (default: more than half, and more than --coalition)."),
    ] = None

    def require_none(self, schedule: str) -> None:
        """Refuse what only laps have, for a schedule that has none."""
        for name, given in vars(self).items():
            if given is not None:
                raise InvalidInput.because(name, given, f"is for --schedule laps, and this is {schedule}")


@dataclass(frozen=True, kw_only=True)
class Sums(Quorum):
    """How many private sums there are, and what their noise is."""

    laps: Annotated[int | None, typer.Option(help="Laps: how many, which share the budget equally (default: 5).")] = (
        None
    )
    extra: Annotated[
        int | None, typer.Option(help="Laps: how many more may be opened in vain, and still count (default: none).")
    ] = None
    floor: Annotated[
        float | None,
        typer.Option(help="Laps: the least noise of one node's share, over the most that one unit contributes."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Account:
    """How the privacy of a run is accounted for: whose, against whom, and what may be counted."""

    method: Annotated[str, typer.Option(metavar="NAME", help="tight (proven) or paper (its theorems as stated).")] = (
        "tight"
    )
    delta_prime: Annotated[
        float | None,
        typer.Option(help="With method paper: delta' (default: delta, or 1e-6). The printed delta is their sum."),
    ] = None
    against: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="node: another node that is always ready; skipped-node: one that is skipped, too; outsider: one who is"
            " shown the final model and nothing else.",
        ),
    ] = "node"
    observer_skip: Annotated[
        float | None,
        typer.Option(help="Against a skipped-node: its skip probability; by default --skip."),
    ] = None
    target_skip: Annotated[
        float | None, typer.Option(help="Skip probability of the protected node, if it differs from the others'.")
    ] = None
    distance: Annotated[
        int | None, typer.Option(help="On the ring: hops from the protected node to the observer. Default: the worst.")
    ] = None
    position: Annotated[
        int | None, typer.Option(help="On the ring: place of the protected node, 1 to nodes. Default: the worst.")
    ] = None
    observers: Annotated[
        int | None, typer.Option(help="How many nodes put together what they saw (default: 1; laps: --coalition).")
    ] = None
    convex: Annotated[
        bool,
        typer.Option(
            "--convex/--non-convex",
            help="Whether the loss is convex and smooth, and the learning rate at most 2 / smoothness.",
        ),
    ] = True
    step_size: Annotated[
        str, typer.Option(metavar="LAW", help="sqrt: learning rate / sqrt(update number); or constant.")
    ] = "sqrt"
    learning_rate: Annotated[float | None, typer.Option(help="Checked against 2 / smoothness, if both are given.")] = (
        None
    )
    smoothness: Smoothness = None
    protects: Protects = USUAL_UNIT
    batch: Annotated[
        int | None,
        typer.Option(
            help="With record or person: the most rows of an update, the same for all nodes; by default all of a"
            " node's."
        ),
    ] = None
    rows_per_person: RowsPerPerson = None
    rows: Rows = None
    parts: Annotated[
        int | None,
        typer.Option(
            help="Instead of --rows: into how many parts each node deals its rows; its turns rotate through them. Where"
            " nodes differ, ask for each and take the largest epsilon."
        ),
    ] = None
    closing: Annotated[
        int | None,
        typer.Option(help="On the designed ring: hops at the end that add noise and no gradient. Default: 2."),
    ] = None
    order_seed: Annotated[int | None, typer.Option(help="On the designed ring: which of many orders. Default: 1.")] = (
        None
    )
    search: Annotated[
        int | None,
        typer.Option(
            help="On the designed ring: moves to look for a better order with. Default: some seconds' worth; 0: none."
        ),
    ] = None

    @property
    def rows_of_one(self) -> int | None:
        """The most rows of a person, where they are given."""
        return self.rows_per_person
