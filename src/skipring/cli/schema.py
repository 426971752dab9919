"""`skipring schema`: a first draft of what the columns of a table mean, for a person to edit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .._writing import write_output
from ..errors import InvalidInput
from ._output import Json, print_json

if TYPE_CHECKING:
    from ..data import SchemaDraft


def schema(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A table (csv or parquet) of public or made-up rows.")],
    label: Annotated[str | None, typer.Option(help="The column that is to be predicted.")] = None,
    person: Annotated[str | None, typer.Option(help="The column that says whose a row is.")] = None,
    node: Annotated[str | None, typer.Option(help="The column that says which node a row belongs to.")] = None,
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("schema.toml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: Json = False,
) -> None:
    """Draft a schema from a table: ranges, categories, what is missing; for you to edit.

    The draft is read off the rows, which no epsilon covers: give it public or made-up rows, not patients.
    """
    from ..data import draft_schema  # loaded when the command runs

    if out.exists() and not force:
        raise InvalidInput.because("out", out, "exists already; --force overwrites it")
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
