"""The server answers its own page alone, and never hangs."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from segre.explore.server import LARGEST_REQUEST, Explorer
from segre.explore.worker import Worker

SPEC = "transformer/d=16/heads=2/t=16"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def server() -> Iterator[Explorer]:
    with Explorer("<!doctype html>page", "default-src 'none'", seconds=60) as found:
        thread = threading.Thread(target=found.serve_forever, daemon=True)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def asked(
    server: Explorer, method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body or None, given)
    got = connection.getresponse()
    found = got.status, dict(got.getheaders()), got.read()
    connection.close()
    return found


def question(server: Explorer, name: str, body: Any, **headers: str) -> tuple[int, Any]:
    path = f"/{server.token}/api/{name}"
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    status, _, text = asked(
        server, "POST", path, raw, **{"Content_Type": JSON["Content-Type"]} | headers
    )
    return status, json.loads(text)


def test_it_listens_on_loopback_alone(server: Explorer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert len(server.token) >= 32


def test_the_page_and_its_headers(server: Explorer) -> None:
    status, headers, body = asked(server, "GET", f"/{server.token}/")
    assert (status, body) == (200, b"<!doctype html>page")
    assert headers["Content-Security-Policy"] == "default-src 'none'"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Cache-Control"] == "no-store"
    status, _, body = asked(server, "HEAD", f"/{server.token}/")
    assert (status, body) == (200, b"")


@pytest.mark.parametrize("method", ["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"])
@pytest.mark.parametrize("path", ["/", "/api/known", "/wrong/", "/wrong/api/known", "/favicon.ico"])
def test_without_the_token_nothing_is_answered(server: Explorer, method: str, path: str) -> None:
    assert asked(server, method, path)[0] == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "localhost:1", "127.0.0.1.evil.example"]
)
def test_other_hosts_are_refused(server: Explorer, host: str) -> None:
    assert asked(server, "GET", f"/{server.token}/", Host=host)[0] == 403
    assert question(server, "known", {"spec": SPEC}, Host=host)[0] == 403


def test_a_request_without_a_host_is_refused(server: Explorer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as one:
        one.sendall(f"GET /{server.token}/ HTTP/1.0\r\n\r\n".encode())
        assert b" 403 " in one.recv(200)


def test_localhost_is_its_own_name(server: Explorer) -> None:
    assert asked(server, "GET", f"/{server.token}/", Host=f"localhost:{server.port}")[0] == 200


def test_other_sites_are_refused(server: Explorer) -> None:
    assert question(server, "known", {"spec": SPEC}, Origin="https://evil.example")[0] == 403
    assert question(server, "known", {"spec": SPEC}, Origin="null")[0] == 403
    assert question(server, "known", {"spec": SPEC}, Sec_Fetch_Site="cross-site")[0] == 403
    own = f"http://127.0.0.1:{server.port}"
    assert question(server, "known", {"spec": SPEC}, Origin=own)[0] == 200


def test_methods_and_paths(server: Explorer) -> None:
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"):
        status, headers, _ = asked(server, method, f"/{server.token}/")
        assert (status, headers["Allow"]) == (405, "GET, POST")
    assert asked(server, "GET", f"/{server.token}/api/known")[0] == 405
    assert asked(server, "GET", f"/{server.token}/other")[0] == 404
    assert asked(server, "GET", f"/{server.token}/../etc/passwd")[0] == 404
    assert asked(server, "GET", f"/{server.token}")[0] == 403
    assert question(server, "unknown", {"spec": SPEC})[0] == 404


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b"{}", b'{"spec": 3}', b'{"spec": null}', b"\xff\xfe", b"[" * 9000],
)
def test_malformed_requests_are_refused(server: Explorer, body: bytes) -> None:
    status, told = question(server, "known", body, Content_Length=str(len(body)))
    assert status == 400
    assert "send an object" in told["error"]


def test_oversized_and_odd_requests_are_refused(server: Explorer) -> None:
    assert question(server, "known", b"x" * (LARGEST_REQUEST + 1))[0] == 413
    assert question(server, "known", b"{}", Content_Length="9" * 40)[0] == 413
    assert question(server, "known", b"{}", Content_Length="-1")[0] == 411
    assert question(server, "known", b"{}", Content_Type="text/plain")[0] == 415


def test_an_answer_and_a_refusal(server: Explorer) -> None:
    status, told = question(server, "known", {"spec": SPEC})
    assert (status, told["parameters"]) == (200, "1024")
    status, told = question(server, "known", {"spec": "transformer/d=8/heads=3/t=3"})
    assert status == 200
    assert "does not divide" in told["error"]
    status, told = question(server, "known", {"spec": "../secret.json"})
    assert "takes transformers and stacks" in told["error"]


def test_what_takes_too_long_is_stopped_and_the_next_is_answered() -> None:
    worker = Worker(seconds=60)
    try:
        worker.start()
        assert "error" not in worker.ask("known", SPEC)
        worker.seconds = 0.5
        slow = "transformer/d=12/layers=3/heads=2/ff=20/mlp=gelu/norm=layer/pos=learned/t=8"
        assert "no answer within 0.5 seconds" in worker.ask("proof", slow)["error"]
        worker.seconds = 60
        assert "error" not in worker.ask("known", SPEC)
    finally:
        worker.close()


def test_a_dead_process_is_a_sentence_and_is_replaced() -> None:
    worker = Worker(seconds=60)
    try:
        worker.start()
        assert worker._process is not None
        worker._process.kill()
        worker._process.wait()
        assert "error" not in worker.ask("known", SPEC)
    finally:
        worker.close()


def test_a_busy_worker_ends_with_its_server() -> None:
    """Its input closes as it computes: it ends at once, and nobody gets the answer."""
    worker = subprocess.Popen(
        [sys.executable, "-m", "segre.explore.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    question = json.dumps(["proof", "softmax/d=8,8,8/a=4/t=6"])
    assert worker.communicate(question + "\n", timeout=600)[0] == ""
    assert worker.returncode == 0


@pytest.mark.parametrize(
    ("sent", "code", "line"),
    [(signal.SIGINT, 0, ""), (signal.SIGTERM, 130, "segre: interrupted; nothing was written\n")],
)
def test_the_command_prints_its_address_and_stops_cleanly(
    sent: signal.Signals, code: int, line: str
) -> None:
    command = [sys.executable, "-m", "segre", "explore", "gpt2", "--no-browser", "--json"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(3)]
    url = json.loads("".join(lines))["url"]
    host, _, token = url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=60)
    connection.request("GET", f"/{token}")
    page = connection.getresponse()
    assert page.status == 200
    assert "connect-src 'self'" in page.getheader("Content-Security-Policy", "")
    assert b"Design explorer" in page.read()
    connection.close()
    process.send_signal(sent)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (code, line)


def test_a_port_that_is_taken_is_one_line(server: Explorer) -> None:
    command = [sys.executable, "-m", "segre", "explore", "--no-browser", "--port", str(server.port)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"--port {server.port} cannot be used" in done.stderr
