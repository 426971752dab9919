"""How messages travel between machines, and who is at the other end.

`Transport` sends and receives what `wire` spells, over connections on which both ends have a certificate (`Keys`) that
the `Roster` names; whoever has another `Agreement` is refused. Loaded when first used, since it needs the extra
``network``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._lazy import lazily

if TYPE_CHECKING:
    from . import certificates
    from .agreement import PROTOCOL, Agreement
    from .connections import Receiver, Shape, Transport
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

__all__ = [
    "CERTIFICATE",
    "PACKAGE",
    "PROTOCOL",
    "SOON",
    "Address",
    "AddressInUse",
    "Agreement",
    "Done",
    "Expiry",
    "Frame",
    "Heading",
    "Keys",
    "Malformed",
    "Notary",
    "OutcomeCertificate",
    "Receiver",
    "Roster",
    "RunSeal",
    "Shape",
    "Statement",
    "Transport",
    "Way",
    "certificates",
    "decode",
    "encode",
    "expiries",
    "listening_sockets",
    "node_uri",
    "parse_joining",
    "parse_nodes",
    "peer_name",
    "read_roster",
    "renewal",
    "renewed_in",
    "require_cryptography",
    "roster_of_text",
    "server_name",
    "spelled",
    "within",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "Address": "roster",
        "AddressInUse": "roster",
        "listening_sockets": "listening",
        "Agreement": "agreement",
        "CERTIFICATE": "votes",
        "Done": "wire",
        "Expiry": "expiry",
        "Frame": "wire",
        "Heading": "wire",
        "Keys": "tls",
        "Malformed": "wire",
        "Notary": "votes",
        "OutcomeCertificate": "votes",
        "PACKAGE": "wire",
        "PROTOCOL": "agreement",
        "Receiver": "connections",
        "Roster": "roster",
        "RunSeal": "votes",
        "SOON": "expiry",
        "Shape": "connections",
        "Statement": "votes",
        "Transport": "connections",
        "Way": "votes",
        "decode": "wire",
        "encode": "wire",
        "expiries": "expiry",
        "node_uri": "identity",
        "parse_joining": "roster",
        "parse_nodes": "roster",
        "peer_name": "identity",
        "read_roster": "roster",
        "renewal": "expiry",
        "renewed_in": "expiry",
        "require_cryptography": "identity",
        "roster_of_text": "roster",
        "server_name": "identity",
        "spelled": "roster",
        "within": "roster",
    },
)
