"""How messages travel between machines, and who is at the other end.

`Transport` sends and receives what `wire` spells, over connections on which both ends have a certificate (`Keys`) that
the `Roster` names; whoever has another `Agreement` is refused. Loaded when first used, since it needs the extra
``network``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._lazy import lazily

if TYPE_CHECKING:
    from . import certificates as certificates
    from .agreement import PROTOCOL as PROTOCOL
    from .agreement import Agreement as Agreement
    from .connections import Receiver as Receiver
    from .connections import Shape as Shape
    from .connections import Transport as Transport
    from .expiry import SOON as SOON
    from .expiry import Expiry as Expiry
    from .expiry import expiries as expiries
    from .expiry import renewal as renewal
    from .expiry import renewed_in as renewed_in
    from .identity import node_uri as node_uri
    from .identity import peer_name as peer_name
    from .identity import require_cryptography as require_cryptography
    from .identity import server_name as server_name
    from .listening import listening_sockets as listening_sockets
    from .roster import Address as Address
    from .roster import AddressInUse as AddressInUse
    from .roster import Roster as Roster
    from .roster import parse_joining as parse_joining
    from .roster import parse_nodes as parse_nodes
    from .roster import read_roster as read_roster
    from .roster import roster_of_text as roster_of_text
    from .roster import spelled as spelled
    from .roster import within as within
    from .tls import Keys as Keys
    from .votes import CERTIFICATE as CERTIFICATE
    from .votes import Notary as Notary
    from .votes import OutcomeCertificate as OutcomeCertificate
    from .votes import RunSeal as RunSeal
    from .votes import Statement as Statement
    from .votes import Way as Way
    from .wire import PACKAGE as PACKAGE
    from .wire import Done as Done
    from .wire import Frame as Frame
    from .wire import Heading as Heading
    from .wire import Malformed as Malformed
    from .wire import decode as decode
    from .wire import encode as encode


__getattr__, __dir__ = lazily(__name__)
