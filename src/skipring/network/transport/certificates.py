"""X.509 for a private network: one authority, and one certificate per node. The only file that needs cryptography."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from .roster import ip_of


@dataclass(frozen=True)
class Authority:
    """The key that signs the nodes' certificates, and its own certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


def new_authority(begin: datetime, end: datetime, key: ec.EllipticCurvePrivateKey | None = None) -> Authority:
    """Make an authority that may sign nodes' certificates, and no other authority's.

    With the `key` of an earlier one it is the same authority for longer: what that has signed, this one has.
    """
    key = ec.generate_private_key(ec.SECP256R1()) if key is None else key
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "skipring authority")])
    builder = (
        _builder(name, name, key.public_key(), begin, end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    return Authority(key, builder.sign(key, hashes.SHA256()))


def issue(
    authority: Authority, name: str, hosts: Sequence[str], uri: str, begin: datetime, end: datetime
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    """Make a node's key and its certificate, bound to its name and hosts, for both ends of a connection."""
    key = ec.generate_private_key(ec.SECP256R1())
    return key, certify(authority, key.public_key(), name, hosts, uri, begin, end)


def certify(
    authority: Authority,
    key: ec.EllipticCurvePublicKey,
    name: str,
    hosts: Sequence[str],
    uri: str,
    begin: datetime,
    end: datetime,
) -> x509.Certificate:
    """Make a certificate for a key that there is already; whose it is need not show it for that."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri)]
    for host in hosts:
        ip = ip_of(host)
        names.append(x509.DNSName(host) if ip is None else x509.IPAddress(ip))
    both_ends = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    parent = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = (
        _builder(subject, authority.certificate.subject, key, begin, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(both_ends), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(parent, critical=False)
    )
    return builder.sign(authority.key, hashes.SHA256())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, begin: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a key as text, not encrypted: a node must start while nobody types."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def certificate_pem(certificate: x509.Certificate) -> bytes:
    """Return a certificate as text."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def fingerprint_of(certificate: x509.Certificate) -> str:
    """Return the SHA-256 fingerprint of a certificate."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def private_key(pem: bytes) -> ec.EllipticCurvePrivateKey | None:
    """Read a key; None if it is none that we make."""
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError):
        return None
    return key if isinstance(key, ec.EllipticCurvePrivateKey) else None


def certificate(content: bytes) -> x509.Certificate | None:
    """Read a certificate, as text or DER; None if it is none."""
    try:
        if b"-----BEGIN" in content:
            return x509.load_pem_x509_certificate(content)
        return x509.load_der_x509_certificate(content)
    except ValueError:
        return None


def signed_by(one: x509.Certificate, authority: x509.Certificate) -> bool:
    """Whether a certificate was signed with the authority's key."""
    try:
        one.verify_directly_issued_by(authority)
    except Exception:  # a wrong name, a key of another kind, a wrong signature: three types of errors
        return False
    return True


def uris_of(one: x509.Certificate) -> list[str]:
    """Return the URIs that a certificate is bound to; none if they cannot be read."""
    try:
        names = one.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return list(names.get_values_for_type(x509.UniformResourceIdentifier))
    except (ValueError, x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        return []


def common_names_of(one: x509.Certificate) -> list[str]:
    """Return the common names in a certificate's subject."""
    try:
        return [str(entry.value) for entry in one.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    except ValueError:
        return []


def same_key(key: ec.EllipticCurvePrivateKey, one: x509.Certificate) -> bool:
    """Whether a key belongs to a certificate."""
    return key.public_key() == one.public_key()


def sign(key: ec.EllipticCurvePrivateKey, content: bytes) -> bytes:
    """Sign some bytes with a node's key."""
    return key.sign(content, ec.ECDSA(hashes.SHA256()))


def public_key_of(key: ec.EllipticCurvePrivateKey) -> str:
    """Return what others check a key's signatures with, as the roster has it."""
    return _point_of(key.public_key())


def key_of(one: x509.Certificate) -> str | None:
    """Return the key of a certificate, as the roster has it; None if it is of another kind."""
    try:
        key = one.public_key()
    except (ValueError, UnsupportedAlgorithm):
        return None
    return _point_of(key) if isinstance(key, ec.EllipticCurvePublicKey) else None


def _point_of(key: ec.EllipticCurvePublicKey) -> str:
    return key.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.CompressedPoint).hex()


def is_signature(public_key: str, signature: bytes, content: bytes) -> bool:
    """Whether some bytes were signed with the key of a node, as the roster has it."""
    key = public_key_from(public_key)
    if key is None:
        return False
    try:
        key.verify(signature, content, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True


@cache  # one for each node of a run; to find the point takes as long as to check a signature
def public_key_from(text: str) -> ec.EllipticCurvePublicKey | None:
    """Read a key as the roster has it; None if it is none."""
    try:
        return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), bytes.fromhex(text))
    except ValueError:
        return None
