"""The data that nodes learn from, and how it is spread over them.

`load_dataset` fetches a known data set and `read_table` a user's own file; both return a `Dataset`. `prepare` sets
test rows aside and scales the rest (`Scaling`); an `encoder` makes public features of them, if one is asked for.
`split_over_nodes` deals the training rows to the nodes, which gives the `NodeData` that a run works on.

scikit-learn and pyarrow are imported only when a data set or a file needs them: they take longer to load than most
commands take to run.
"""

from __future__ import annotations

from .consortia import consortium_schema as consortium_schema
from .consortia import consortium_tables as consortium_tables
from .features import Encoder as Encoder
from .features import check_encoder as check_encoder
from .features import encoded as encoded
from .features import encoder as encoder
from .features import watched as watched
from .ids import require_one_spelling as require_one_spelling
from .made_up import made_up_rows as made_up_rows
from .prepare import PreparedRows as PreparedRows
from .prepare import Recipe as Recipe
from .prepare import Scaling as Scaling
from .prepare import prepare as prepare
from .prepare import require_finite_labels as require_finite_labels
from .prepare import require_single_precision as require_single_precision
from .prepare import require_unit_rows as require_unit_rows
from .prepare import training_part as training_part
from .schema import Column as Column
from .schema import PlainColumns as PlainColumns
from .schema import Schema as Schema
from .schema_draft import SchemaDraft as SchemaDraft
from .schema_draft import draft_schema as draft_schema
from .schema_tables import SchemaRows as SchemaRows
from .schema_tables import read_with_schema as read_with_schema
from .schema_tables import rows_of_file as rows_of_file
from .schema_tables import rows_of_frame as rows_of_frame
from .sources import DATASETS as DATASETS
from .sources import Dataset as Dataset
from .sources import is_published as is_published
from .sources import load_dataset as load_dataset
from .sources import not_a_table as not_a_table
from .sources import require_two_kinds as require_two_kinds
from .splits import SPLITS as SPLITS
from .splits import Dealing as Dealing
from .splits import NodeData as NodeData
from .splits import split_over_nodes as split_over_nodes
from .tables import from_arrays as from_arrays
from .tables import read_table as read_table
