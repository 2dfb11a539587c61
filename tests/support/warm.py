"""segre without its start: a process that has imported it forks a new one for every command.

Importing segre takes most of a second, and the tests run a thousand commands. `warm()` is a program
that can be run in place of `segre`. The process forked for it has its arguments, directory,
environment and streams and runs `segre.cli.main`, and the program ends with the same exit code.
Tests of starting, of signals, of closed streams and of what is imported use the real `SEGRE`.
"""

import atexit
import contextlib
import gc
import importlib
import io
import os
import pkgutil
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path

SEGRE = Path(sys.executable).parent / "segre"
_NUMBER = 8  # bytes of a length, and of an exit code
_CLIENT = """#!{python} -IS
import os, signal, sys
from _socket import AF_UNIX, SCM_RIGHTS, SOCK_STREAM, SOL_SOCKET, socket

line = socket(AF_UNIX, SOCK_STREAM)
line.connect({address!r})
parts = [os.getcwdb(), *(os.fsencode(word) for word in sys.argv[1:]), b""]
parts += [name + b"=" + value for name, value in os.environb.items()]
request = b"\\0".join(parts)
streams = b"".join(n.to_bytes(4, sys.byteorder) for n in (0, 1, 2))
line.sendmsg([len(request).to_bytes(8, "big")], [(SOL_SOCKET, SCM_RIGHTS, streams)])
line.sendall(request)
code = int.from_bytes(line.recv(8), "big", signed=True)
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""


@cache
def warm() -> Path:
    """A program that does what `segre` does; the real one where processes have no descriptors."""
    if not hasattr(os, "pidfd_open"):
        return SEGRE
    folder = Path(tempfile.mkdtemp(prefix="segre-warm-"))
    program = folder / "segre"
    program.write_text(_CLIENT.format(python=sys.executable, address=str(folder / "socket")))
    program.chmod(0o755)
    # it ends when we do: nobody else holds the other end of its input
    server = subprocess.Popen(
        [sys.executable, __file__, str(folder / "socket")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "NO_COLOR": "1"},
        start_new_session=True,  # signals for us are not for it
    )
    assert server.stdin is not None
    assert server.stdout is not None
    if server.stdout.readline() != b"ready\n":
        raise RuntimeError("the process that has imported segre did not start")
    atexit.register(_end, server)
    return program


def _end(server: subprocess.Popen[bytes]) -> None:
    assert server.stdin is not None
    server.stdin.close()
    server.wait()


def _serve(address: str) -> None:
    """Answer until the input ends; in the process of a command this returns."""
    import segre

    for module in pkgutil.walk_packages(segre.__path__, "segre."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(address)
    listener.listen(16)
    gc.collect()
    gc.freeze()
    print("ready", flush=True)
    running: dict[int, tuple[int, socket.socket]] = {}  # by descriptor: process, who asked
    while True:
        lines = {line.fileno(): process for process, line in running.values()}
        ready, _, _ = select.select([0, listener.fileno(), *running, *lines], [], [])
        if 0 in ready:  # who started us has ended, or was killed
            shutil.rmtree(Path(address).parent)
            os._exit(0)
        for gone in set(ready) & set(lines):  # who asked is no more
            os.kill(lines[gone], signal.SIGKILL)
        for ended in set(ready) & set(running):
            process, line = running.pop(ended)
            _, status = os.waitpid(process, 0)
            with contextlib.suppress(OSError):
                line.send(os.waitstatus_to_exitcode(status).to_bytes(_NUMBER, "big", signed=True))
            line.close()
            os.close(ended)
        if listener.fileno() in ready:
            line, _ = listener.accept()
            request, streams = _asked(line)
            process = os.fork()
            if process == 0:
                listener.close()
                line.close()
                _become(request, streams)
                return
            for stream in streams:
                os.close(stream)
            running[os.pidfd_open(process)] = process, line


def _asked(line: socket.socket) -> tuple[bytes, list[int]]:
    """Directory, arguments and environment; and the standard streams."""
    size, streams, _, _ = socket.recv_fds(line, _NUMBER, 3)
    request, length = b"", int.from_bytes(size, "big")
    while len(request) < length:
        request += line.recv(length - len(request))
    return request, streams


def _become(request: bytes, streams: list[int]) -> None:
    """Have the streams, directory, environment and arguments of the one who asked."""
    folder, *words = request.split(b"\0")
    cut = words.index(b"")
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environb.clear()
    os.environb.update(setting.split(b"=", 1) for setting in words[cut + 1 :])
    sys.argv = [str(SEGRE), *map(os.fsdecode, words[:cut])]
    sys.path[0] = str(SEGRE.parent)
    sys.stdin = sys.__stdin__ = _text(0, "r", "strict")
    sys.stdout = sys.__stdout__ = _text(1, "w", "strict")
    sys.stderr = sys.__stderr__ = _text(2, "w", "backslashreplace", True)


def _run() -> None:
    """The command, to its end; what was imported is not taken apart, which would take longer."""
    from segre.cli import main

    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def _text(number: int, mode: str, errors: str, by_line: bool = False) -> io.TextIOWrapper:
    """A standard stream as Python opens it."""
    plain = open(number, mode + "b", closefd=False)  # noqa: SIM115
    return io.TextIOWrapper(plain, "utf-8", errors, line_buffering=by_line or plain.isatty())


if __name__ == "__main__":
    _serve(sys.argv[1])
    _run()
