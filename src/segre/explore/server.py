"""The page on this machine alone: loopback, one random token, and no other site may ask.

A request needs the token as the first part of its path, a Host that is this server's own (a name
that someone else's DNS points here is refused), and, if it has an Origin, that of the page.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from segre.explore.worker import Worker
from segre.json_data import strict_json

ADDRESS = "127.0.0.1"
LARGEST_REQUEST = 16 << 10  # bytes
_QUESTIONS = {"known": "quick", "proof": "slow", "certificate": "slow", "curve": "slow"}
_QUICK_SECONDS = 20.0
_PATIENCE = 15  # seconds for a client to send its request
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Explorer(ThreadingHTTPServer):
    """The server: a page, and answers by two processes, one for what is quick."""

    daemon_threads = True

    def __init__(
        self, page: str, policy: str, *, port: int = 0, seconds: float = 60, token: str = ""
    ) -> None:
        self.page, self.policy = page.encode(), policy
        self.token = token or secrets.token_urlsafe(24)
        self.workers = {"quick": Worker(min(seconds, _QUICK_SECONDS)), "slow": Worker(seconds)}
        super().__init__((ADDRESS, port), Handler)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{ADDRESS}:{self.port}/{self.token}/"

    @property
    def hosts(self) -> tuple[str, ...]:
        """What a browser on this machine calls it."""
        return (f"{ADDRESS}:{self.port}", f"localhost:{self.port}")

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error of ours."""

    def server_close(self) -> None:
        """Stop listening, and the processes."""
        super().server_close()
        for worker in self.workers.values():
            worker.close()


class Handler(BaseHTTPRequestHandler):
    """One request: refused, the page, or an answer."""

    server: Explorer
    server_version = "segre"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = _PATIENCE

    def _page(self) -> None:
        path = self._allowed()
        if path is None:
            return
        if path == "":
            self._send(HTTPStatus.OK, self.server.page, "text/html; charset=utf-8")
        elif path == "api" or path.partition("/")[0] == "api":
            self._refuse_method()
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "no such page")

    def _question(self) -> None:
        path = self._allowed()
        if path is None:
            return
        question = path.removeprefix("api/")
        if question == path or question not in _QUESTIONS:
            self._refuse(HTTPStatus.NOT_FOUND, "no such request")
            return
        given = self._body()
        if given is not None:
            worker = self.server.workers[_QUESTIONS[question]]
            found = worker.ask(question, given)
            self._send(HTTPStatus.OK, strict_json(found).encode(), "application/json")

    def _allowed(self) -> str | None:
        """The path after the token; None if the request was refused."""
        first, slash, rest = self.path.partition("?")[0].removeprefix("/").partition("/")
        origin = self.headers.get("Origin")
        fetched = self.headers.get("Sec-Fetch-Site", "none")
        if self.headers.get_all("Host", []) not in [[host] for host in self.server.hosts]:
            self._refuse(HTTPStatus.FORBIDDEN, "this server responds only to its own address")
        elif not hmac.compare_digest(first.encode(), self.server.token.encode()) or not slash:
            self._refuse(
                HTTPStatus.FORBIDDEN, "the token is missing; open the address that segre printed"
            )
        elif origin not in (None, *(f"http://{host}" for host in self.server.hosts)) or (
            self.command == "POST" and fetched not in ("same-origin", "none")
        ):
            self._refuse(HTTPStatus.FORBIDDEN, "requests from other sites are refused")
        else:
            return rest
        return None

    def _body(self) -> str | None:
        """The spec that a request asks about; None if the request was refused."""
        length = self.headers.get("Content-Length", "")
        if self.headers.get("Content-Type", "").partition(";")[0].strip() != "application/json":
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send application/json")
        elif "Transfer-Encoding" in self.headers or not (length.isascii() and length.isdigit()):
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "send a Content-Length")
        elif len(length) > 9 or int(length) > LARGEST_REQUEST:
            self._refuse(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"the request is too large; at most {LARGEST_REQUEST:,} bytes are read",
            )
        else:
            try:
                given: Mapping[str, Any] = json.loads(self.rfile.read(int(length)))
                text = given["spec"] if isinstance(given, dict) else None
            except (ValueError, KeyError, RecursionError):
                text = None
            if isinstance(text, str):
                return text
            self._refuse(HTTPStatus.BAD_REQUEST, 'send an object such as {"spec": "transformer/…"}')
        return None

    def _refuse_method(self) -> None:
        if self._allowed() is not None:
            self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, "GET the page, POST questions", "GET, POST")

    def _refuse(self, status: HTTPStatus, sentence: str, allow: str = "") -> None:
        self.close_connection = True  # what is left of the request is not read
        body = strict_json({"error": sentence}).encode()
        self._send(status, body, "application/json", {"Allow": allow} if allow else {})

    def _send(
        self, status: HTTPStatus, body: bytes, kind: str, more: Mapping[str, str] | None = None
    ) -> None:
        self.send_response(status)
        headers = {
            **_HEADERS,
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Content-Security-Policy": self.server.policy,
            **({"Connection": "close"} if self.close_connection else {}),
            **(more or {}),
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = _page
    do_POST = _question
    do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = do_CONNECT = _refuse_method

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged: the token is part of them."""
