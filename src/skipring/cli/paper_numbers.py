"""The paper's numbers beside ours: `skipring paper numbers`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from ._output import Json, print_json


def numbers(
    results: Annotated[Path, typer.Argument(metavar="DIR", help="Folder with the CSV files of all figures.")] = Path(
        "paper-figures"
    ),
    as_json: Json = False,
) -> None:
    """Print what the paper states in numbers beside what the figures' CSV files say, as a table in Markdown."""
    from ..experiments import paper_numbers, statements_markdown  # loaded when the command runs

    found = paper_numbers(results)
    if as_json:
        print_json({"statements": [dataclasses.asdict(statement) for statement in found]})
        return
    print(statements_markdown(found), end="")
