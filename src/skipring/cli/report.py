"""A page about simulations: `skipring report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .._writing import write_output
from ..errors import InvalidInput
from ._output import Json, print_json


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="Folders of finished simulations; plain files among them are left out."),
    ],
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    as_json: Json = False,
) -> None:
    """Write one page about simulations: error, privacy, who was skipped, and a table for a paper."""
    # `DIR/*` after a comparison also names its figure.
    left_out = [path for path in folders if path.is_file()]
    chosen = list(dict.fromkeys(path for path in folders if path not in left_out))
    if not chosen:
        raise InvalidInput("DIR", left_out[0], "the folder of a finished simulation")
    if out.is_dir():
        raise InvalidInput.because("out", out, "is a folder")

    from ..report import load_folders, report_page, row_of  # loaded when the command runs

    loaded = load_folders(chosen)
    page = report_page(loaded)
    write_output(out, page)
    if as_json:
        print_json(
            {
                "file": str(out),
                "folders": [row_of(folder) for folder in loaded],
                "left_out": [str(path) for path in left_out],
            }
        )
        return
    count = f"{len(loaded)} simulations" if len(loaded) > 1 else "1 simulation"
    print(f"{out} is written, about {count}; it needs no network: open it in a browser")
