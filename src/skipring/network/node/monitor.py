"""What a node shows on its own machine: health for a supervisor, metrics for Prometheus, its state for a live view.

It listens on a loopback address only. What it shows (test errors, the node's own epsilon) is the owner's business:
published, a test error would be one more observation of all nodes' data.
"""

from __future__ import annotations

import math
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from operator import attrgetter
from typing import Any

from ..._json import json_text, to_json
from ...errors import InvalidInput
from ..transport import Address, AddressInUse
from .config import require_loopback
from .status import NodeStatus

#: name, kind, what it says (what an epsilon hides follows from the status), and the value of the status that it shows.
_METRICS: tuple[tuple[str, str, str, Callable[[NodeStatus], float | None]], ...] = (
    ("skipring_hop", "gauge", "The newest hop that this node knows of.", attrgetter("hop")),
    ("skipring_steps", "gauge", "Hops of the whole run.", attrgetter("steps")),
    ("skipring_holding", "gauge", "Whether this node holds the token.", attrgetter("holding")),
    ("skipring_over", "gauge", "Whether this node has the final model.", attrgetter("over")),
    ("skipring_ballot", "gauge", "The number of the ballot: recoveries so far.", lambda status: status.ballot[0]),
    ("skipring_token_updates", "gauge", "Updates of the newest token that this node has seen.", attrgetter("updates")),
    (
        "skipring_own_updates_total",
        "counter",
        "Updates that this node has released, on all branches.",
        attrgetter("own_updates"),
    ),
    ("skipring_refused_offers_total", "counter", "Offers that this node has refused itself.", attrgetter("refused")),
    (
        "skipring_refused_for_budget_total",
        "counter",
        "Own turns that this node has refused because one more update would have exceeded its budget.",
        attrgetter("refused_for_budget"),
    ),
    (
        "skipring_late_turns_total",
        "counter",
        "Own turns without an update: it was not there in time.",
        attrgetter("late"),
    ),
    (
        "skipring_declined_turns_total",
        "counter",
        "Own turns that this node let go at once: it would have been too slow.",
        attrgetter("declined"),
    ),
    ("skipring_cut_updates_total", "counter", "Own updates of fewer rows, for want of time.", attrgetter("cut")),
    (
        "skipring_prepare_seconds",
        "gauge",
        "Median time to get the rows of an update ready.",
        attrgetter("prepare_time"),
    ),
    ("skipring_recoveries_total", "counter", "Recoveries that this node has started.", attrgetter("recoveries")),
    (
        "skipring_epsilon",
        "gauge",
        "Epsilon so far for the observer who knows most; protects {}.",
        attrgetter("epsilon"),
    ),
    (
        "skipring_epsilon_releases",
        "gauge",
        "Epsilon so far with each release in full; protects {}, also against several that put together what they saw.",
        lambda status: status.guarantee.also[0].epsilon,
    ),
    (
        "skipring_life_epsilon",
        "gauge",
        "Epsilon so far of all runs in the ledger of this node's data; protects {life}. Absent without a ledger.",
        lambda status: None if status.life is None else status.life.epsilon,
    ),
    ("skipring_epsilon_budget", "gauge", "Epsilon that this node does not exceed; protects {}.", attrgetter("budget")),
    (
        "skipring_test_error",
        "gauge",
        "Error on this node's test rows of the newest token sent to it.",
        attrgetter("test_error"),
    ),
    ("skipring_timeout_seconds", "gauge", "How long this node waits for another one.", attrgetter("timeout")),
    (
        "skipring_hop_seconds",
        "gauge",
        "Median time from getting the token to having passed it on.",
        attrgetter("hop_time"),
    ),
    ("skipring_hop_overhead_seconds", "gauge", "The same without the wait for the next node.", attrgetter("overhead")),
    ("skipring_reachable_nodes", "gauge", "Nodes that messages go through to.", attrgetter("reachable")),
    (
        "skipring_relay_open",
        "gauge",
        "Whether the tunnel to the relay is open; absent without a relay.",
        lambda status: None if status.relay is None else status.relay == "open",
    ),
    (
        "skipring_standstill_seconds",
        "gauge",
        "For how long nothing has moved, as far as this node sees; 0 below ten seconds.",
        attrgetter("stands_still"),
    ),
    (
        "skipring_certificate_expires_seconds",
        "gauge",
        "Seconds until this node's certificate, or its authority's, expires; below 0 once it has.",
        attrgetter("expires_in"),
    ),
    ("skipring_peak_memory_bytes", "gauge", "The most memory that this process has used.", attrgetter("peak_memory")),
    ("skipring_running_seconds", "gauge", "Time since this process started.", attrgetter("running_for")),
)


