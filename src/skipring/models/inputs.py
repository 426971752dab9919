"""What a model is given: columns by name, read by a schema or as they are, and scaled as its training rows were."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import Column, PlainColumns, Scaling, Schema, encoder, rows_of_frame
from ..errors import InvalidInput
from ..runs import RunFile

_ANY = (-np.inf, np.inf)


@dataclass(frozen=True, kw_only=True)
class InputFacts:
    """What a model's file says of its inputs in words and numbers.

    Parameters
    ----------
    columns : how many numbers a row has before public features are made of it.
    names : the columns' names, in order; empty where nobody knows them, and with a schema, which has its own.
    why_unscaled : why nobody knows how rows are scaled.
    features : the public features that are made of each row (`model.features` of a run file).
    intercept : whether a constant is appended.
    intercept_share : how much of a row's square it gets; None: half.
    label, person, node : what those columns are called in tables without a schema.
    """

    columns: int
    names: tuple[str, ...] = ()
    why_unscaled: str = ""
    features: str = "none"
    intercept: bool
    intercept_share: float | None = None
    label: str | None = None
    person: str | None = None
    node: str | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Inputs(InputFacts):
    """What rows must look like, and how they become what a model sees.

    Parameters
    ----------
    classes : the names (or numbers) of the classes; empty where labels are numbers.
    schema : what the columns of tables mean, if there is one.
    scaling : how rows without a schema are scaled, without public features; None where nobody knows.
    """

    classes: NDArray[Any]
    schema: Schema | None = None
    scaling: Scaling | None = None

    @property
    def label_middle(self) -> float:
        """What is added to predictions of numbers: the middle of the label's range."""
        return 0.0 if self.schema is None else self.schema.label_middle

    @cached_property
    def table(self) -> Schema:
        """How tables are read: by the schema, or as plain numbers with the names of the columns."""
        if self.schema is not None:
            return self.schema
        if not self.names:
            reason = "the model does not know the names of its columns; give an array in the order of its training rows"
            raise InvalidInput.because("X", "a table", reason)
        columns = [Column(name, range=_ANY) for name in self.names]
        if self.label is not None:
            names = tuple((str(name), (str(name),)) for name in self.classes)
            columns.append(Column(self.label, "label", None if names else _ANY, names))
        if self.person is not None:
            columns.append(Column(self.person, "person"))
        if self.node is not None:
            columns.append(Column(self.node, "node"))
        return PlainColumns(tuple(columns))

    def values(self, X: Any) -> NDArray[np.floating[Any]]:
        """Return the numbers of rows before they are scaled: from an array in order, or from a frame by name."""
        if _is_frame(X):
            return rows_of_frame(X, self.table).features
        given = X if isinstance(X, np.ndarray) else np.asarray(X, dtype=object)
        wanted = self.columns if self.schema is None else len(self.schema.features)
        if given.ndim != 2 or given.shape[1] != wanted:
            names = self.names if self.schema is None else [column.name for column in self.schema.features]
            listed = f" ({', '.join(names[:8])}{', ...' if len(names) > 8 else ''})" if names else ""
            raise InvalidInput("X", f"an array of shape {given.shape}", f"rows of {wanted} columns{listed}")
        if self.schema is not None:
            named = zip(self.schema.features, given.T, strict=True)
            return rows_of_frame({column.name: column_of.tolist() for column, column_of in named}, self.schema).features
        try:
            return given if given.dtype in (np.float32, np.float64) else given.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInput("X", f"an array of {given.dtype}", f"numbers ({error})") from None

    def rows(self, values: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """Return what the model sees of the numbers of rows: scaled, with public features and the constant."""
        return self._whole_scaling.apply(values)

    def rows_without_constant(self, values: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """Return the same without the constant, and without the factor that makes room for it."""
        return dataclasses.replace(self._whole_scaling, intercept=False).apply(values)

    @property
    def room(self) -> tuple[float, float]:
        """What features were multiplied by to make room for the constant, and what the constant column holds."""
        share = self.intercept_share or 0.5
        bounded = self.schema is not None or (self.scaling is not None and self.scaling.unit_rows)
        return (math.sqrt(1.0 - share), math.sqrt(share)) if bounded else (1.0, 1.0)

    @cached_property
    def _whole_scaling(self) -> Scaling:
        made = encoder(self.features, self.columns)  # now, and not before: it may be a user's own function
        share = self.intercept_share or 0.5
        if self.schema is not None:
            nothing, one = np.zeros(self.columns), np.ones(self.columns)
            return Scaling(
                centre=nothing, scale=one, bounded=True, intercept=self.intercept, encoder=made, intercept_share=share
            )
        if self.scaling is None:
            raise InvalidInput.because("MODEL", "", f"it is not known how rows are scaled: {self.why_unscaled}")
        return dataclasses.replace(self.scaling, intercept=self.intercept, encoder=made, intercept_share=share)


def inputs_of(
    run: RunFile,
    *,
    columns: int,
    names: Sequence[str],
    classes: Sequence[str],
    scaling: Scaling | None,
    why_unscaled: str = "",
) -> Inputs:
    """Return what models of a run are given; `names`, `classes` and `scaling` are those of its rows."""
    schema = run.table
    plain = schema is None
    return Inputs(
        columns=columns,
        names=tuple(names) if plain else (),
        classes=np.array(list(classes), dtype=str),
        schema=schema,
        scaling=None if scaling is None or not plain else dataclasses.replace(scaling, intercept=False, encoder=None),
        why_unscaled=why_unscaled,
        features=run.model.features,
        intercept=run.model.intercept,
        intercept_share=run.model.intercept_share,
        label=run.data.label if plain else None,
        person=run.data.person if plain else None,
        node=run.data.node if plain else None,
    )


def _is_frame(X: Any) -> bool:
    return isinstance(X, Mapping) or hasattr(X, "columns") or hasattr(X, "column_names")
