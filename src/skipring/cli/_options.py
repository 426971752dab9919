"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Delay = Annotated[
    str,
    typer.Option(
        metavar="LAW",
        help="How long a node takes: exponential:MEAN, gamma:SHAPE,SCALE, lomax:SHAPE,SCALE, empirical:FILE.csv,"
        " scipy:NAME,ARGUMENTS; 0.1+LAW shifts, 0.9*LAW|0.1*never mixes.",
    ),
]
HopLatency = Annotated[float, typer.Option(help="Time a hop takes, whoever is at its end.")]
Schedule = Annotated[str, typer.Option(metavar="NAME", help="ring, random-ring, designed-ring or random-walk.")]
Closing = Annotated[
    int | None,
    typer.Option(help="On the designed ring: hops at the end that add noise and no gradient. Default: 2."),
]
OrderSeed = Annotated[int | None, typer.Option(help="On the designed ring: which of many orders. Default: 1.")]
Search = Annotated[
    int | None,
    typer.Option(
        help="On the designed ring: moves to look for a better order with. Default: some seconds' worth; 0: none."
    ),
]
Nodes = Annotated[int, typer.Option(help="Number of nodes.")]
Steps = Annotated[int, typer.Option(help="Number of hops of the token, skipped ones included.")]
Skip = Annotated[float, typer.Option(help="Probability that a node is skipped.")]
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
        help="What epsilon hides: one row (record), all rows of a person, or all data of a node.",
    ),
]
Batch = Annotated[
    int | None,
    typer.Option(
        help="With record or person: the most rows of an update, the same for all nodes; by default all of a node's."
    ),
]
RowsPerPerson = Annotated[int | None, typer.Option(help="With person: no person has more rows than this at a node.")]
Rows = Annotated[
    int | None,
    typer.Option(
        help="With record or person: rows of each node (persons x rows per person). What does not fit into a batch"
        " waits for the node's next turn."
    ),
]
Parts = Annotated[
    int | None,
    typer.Option(
        help="Instead of --rows: into how many parts each node deals its rows; its turns rotate through them. Where"
        " nodes differ, ask for each and take the largest epsilon."
    ),
]
Method = Annotated[str, typer.Option(metavar="NAME", help="tight (proven) or paper (its theorems as stated).")]
DeltaPrime = Annotated[
    float | None,
    typer.Option(help="With method paper: delta' (default: delta, or 1e-6). The printed delta is their sum."),
]
View = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="offered: protects from an observer that is always ready; participants: from one that is skipped, too;"
        " final: from somebody outside who is shown the final model and nothing else.",
    ),
]
ObserverSkip = Annotated[
    float | None, typer.Option(help="With view participants: the observer's skip probability; by default --skip.")
]
TargetSkip = Annotated[
    float | None, typer.Option(help="Skip probability of the protected node, if it differs from the others'.")
]
Distance = Annotated[
    int | None, typer.Option(help="On the ring: hops from the protected node to the observer. Default: the worst.")
]
Position = Annotated[
    int | None, typer.Option(help="On the ring: place of the protected node, 1 to nodes. Default: the worst.")
]
Observers = Annotated[int, typer.Option(help="How many nodes put together what they saw.")]
Convexity = Annotated[
    bool,
    typer.Option(
        "--convex/--non-convex",
        help="Whether the loss is convex and smooth, and the learning rate at most 2 / smoothness.",
    ),
]
StepSize = Annotated[str, typer.Option(metavar="LAW", help="sqrt: learning rate / sqrt(update number); or constant.")]
LearningRate = Annotated[float | None, typer.Option(help="Checked against 2 / smoothness, if both are given.")]
Ready = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="What becomes of a node's preparation: fresh (lost if it is skipped; the default), kept, or ahead (it "
        "prepares its next turn right after an update).",
    ),
]
Smoothness = Annotated[
    float | None, typer.Option(help="Smoothness of the loss (rows of norm 1: logistic 0.25, softmax 0.5, squared 1).")
]
