"""Sockets on which a node is called."""

from __future__ import annotations

import socket
from ipaddress import IPv6Address, ip_address, ip_network

from .roster import AddressInUse

_WAITING = 512  # connections that may wait to be taken


def listening_sockets(address: str) -> list[socket.socket]:
    """Listen on an address, host:port, on all that a host name stands for; [::] stands for IPv4, too."""
    host, _, port = address.rpartition(":")
    opened: list[socket.socket] = []
    try:
        for family, kind, number, _, place in socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            one = socket.socket(family, kind, number)
            opened.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(host != "[::]"))
            one.setblocking(False)
            one.bind(place)
            one.listen(_WAITING)
    except OSError:
        for one in opened:
            one.close()
        reason = "cannot be listened on: in use, or not an address of this machine"
        raise AddressInUse.because("listen", address, reason) from None
    return opened


def origin_of(host: str) -> str:
    """Return where a caller is, as far as one counts its calls: who has an IPv6 address has a whole /64 of them.

    >>> origin_of("192.0.2.7"), origin_of("::ffff:192.0.2.7"), origin_of("2001:db8::1:2:3:4%eth0")
    ('192.0.2.7', '192.0.2.7', '2001:db8::/64')
    """
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        return str(address.ipv4_mapped or ip_network((address, 64), strict=False))
    return host
