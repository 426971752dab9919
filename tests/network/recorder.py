"""What somebody sees who runs a relay: `python recorder.py FILE` keeps all bytes of all connections on its loopback.

It runs until its input ends; FILE is then one JSON object, from "PORT>PORT" to what went that way, in hexadecimal.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from pathlib import Path

_ALL, _INCOMING = 3, 0  # ETH_P_ALL; on a loopback each packet is seen as it leaves and as it comes in


def payload(packet: bytes) -> tuple[str, bytes] | None:
    """Return which way the data of a packet goes, and the data; None if it is not TCP over IPv4."""
    ip = packet[14:]
    if packet[12:14] != b"\x08\x00" or ip[9] != 6:
        return None
    tcp = ip[4 * (ip[0] & 15) : int.from_bytes(ip[2:4], "big")]
    ports = int.from_bytes(tcp[:2], "big"), int.from_bytes(tcp[2:4], "big")
    return "{}>{}".format(*ports), tcp[4 * (tcp[12] >> 4) :]


def main() -> None:
    """Record until the input ends."""
    found: dict[str, bytearray] = {}
    listener = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 26)
    listener.bind(("lo", 0))
    ended = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    listener.settimeout(0.2)
    print("recording", flush=True)
    while not ended.is_set():
        try:
            packet, where = listener.recvfrom(1 << 17)
        except TimeoutError:
            continue
        if where[2] == _INCOMING and (seen := payload(packet)) is not None:
            found.setdefault(seen[0], bytearray()).extend(seen[1])
    Path(sys.argv[1]).write_text(json.dumps({way: bytes(data).hex() for way, data in found.items()}))


if __name__ == "__main__":
    main()
