"""An account as bytes, and back: what a journal writes down now and then, so that a start does not count it all.

Everything that an account has is written, whatever it is called, but for what follows from its terms. So nothing that
is added to it later can be forgotten here; what cannot be written raises an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import __version__
from ...privacy import OwnTranscript
from .._packing import Packer
from .own_updates import KnownWay, OwnUpdates
from .settled_account import Made

if TYPE_CHECKING:
    from .ledger import OwnAccount

#: What follows from the terms, or from the rest.
_FOLLOWS = {"terms", "_one", "_sizes", "_mu2"}
_PACKER = Packer({OwnTranscript: 1, OwnUpdates: 2, KnownWay: 3, Made: 4})


def packed(account: OwnAccount) -> bytes:
    """Return all that an account was told, added up."""
    told = {name: value for name, value in vars(account).items() if name not in _FOLLOWS}
    return _PACKER.pack((__version__, account.terms.digest, told))


def goes_on_from(account: OwnAccount, state: bytes) -> bool:
    """Let a new account go on from a state, if it is one with the same terms, of this version; say whether it is."""
    try:
        version, terms, told = _PACKER.unpack(state)
    except (TypeError, ValueError):
        return False
    if (version, terms) != (__version__, account.terms.digest) or told.keys() != vars(account).keys() - _FOLLOWS:
        return False
    vars(account).update(told)
    return True
