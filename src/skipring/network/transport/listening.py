"""Sockets on which a node is called."""

from __future__ import annotations

import socket

from .roster import AddressInUse

__all__ = ["listening_sockets"]

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
