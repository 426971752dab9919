"""How messages travel between machines, and who is at the other end.

`Transport` sends and receives what `wire` spells, over connections on which both ends have a certificate (`Keys`) that
the `Roster` names; a caller with another `Agreement` is refused. Loaded when first used, since it needs the extra
``network``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._lazy import lazily

if TYPE_CHECKING:
    from . import certificates
    from .agreement import PROTOCOL, Agreement
    from .connections import Receiver, RunShape, Transport
    from .expiry import SOON, Expiry, expiries, renewal, renewed_in
    from .identity import node_uri, peer_name, require_cryptography, server_name
    from .listening import listening_sockets
    from .roster import (
        Address,
        AddressInUse,
        Roster,
        parse_joining,
        parse_nodes,
        read_roster,
        roster_of_text,
        spelled,
        within,
    )
    from .tls import Keys
    from .votes import CERTIFICATE, Notary, OutcomeCertificate, RunSeal, Statement, Way
    from .wire import PACKAGE, Done, Frame, Heading, Malformed, decode, encode


__getattr__, __dir__ = lazily(__name__, __file__)
