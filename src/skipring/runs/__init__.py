"""What a run is: its file, its defaults, its rows, and what it resolves to.

`RunFile` is a run described in TOML (`read_run_file`, `parse_run`, `with_changes`, `example_run_file`). `resolve` turns
it into a `ResolvedRun` with nothing left open, for simulations and for real nodes alike. `dealt_rows` loads, prepares
and deals its data. What is wrong in a run file is named by its key (`keys`).
"""

from __future__ import annotations

from .changes import change_value, parse_change, read_toml
from .example import example_run_file, toml_value
from .keys import RUN_KEYS, keys
from .notes import (
    delta_notes,
    most_units_of_a_node,
    no_noise,
    not_covered,
    not_covered_in_simulations,
    rows_notes,
    turns_per_node,
    units_of_all_nodes,
    unsaid_data,
)
from .resolve import (
    Budget,
    ResolvedRun,
    Shape,
    budget_of,
    designed_ring_of,
    model_of,
    no_privacy,
    protection_of,
    require_cuttable,
    require_own_scales,
    resolve,
    step_sizes_of,
    usual_batch,
)
from .rows import (
    DEFAULT_NODES,
    check_agreement,
    clipped_labels,
    dataset_of,
    dealt_rows,
    first_rows_of_persons,
    label_bound_is_agreed,
    prepared_rows,
    protected_rows,
    stream,
)
from .runfile import (
    FLOOR,
    RIVALS,
    USUAL_LAW,
    Late,
    Ready,
    RunFile,
    StragglersSection,
    parse_run,
    read_run_file,
    with_changes,
)
from .wording import expected, unknown_key

__all__ = [
    "DEFAULT_NODES",
    "FLOOR",
    "RIVALS",
    "RUN_KEYS",
    "USUAL_LAW",
    "Budget",
    "Late",
    "Ready",
    "ResolvedRun",
    "RunFile",
    "Shape",
    "StragglersSection",
    "budget_of",
    "change_value",
    "check_agreement",
    "clipped_labels",
    "dataset_of",
    "dealt_rows",
    "delta_notes",
    "designed_ring_of",
    "example_run_file",
    "expected",
    "first_rows_of_persons",
    "keys",
    "label_bound_is_agreed",
    "model_of",
    "most_units_of_a_node",
    "no_noise",
    "no_privacy",
    "not_covered",
    "not_covered_in_simulations",
    "parse_change",
    "parse_run",
    "prepared_rows",
    "protected_rows",
    "protection_of",
    "read_run_file",
    "read_toml",
    "require_cuttable",
    "require_own_scales",
    "resolve",
    "rows_notes",
    "step_sizes_of",
    "stream",
    "toml_value",
    "turns_per_node",
    "units_of_all_nodes",
    "unknown_key",
    "unsaid_data",
    "usual_batch",
    "with_changes",
]
