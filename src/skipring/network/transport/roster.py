"""The roster: who takes part in a run, where each node listens, and which key is its own."""

from __future__ import annotations

import ipaddress
import re
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..._digest import digest
from ...errors import InvalidInput
from .._files import Section, quoted, read_checked

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_HOST = re.compile(
    r"(?=.{1,253}\Z)[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?)*"
)
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_KEY = re.compile(r"0[23][0-9a-f]{64}")
_RESERVED = {"ca": "the authority's", "relay": "the relay's"}  # whose folder it is
NODE_DOMAIN = ".node.skipring"  # no host is called so; certificates bind a node's name as one (identity.server_name)


#: What a roster has instead of the address of a node that nobody can call.
OUTGOING = "outgoing"


class AddressInUse(InvalidInput):
    """This process cannot listen on an address at present: another one does, or the machine has not got it (yet)."""


@dataclass(frozen=True)
class Address:
    """Where a node listens; written host:port, with brackets around an IPv6 address.

    >>> Address.parse("clinic.example:7600")
    Address(host='clinic.example', port=7600)
    >>> str(Address.parse("[::1]:7600"))
    '[::1]:7600'
    """

    host: str
    port: int

    def __post_init__(self) -> None:
        _check_host(self.host)
        _check_port(self.port)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read host:port."""
        host, port = _split(text)
        if port is None:
            raise InvalidInput("address", text, "of the form host:port")
        return cls(host, port)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        ip = ip_of(self.host)
        return self.host.lower() == "localhost" if ip is None else ip.is_loopback


def spelled(address: Address | None) -> str:
    """Return an address as a roster has it.

    >>> spelled(None)
    'outgoing'
    """
    return OUTGOING if address is None else str(address)


def ip_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return a host's IP address, if it is written as one."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _split(text: str) -> tuple[str, int | None]:
    """Split host, host:port, [IPv6] or [IPv6]:port."""
    found = re.fullmatch(r"(?:\[(?P<ipv6>[^\[\]]*)\]|(?P<host>[^:\[\]]*))(?::(?P<port>[0-9]{1,9}))?", text, re.ASCII)
    if found is None or (found["ipv6"] is not None and ":" not in found["ipv6"]):
        raise InvalidInput("address", text, "of the form host:port, with brackets around an IPv6 address")
    return found["ipv6"] or found["host"], None if found["port"] is None else int(found["port"])


@contextmanager
def within(parameter: str, word: str) -> Iterator[None]:
    """Refuse an address as a part of the word that it was given in, by the parameter that was given."""
    try:
        yield
    except InvalidInput as problem:
        reason = problem.reason
        if problem.parameter != "address" and reason.startswith("must be"):
            reason = f"its {problem.parameter} {reason}"
        raise InvalidInput.because(parameter, word or "(empty)", reason) from None


def _check_host(host: str) -> None:
    ip = ip_of(host)
    numeric = re.fullmatch(r"[0-9.]*", host) is not None  # 1.2.3.400 is a mistyped address, not a name
    if ip is None and (numeric or _HOST.fullmatch(host) is None):
        raise InvalidInput("host", host or "(empty)", "a host name or an IP address")
    if host.lower().endswith(NODE_DOMAIN):
        raise InvalidInput.because("host", host, f"{NODE_DOMAIN} is for the names of nodes, not of hosts")
    if ip is not None and (ip.is_unspecified or "%" in host):
        raise InvalidInput("host", host, "a host that the other nodes can reach")


def _check_port(port: int) -> None:
    if not 1 <= port <= 65535:
        raise InvalidInput("port", port, "between 1 and 65535")


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if _NAME.fullmatch(name) is None:
            raise InvalidInput(
                "nodes", name or "(empty)", "names of letters, digits and -, 63 at most, with - only inside"
            )
        if name.lower() in _RESERVED:
            whose = _RESERVED[name.lower()]
            raise InvalidInput.because("nodes", name, f"is the name of {whose} folder; choose another")
    if len(names) < 2:
        raise InvalidInput("nodes", ",".join(names) or "(none)", "at least 2")
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:  # folders of two names that differ only in case would be one on some machines
            raise InvalidInput.because("nodes", name, "is named twice")
        seen.add(name.lower())


def _check_addresses(names: Sequence[str], addresses: Sequence[Address | None]) -> None:
    hidden = [name for name, address in zip(names, addresses, strict=True) if address is None]
    if len(hidden) > 1:
        reason = "nobody can call either of them; give one an address, or let all meet at a relay (--via)"
        raise InvalidInput.because("nodes", f"{hidden[0]}, {hidden[1]}", reason)
    seen: set[str] = set()
    for address in addresses:
        if address is None:
            continue
        if str(address).lower() in seen:
            raise InvalidInput.because("nodes", address, "is the address of two nodes")
        seen.add(str(address).lower())


@dataclass(frozen=True)
class Roster:
    """The nodes of a run, in order: names, addresses, certificates' SHA-256 fingerprints, and keys for signatures."""

    names: tuple[str, ...]
    addresses: tuple[Address | None, ...]  # None: nobody can call the node, and it calls the others
    fingerprints: tuple[str, ...]
    keys: tuple[str, ...]

    def __post_init__(self) -> None:
        if not len(self.names) == len(self.addresses) == len(self.fingerprints) == len(self.keys):
            raise InvalidInput.because("nodes", len(self.names), "each needs one address, one fingerprint and one key")
        _check_names(self.names)
        _check_addresses(self.names, self.addresses)
        for name, fingerprint in zip(self.names, self.fingerprints, strict=True):
            if _FINGERPRINT.fullmatch(fingerprint) is None:
                raise InvalidInput.because(
                    "fingerprint", fingerprint, f"node {name} needs 64 hexadecimal digits, in lower case"
                )
        for name, key in zip(self.names, self.keys, strict=True):
            if _KEY.fullmatch(key) is None:
                raise InvalidInput.because("key", key or "(none)", f"node {name} needs 66 hexadecimal digits, as made")
        for what, marks in (("fingerprint", self.fingerprints), ("key", self.keys)):
            if len(set(marks)) < len(marks):
                raise InvalidInput.because(what, _first_double(marks), "belongs to two nodes")

    def __len__(self) -> int:
        return len(self.names)

    def index(self, name: str) -> int:
        """Return the number of a node, from 0."""
        if name not in self.names:
            raise InvalidInput.because("NODE", name, f"is not in the roster; nodes are {_some(self.names)}")
        return self.names.index(name)

    @property
    def ports(self) -> tuple[int, ...]:
        """The port of each node's address; 0 where it has none."""
        return tuple(0 if address is None else address.port for address in self.addresses)

    def calls(self, one: int, other: int) -> bool:
        """Say which of two nodes opens the connection that serves both: the later one calls those before it.

        A node without an address calls those that have one.
        """
        if (self.addresses[one] is None) != (self.addresses[other] is None):
            return self.addresses[one] is None
        return one > other

    @property
    def digest(self) -> str:
        """SHA-256 over names, addresses, fingerprints and keys, in order: the same however the file is laid out."""
        nodes = [[name, spelled(address), *marks] for name, address, *marks in self._nodes]
        return digest({"skipring roster": 2, "nodes": nodes}).hex()

    @property
    def _nodes(self) -> Iterator[tuple[str, Address | None, str, str]]:
        return zip(self.names, self.addresses, self.fingerprints, self.keys, strict=True)

    def to_toml(self) -> str:
        """Return the roster as the text of its file."""
        lines = [
            "# Who takes part in the run: the same file at every node. A node is known by its key, which stays if its",
            "# certificate is renewed; the fingerprint is the SHA-256 of the one it had when the run was prepared.",
        ]
        for name, address, fingerprint, key in self._nodes:
            lines += ["", "[[node]]", f"name = {quoted(name)}", f"address = {quoted(spelled(address))}"]
            lines += [f"fingerprint = {quoted(fingerprint)}", f"key = {quoted(key)}"]
        return "\n".join(lines) + "\n"


