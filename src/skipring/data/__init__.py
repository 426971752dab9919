"""The data that nodes learn from, and how it is spread over them.

`load_dataset` fetches a known data set and `read_table` a user's own file; both return a `Dataset`. `prepare` sets
test rows aside and scales the rest (`Scaling`); an `encoder` makes public features of them, if one is asked for.
`split_over_nodes` deals the training rows to the nodes, which gives the `NodeData` that a run works on.

scikit-learn and pyarrow are imported only when a data set or a file needs them: they take longer to load than most
commands take to run.
"""

from __future__ import annotations

from .features import Encoder, check_encoder, encoded, encoder, watched
from .ids import require_one_spelling
from .made_up import made_up_rows
from .prepare import (
    PreparedRows,
    Scaling,
    prepare,
    require_finite_labels,
    require_single_precision,
    require_unit_rows,
    training_part,
)
from .schema import INDICATOR, Column, PlainColumns, Schema
from .schema_draft import SchemaDraft, draft_schema
from .schema_tables import SchemaRows, read_with_schema, rows_of_file, rows_of_frame
from .sources import DATASETS, Dataset, load_dataset, not_a_table, require_two_kinds
from .splits import SPLITS, NodeData, split_over_nodes
from .tables import from_arrays, read_table

__all__ = [
    "DATASETS",
    "INDICATOR",
    "SPLITS",
    "Column",
    "Dataset",
    "Encoder",
    "NodeData",
    "PlainColumns",
    "PreparedRows",
    "Scaling",
    "Schema",
    "SchemaDraft",
    "SchemaRows",
    "check_encoder",
    "draft_schema",
    "encoded",
    "encoder",
    "from_arrays",
    "load_dataset",
    "made_up_rows",
    "not_a_table",
    "prepare",
    "read_table",
    "read_with_schema",
    "require_finite_labels",
    "require_one_spelling",
    "require_single_precision",
    "require_two_kinds",
    "require_unit_rows",
    "rows_of_file",
    "rows_of_frame",
    "split_over_nodes",
    "training_part",
    "watched",
]
