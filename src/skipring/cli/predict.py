"""`skipring predict`: what a trained model says of the rows of a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .._json import to_json
from ..errors import InvalidInput
from ._options import Force
from ._output import Json, print_json, print_rows, printable, require_new

if TYPE_CHECKING:
    from ..models import Metrics


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model's file (model.npz).")],
    rows: Annotated[Path, typer.Argument(metavar="ROWS", help="A table (csv or parquet) with the model's columns.")],
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("predictions.csv"),
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Predict each row of a table; where it has the label, say how good that is.

    Columns are found by name, in any order. The file has a line for each row: the prediction, and the probability of
    each class.
    """
    from ..models import load_model, predict_file  # loaded when the command runs

    require_new(out, force)
    loaded = load_model(model)
    try:
        found = predict_file(loaded, rows, out)
    except InvalidInput as problem:
        if problem.parameter not in ("path", "X"):
            raise
        raise InvalidInput.because("ROWS", rows, problem.reason) from None
    if as_json:
        facts = loaded.facts
        print_json(
            {"model": facts.name, "file": str(out), "rows": found.rows, "metrics": to_json(found.metrics)}
            | {"updates": facts.updates, "run": facts.run, "source": facts.source}
            | {"guarantee": to_json(facts.guarantee)}
        )
        return
    notes = [] if found.metrics is None else ["Metrics are of these rows, and no noise protects them."]
    if found.metrics is not None and found.metrics.rmse is not None and loaded.inputs.schema is not None:
        notes.append("A label outside of the schema's range counts as the end of it.")
    if found.blank_label is not None:
        notes.append(f"There are no metrics: column {found.blank_label!r}, the label, has no value in any row.")
    shown: list[tuple[str, object]] = [("rows", found.rows)]
    shown += [] if found.metrics is None else _metrics(found.metrics)
    notes += map(printable, loaded.facts.guarantee.sentences())
    print_rows(shown, "\n".join([*notes, f"Predictions are in {out}."]))


def _metrics(metrics: Metrics) -> list[tuple[str, object]]:
    if metrics.rmse is not None:
        return [("root mean squared error", metrics.rmse), ("by always guessing the mean", metrics.guessed_rmse)]
    guessed = ("by always guessing the commonest class", metrics.guessed_accuracy)
    found: list[tuple[str, object]] = [("accuracy", metrics.accuracy), guessed]
    if metrics.log_loss is not None:
        found += [("log loss", metrics.log_loss), ("by guessing the share of each class", metrics.guessed_log_loss)]
    return found
