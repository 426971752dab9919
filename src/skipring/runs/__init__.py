"""What a run is: its file, its defaults, its rows, and what it resolves to.

`RunFile` is a run described in TOML (`read_run_file`, `parse_run`, `with_changes`, `example_run_file`). `resolve` turns
it into a `ResolvedRun` with nothing left open, for simulations and for real nodes alike. `dealt_rows` loads, prepares
and deals its data. What is wrong in a run file is named by its key (`by_key`).
"""

from __future__ import annotations

from .notes import delta_notes as delta_notes
from .notes import laps_notes as laps_notes
from .notes import no_noise as no_noise
from .notes import not_covered as not_covered
from .notes import not_covered_in_simulations as not_covered_in_simulations
from .notes import rows_notes as rows_notes
from .notes import turns_per_node as turns_per_node
from .notes import unsaid_data as unsaid_data
from .resolve import Known as Known
from .resolve import ResolvedRun as ResolvedRun
from .resolve import designed_ring_of as designed_ring_of
from .resolve import epsilon_of as epsilon_of
from .resolve import laps_of as laps_of
from .resolve import model_of as model_of
from .resolve import no_privacy as no_privacy
from .resolve import protection_of as protection_of
from .resolve import require_own_scales as require_own_scales
from .resolve import resolve as resolve
from .resolve import step_sizes_of as step_sizes_of
from .resolve import units_of_nodes as units_of_nodes
from .resolve import usual_batch as usual_batch
from .rows import DEFAULT_NODES as DEFAULT_NODES
from .rows import check_agreement as check_agreement
from .rows import clipped_labels as clipped_labels
from .rows import dataset_of as dataset_of
from .rows import dealt_rows as dealt_rows
from .rows import first_rows_of_persons as first_rows_of_persons
from .rows import label_bound_is_agreed as label_bound_is_agreed
from .rows import prepared_rows as prepared_rows
from .rows import protected_rows as protected_rows
from .rows import stream as stream
from .runfile import RunFile as RunFile
from .runfile import change_value as change_value
from .runfile import example_run_file as example_run_file
from .runfile import parse_change as parse_change
from .runfile import parse_run as parse_run
from .runfile import read_run_file as read_run_file
from .runfile import read_toml as read_toml
from .runfile import toml_value as toml_value
from .runfile import with_changes as with_changes
from .sections import FLOOR as FLOOR
from .sections import USUAL_LAW as USUAL_LAW
from .sections import LapsSection as LapsSection
from .sections import Late as Late
from .sections import Ready as Ready
from .sections import SimulationSection as SimulationSection
from .sections import Stragglers as Stragglers
from .wording import by_key as by_key
from .wording import expected as expected
from .wording import unknown_key as unknown_key
