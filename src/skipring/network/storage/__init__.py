"""What a node keeps on its disk: its journal, which nothing is said before, and models that are too large for memory.

`JournalFile` is a node's own journal; `sum_journal` and `read_journal` look at one without changing it. Parameters are
bytes or a `ModelFile`; `store` and `load` turn an array into either and back, `digest_of` tells two of them apart.
`LedgerFile` is what all runs have released of one data set.
"""

from __future__ import annotations

from ._journal_errors import JournalBroken as JournalBroken
from ._journal_errors import JournalError as JournalError
from ._journal_errors import JournalFull as JournalFull
from ._journal_errors import JournalInUse as JournalInUse
from ._journal_errors import JournalUnusable as JournalUnusable
from ._ledger_claim import LedgerClaim as LedgerClaim
from ._ledger_claim import LedgerInUse as LedgerInUse
from ._ledger_lines import Spent as Spent
from .journal_file import JournalFile as JournalFile
from .journal_reading import JournalReading as JournalReading
from .journal_reading import JournalSum as JournalSum
from .journal_reading import read_journal as read_journal
from .journal_reading import sum_journal as sum_journal
from .ledger_file import LedgerBroken as LedgerBroken
from .ledger_file import LedgerFile as LedgerFile
from .ledger_file import LedgerRecord as LedgerRecord
from .ledger_file import LedgerRun as LedgerRun
from .ledger_file import LedgerUnusable as LedgerUnusable
from .ledger_file import LedgerWriter as LedgerWriter
from .ledger_file import boot as boot
from .model_file import LARGE as LARGE
from .model_file import ModelFile as ModelFile
from .model_file import ModelFolder as ModelFolder
from .model_file import ModelWriter as ModelWriter
from .model_file import chunks_of as chunks_of
from .model_file import digest_of as digest_of
from .model_file import load as load
from .model_file import size_of as size_of
from .model_file import store as store