def _first_double(values: Sequence[str]) -> str:
    return next(value for i, value in enumerate(values) if value in values[:i])


def _some(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 8 else ", ".join((*names[:7], "...", names[-1]))


class _Entry(Section):
    name: str
    address: str
    fingerprint: str
    key: str


class _RosterFile(Section):
    node: list[_Entry]


def read_roster(path: str | Path) -> Roster:
    """Read a roster; one line says what is wrong with it."""
    nodes = read_checked(path, _RosterFile, what="a roster").node
    try:
        return _roster_of(nodes)
    except InvalidInput as problem:
        raise InvalidInput.because("FILE", path, str(problem)) from None


def roster_of_text(text: str) -> Roster:
    """Read a roster from the text of its file, as another node or person has sent it."""
    try:
        return _roster_of(_RosterFile.model_validate(tomllib.loads(text)).node)
    except (ValueError, RecursionError):  # neither TOML nor a roster; the other errors are lines of ours
        raise InvalidInput.because("roster", "given", "is not the text of a roster") from None


def _roster_of(nodes: Sequence[_Entry]) -> Roster:
    return Roster(
        names=tuple(node.name for node in nodes),
        addresses=tuple(None if node.address == OUTGOING else Address.parse(node.address) for node in nodes),
        fingerprints=tuple(node.fingerprint for node in nodes),
        keys=tuple(node.key for node in nodes),
    )


def parse_joining(words: Sequence[str], roster: Roster) -> dict[str, Address | None]:
    """Read who joins a roster: d=HOST:PORT, d=HOST, d=outgoing, or d alone where all nodes are on one host.

    >>> roster = Roster(("a", "b"), (Address("h", 7600), Address("h", 7601)), ("0" * 64, "1" * 64),
    ...                 ("02" + "0" * 64, "02" + "1" * 64))
    >>> {name: spelled(at) for name, at in parse_joining(["d", "e=one.example", "f=outgoing"], roster).items()}
    {'d': 'h:7602', 'e': 'one.example:7600', 'f': 'outgoing'}
    """
    joining: dict[str, Address | None] = {}
    for word in (one.strip() for given in words for one in given.split(",")):
        name, mark, where = (part.strip() for part in word.partition("="))
        if name in joining or name in roster.names:
            raise InvalidInput.because("add", name, "is a node of this network already")
        if where == OUTGOING:
            joining[name] = None
            continue
        known = [address for address in (*roster.addresses, *joining.values()) if address is not None]
        hosts = {address.host.lower() for address in known}
        if not mark and len(hosts) > 1:
            raise InvalidInput("add", word, f"{name or 'NAME'}=HOST or {name or 'NAME'}=HOST:PORT")
        with within("add", word):
            host, port = _split(where) if mark else (known[0].host, None)
        if port is None:
            taken = [address.port for address in known if address.host.lower() == host.lower()]
            port = max(taken) + 1 if taken else known[0].port
        with within("add", word):
            joining[name] = Address(host, port)
    return joining


def parse_nodes(
    text: str, *, host: str = "127.0.0.1", port: int = 7600
) -> tuple[tuple[str, ...], tuple[Address | None, ...]]:
    """Read the nodes of a new network: a number, or names with or without addresses.

    Nodes on one host get consecutive ports; nodes on different hosts all get the same one. One node may be `outgoing`:
    nobody can call it, and it calls the others.

    >>> parse_nodes("2")
    (('node1', 'node2'), (Address(host='127.0.0.1', port=7600), Address(host='127.0.0.1', port=7601)))
    >>> names, addresses = parse_nodes("a=one.example,b=two.example:8000")
    >>> names, [spelled(address) for address in addresses]
    (('a', 'b'), ['one.example:7600', 'two.example:8000'])
    """
    _check_port(port)
    _check_host(host)
    if re.fullmatch(r"[+-]?[0-9]+", text.strip(), re.ASCII):
        count = int(text) if len(text) < 10 else 10**9
        if not 2 <= count <= 65536 - port:
            raise InvalidInput("nodes", text, f"from 2 to {65536 - port}, since each needs a port from {port} on")
        text = ",".join(f"node{i + 1}" for i in range(count))
    words = [word.strip() for word in text.split(",")]
    names = tuple(word.partition("=")[0].strip() for word in words)
    _check_names(names)
    given = [word.partition("=")[2].strip() if "=" in word else None for word in words]
    places: list[tuple[str, int | None] | None] = []
    for word, where in zip(words, given, strict=True):
        with within("nodes", word):
            places.append((host, None) if where is None else None if where == OUTGOING else _split(where))
    together = len({place[0].lower() for place in places if place is not None}) == 1
    counted = [i * together for i, place in enumerate(places) if place is not None and place[1] is None]
    if port + max(counted, default=0) > 65535:
        reason = f"at most {65535 - max(counted)}: it counts up for nodes on one host that are given without a port"
        raise InvalidInput("port", port, reason)
    addresses: list[Address | None] = []
    for i, (word, place) in enumerate(zip(words, places, strict=True)):
        with within("nodes", word):
            own = None if place is None else place[1] if place[1] is not None else port + i * together
            addresses.append(None if place is None or own is None else Address(place[0], own))
    _check_addresses(names, addresses)
    return names, tuple(addresses)
