"""What a node keeps on its disk: its journal, which nothing is said before, and models that are too large for memory.

`JournalFile` is a node's own journal; `sum_journal` and `read_journal` look at one without changing it. Parameters are
bytes or a `ModelFile`; `store` and `load` turn an array into either and back, `digest_of` tells two of them apart.
`LedgerFile` is what all runs have released of one data set.
"""

from __future__ import annotations

from ._journal_errors import JournalBroken, JournalError, JournalFull, JournalInUse, JournalUnusable
from ._ledger_claim import LedgerClaim, LedgerInUse
from ._ledger_lines import Spent
from .journal_file import JournalFile
from .journal_reading import JournalReading, JournalSum, read_journal, sum_journal
from .ledger_file import LedgerBroken, LedgerFile, LedgerRecord, LedgerRun, LedgerUnusable, LedgerWriter, boot
from .model_file import (
    LARGE,
    ModelFile,
    ModelFolder,
    ModelWriter,
    chunks_of,
    digest_of,
    load_parameters,
    size_of,
    store_parameters,
)
