"""Keys as OpenSSH writes them: for the relay, and for each node that reaches it."""

from __future__ import annotations

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def new_ssh_key() -> tuple[bytes, str]:
    """Make a key; return it as the text of its file, not encrypted, and its public half as one line without a name."""
    key = Ed25519PrivateKey.generate()
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    return text, _line(key)


def public_line_of(text: bytes) -> str | None:
    """Return the public half of a key's file, as one line; None if it is no key of ours."""
    try:
        key = serialization.load_ssh_private_key(text, password=None)
    except (ValueError, TypeError):
        return None
    return _line(key) if isinstance(key, Ed25519PrivateKey) else None


def _line(key: Ed25519PrivateKey) -> str:
    return key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()
