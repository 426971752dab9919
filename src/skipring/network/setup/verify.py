"""Checking later, and offline, that a run ended with a model: by the votes that a node keeps beside it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ...errors import InvalidInput, given_as
from ...models import load_model
from ..transport import CERTIFICATE, OutcomeCertificate, Statement, Way, read_roster


@dataclass(frozen=True, kw_only=True)
class Verified:
    """Who has signed that the run ended with this model, and who has not; `problem` says why that is not enough.

    `last_hop` is the hop of its last update, and `steps` how many were agreed on. If the run ended early by agreement,
    `asked` are those who asked for it. `warning` says that the last update was earlier than agreed, unasked;
    `early` that so much is missing that nodes which were skipped at the end are no likely reason.
    """

    run: str
    ballot: tuple[int, int]
    updates: int
    model: str
    signed: tuple[str, ...]
    unsigned: tuple[str, ...]
    needed: int
    problem: str | None
    last_hop: int | None = None
    steps: int | None = None
    asked: tuple[str, ...] = ()
    warning: str | None = None
    early: bool = False


def verify_outcome(
    model: str | Path, roster: str | Path | None = None, certificate: str | Path | None = None
) -> Verified:
    """Check that a majority of a roster's nodes have signed that their run ended with a model (model.npz or model.npy).

    The roster is what must be trusted: it has the nodes' keys. By default it and the
    votes (outcome.json) are those beside the model.
    """
    path = Path(model)
    if not path.is_file():
        raise InvalidInput.because("MODEL", path, "is not a file; a node writes model.npz and model.npy at the end")
    with given_as("FILE" if roster is None else "roster", instead_of="FILE"):
        known = read_roster(Path(roster) if roster is not None else path.parent / "roster.toml")
    votes = Path(certificate) if certificate is not None else path.parent / CERTIFICATE
    try:
        text = votes.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise InvalidInput.because(
            "certificate", votes, "cannot be read; a node writes it beside its final model"
        ) from None
    try:
        found = OutcomeCertificate.from_json(text, known)
    except InvalidInput as refused:
        raise InvalidInput.because("certificate", votes, refused.reason) from None
    digest, run = _digest_of_model(path)
    signed = found.signers(known)
    needed = len(known) // 2 + 1
    problem = None
    if digest != found.statement.model:
        problem = (
            f"the votes are for another model: SHA-256 {found.statement.model[:16]}..., and this is {digest[:16]}..."
        )
    elif run is not None and run != found.statement.run:
        problem = "the model's file says that it is of another run"
    elif found.strangers:
        problem = f"the roster is another run's: it does not have {', '.join(found.strangers)}, whose votes these are"
    elif len(signed) < needed:
        problem = f"{len(signed)} of {len(known)} nodes have signed it, and a majority is {needed}"
    elif found.way is None:
        problem = "it does not say at which hop the run ended"
    else:
        problem = found.way.problem(found.statement, known)
    verified = _verified(found.statement, known.names, signed, needed, digest, problem)
    if found.way is None or problem is not None:
        return verified
    asked = tuple(known.names[node] for node in sorted(found.way.wishes))
    verified = replace(verified, last_hop=found.way.hop, steps=found.way.steps, asked=asked)
    return verified if asked else _warned(verified, found.way, len(known))


def _warned(verified: Verified, way: Way, nodes: int) -> Verified:
    """Say that a run ended before its last hop, though no majority has asked for that: votes alone do not show why."""
    missing = way.steps - way.hop
    if not missing:
        return verified
    if missing < nodes:  # less than a round
        why = "the nodes of the hops after it were skipped, or a node ended it early"
    else:
        why = "one member that had the token can have ended it early, or nobody was left who took part"
    warning = f"the last update was at hop {way.hop} of {way.steps}, and no majority asked for an early end: {why}"
    return replace(verified, warning=warning, early=missing >= nodes)


def _verified(
    statement: Statement, names: tuple[str, ...], signed: list[int], needed: int, model: str, problem: str | None
) -> Verified:
    return Verified(
        run=statement.run,
        ballot=statement.ballot,
        updates=statement.updates,
        model=model,
        signed=tuple(names[node] for node in signed),
        unsigned=tuple(name for node, name in enumerate(names) if node not in signed),
        needed=needed,
        problem=problem,
    )


def _digest_of_model(path: Path) -> tuple[str, str | None]:
    """Return the SHA-256 of a model's parameters, and the run that its file names, if it does."""
    if path.suffix == ".npz":
        trained = load_model(path)
        return hashlib.sha256(np.ascontiguousarray(trained.parameters).data).hexdigest(), trained.facts.run
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError):
        raise InvalidInput.because("MODEL", path, "is neither a model.npz nor a model.npy") from None
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest(), None
