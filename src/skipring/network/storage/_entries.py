"""Entries of a journal as text, and back.

The names of fields are those of the classes. A token's parameters are replaced by their SHA-256, and by their size if
they are in a file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..protocol import (
    Ballot,
    Copy,
    Entry,
    Forgotten,
    Forked,
    Gone,
    Heard,
    Kept,
    Kind,
    Over,
    Parameters,
    Passing,
    Rank,
    Released,
    Settled,
    Signatures,
    Token,
    Trail,
)
from .model_file import ModelFile

__all__ = ["dated_entry", "entry_fields", "entry_from", "entry_text", "token_in"]


def entry_text(fields: Mapping[str, Any]) -> str:
    """Return fields as one line of text, always the same for the same fields."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)


def token_fields(token: Token, name: str, file: ModelFile | None) -> dict[str, Any]:
    """Return a token without its parameters."""
    fields = {"updates": token.updates, **_trail_fields(token), "parameters": name}
    return fields if file is None else {**fields, "file": file.size}


def copy_fields(copy: Copy, name: str, file: ModelFile | None) -> dict[str, Any]:
    """Return a copy without its parameters."""
    token = token_fields(copy.token, name, file)
    return {"ballot": copy.ballot, "hop": copy.hop, "kind": copy.kind.name, "token": token}


def token_in(entry: Entry) -> Token | None:
    """Return the token that an entry brings, if it does."""
    if isinstance(entry, Kept | Released):
        return entry.copy.token
    return entry.token if isinstance(entry, Over) else None


def entry_fields(entry: Entry, name: str, file: ModelFile | None) -> dict[str, Any]:
    """Return an entry without parameters; `name` is their SHA-256, `file` where they are if they are in a file."""
    if isinstance(entry, Heard):
        told = {"start": entry.start, "before": entry.before}
        return {"ballot": entry.ballot, "promises": _signature_fields(entry.promises), **told}
    if isinstance(entry, Kept):
        return {"copy": copy_fields(entry.copy, name, file), "sender": entry.sender}
    if isinstance(entry, Released):
        return {"copy": copy_fields(entry.copy, name, file)}
    if isinstance(entry, Passing):
        return {"ballot": entry.ballot, "hop": entry.hop}
    if isinstance(entry, Forgotten):
        return {**_trail_fields(entry.trail), "sender": entry.sender}
    if isinstance(entry, Forked):
        return {"ballot": entry.ballot}
    if isinstance(entry, Settled):
        return {**_trail_fields(entry.trail), "line": entry.line, "looks": entry.looks, "below": entry.below}
    if isinstance(entry, Gone):
        return {"ballot": entry.ballot, "hop": entry.hop, "to": entry.to}
    votes = _signature_fields(entry.votes)
    return {"token": token_fields(entry.token, name, file), "ballot": entry.ballot, "votes": votes}


def _trail_fields(trail: Trail | Token) -> dict[str, Any]:
    return {"chain": trail.chain.hex(), "stamps": _signature_fields(trail.stamps)}


def _signature_fields(signatures: Signatures) -> list[tuple[int, str]]:
    return [(node, signature.hex()) for node, signature in signatures]


def signatures_from(fields: list[list[Any]]) -> Signatures:
    """Return who has signed something, and the signatures."""
    return tuple((node, bytes.fromhex(signature)) for node, signature in fields)


def ballot_from(numbers: list[int]) -> Ballot:
    """Return a ballot."""
    number, node = numbers
    return number, node


def rank_from(fields: list[Any] | None) -> Rank | None:
    """Return how far a copy is; journals of older versions do not say it."""
    return None if fields is None else (ballot_from(fields[0]), fields[1], Kind(fields[2]))


def _settled_from(fields: Mapping[str, Any]) -> Settled:
    line = tuple((ballot_from(ballot), hop) for ballot, hop in fields["line"])
    looks = tuple((place, tuple(nodes)) for place, nodes in fields["looks"])
    return Settled(_trail_from(fields), line, looks, ballot_from(fields["below"]))


def token_from(fields: Mapping[str, Any], models: Mapping[str, Parameters]) -> Token:
    """Return a token with the parameters that are still there."""
    trail = _trail_from(fields)
    return Token(fields["updates"], models.get(fields["parameters"], b""), trail.chain, trail.stamps)


def _trail_from(fields: Mapping[str, Any]) -> Trail:
    return Trail(bytes.fromhex(fields["chain"]), signatures_from(fields["stamps"]))


def copy_from(fields: Mapping[str, Any], models: Mapping[str, Parameters]) -> Copy:
    """Return a copy with the parameters that are still there."""
    token = token_from(fields["token"], models)
    return Copy(ballot_from(fields["ballot"]), fields["hop"], Kind[fields["kind"]], token)


def entry_from(fields: Mapping[str, Any], models: Mapping[str, Parameters]) -> Entry:
    """Return an entry with the parameters that are still there."""
    kind = fields["entry"]
    if kind == "Heard":
        promises, start = signatures_from(fields["promises"]), rank_from(fields.get("start"))
        before = fields.get("before")  # which journals of older versions have not, and nobody may have told
        told = None if before is None else tuple((ballot_from(each), rank_from(rank)) for each, rank in before)
        return Heard(ballot_from(fields["ballot"]), promises, start, told)
    if kind == "Kept":
        return Kept(copy_from(fields["copy"], models), fields["sender"])
    if kind == "Released":
        return Released(copy_from(fields["copy"], models))
    if kind == "Passing":
        return Passing(ballot_from(fields["ballot"]), fields["hop"])
    if kind == "Gone":
        return Gone(ballot_from(fields["ballot"]), fields["hop"], fields["to"])
    if kind == "Forgotten":
        return Forgotten(_trail_from(fields), fields["sender"])
    if kind == "Forked":
        return Forked(ballot_from(fields["ballot"]))
    if kind == "Settled":
        return _settled_from(fields)
    if kind == "Over":
        votes = signatures_from(fields["votes"])
        return Over(token_from(fields["token"], models), ballot_from(fields["ballot"]), votes)
    raise ValueError(f"an entry of kind {kind}")


def dated_entry(body: str | bytes, models: Mapping[str, Parameters]) -> tuple[float, Entry]:
    """Return an entry, and when it was written."""
    fields = json.loads(body)
    return fields["written"], entry_from(fields, models)
