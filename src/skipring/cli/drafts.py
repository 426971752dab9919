"""Files for a person to edit: a run file (`skipring init`), and what the columns of a table mean (`schema`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .._command import command
from .._writing import write_output
from ._options import Force
from ._output import Json, print_json, require_new

if TYPE_CHECKING:
    from ..data import SchemaDraft


def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")] = Path("run.toml"),
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a run file with every key, its default and what it means."""
    from ..runs import example_run_file  # loaded when the command runs

    require_new(file, force, "FILE")
    write_output(file, example_run_file(), "FILE")
    if as_json:
        print_json({"file": str(file)})
        return
    print(f"{file} is written; next: {command('simulate', file)}")


def schema(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A table (csv or parquet) of public or made-up rows.")],
    label: Annotated[str | None, typer.Option(help="The column that is to be predicted.")] = None,
    person: Annotated[str | None, typer.Option(help="The column that says whose a row is.")] = None,
    node: Annotated[str | None, typer.Option(help="The column that says which node a row belongs to.")] = None,
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("schema.toml"),
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Draft a schema from a table: ranges, categories, what is missing; for you to edit.

    The draft is read off the rows, which no epsilon covers: give it public or made-up rows, not patients.
    """
    from ..data import draft_schema  # loaded when the command runs

    require_new(out, force)
    draft = draft_schema(file, label=label, person=person, node=node)
    write_output(out, _text(draft, file))
    if as_json:
        print_json({"file": str(out), "rows": draft.rows, "column": draft.schema.to_values(), "remarks": draft.remarks})
        return
    columns = draft.schema.columns
    ignored = [column.name for column in columns if column.role == "ignore"]
    count = len(draft.schema.features)
    columns_of = f"{count} column{'' if count == 1 else 's'}"
    print(f"{out} is written: {columns_of} to learn from, read off {draft.rows} rows.")
    if ignored:
        print(f"Not used: {', '.join(ignored)}.")
    print("These rows must be public or made up: no epsilon covers what was read off them.")
    print(f'Edit it; then say schema_file = "{out.name}" under [data] of a run file.')


def _text(draft: SchemaDraft, file: Path) -> str:
    from ..runs import toml_value

    lines = [
        f"# Drafted from {draft.rows} rows of {file.name}, which must be public or made up: no epsilon covers what was",
        "# read off them. Edit it by what is known elsewhere; what lies outside of a range is clipped to it.",
    ]
    for column in draft.schema.columns:
        lines += ["", "[[column]]"]
        if remark := draft.remarks.get(column.name):
            lines.append(f"# {remark}")
        lines += [f"{key} = {toml_value(value)}" for key, value in column.to_values().items()]
    return "\n".join(lines) + "\n"