def metrics_text(status: NodeStatus) -> str:
    """Return a node's state in the text format of Prometheus."""
    return "".join(_lines(status))


def _lines(status: NodeStatus) -> Iterator[str]:
    for name, kind, what, value_of in _METRICS:
        value = value_of(status)
        if value is not None:
            # Names of nodes are letters, digits and -, so that nothing has to be escaped.
            life = "" if status.life is None else status.life.terms
            yield f"# HELP {name} {what.format(status.guarantee.terms, life=life)}\n# TYPE {name} {kind}\n"
            yield f'{name}{{node="{status.name}"}} {_number(value)}\n'


def _number(value: float) -> str:
    if isinstance(value, bool | int):
        return str(int(value))
    if math.isfinite(value):
        return repr(float(value))
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def status_text(status: Mapping[str, Any]) -> str:
    """Return a node's state as JSON. Infinity is written 1e999, which parsers read as infinity.

    >>> status_text({"name": "a", "epsilon": math.inf})
    '{"name": "a", "epsilon": 1e999}'
    """
    return json_text(status)


class Monitor:
    """A small web server in a thread of its own; `status` is called for each request."""

    def __init__(self, address: str, status: Callable[[], NodeStatus]) -> None:
        where = require_loopback("metrics", address)
        try:
            self._server = (_Server6 if ":" in where.host else _Server)((where.host, where.port), _answers(status))
        except OSError as error:
            raise AddressInUse.because("metrics", address, f"cannot be listened on: {error.strerror}") from None
        threading.Thread(target=self._server.serve_forever, name="monitor", daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64  # some slow clients must not keep a supervisor waiting

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a client that has gone; the others are served by other threads."""


class _Server6(_Server):
    address_family = socket.AF_INET6


def _is_here(host: str | None) -> bool:
    """Whether the address that a browser was asked for is one of this machine.

    A web site whose name leads to 127.0.0.1 would otherwise have its visitor read these pages to it.
    """
    try:
        return host is None or Address.parse(host if host.rpartition("]")[2].count(":") else f"{host}:80").is_loopback
    except InvalidInput:
        return False


def _answers(status: Callable[[], NodeStatus]) -> type[BaseHTTPRequestHandler]:
    class Answers(BaseHTTPRequestHandler):
        timeout = 5.0

        def do_GET(self) -> None:
            if not _is_here(self.headers["Host"]):
                self._send(403, "ask for 127.0.0.1 or localhost\n", "text/plain; charset=utf-8")
            elif self.path == "/metrics":
                self._send(200, metrics_text(status()), "text/plain; version=0.0.4; charset=utf-8")
            elif self.path == "/status":
                self._send(200, status_text(to_json(status())), "application/json")
            elif self.path == "/health":
                self._send(200, "ok\n", "text/plain; charset=utf-8")
            else:
                self._send(404, "there is /health, /metrics and /status\n", "text/plain; charset=utf-8")

        def _send(self, code: int, text: str, kind: str) -> None:
            body = text.encode()
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: a supervisor asks every few seconds."""

    return Answers
