"""A worker process: tasks come in on standard input, results go out, one JSON line each.

It lives as long as its driver: when standard input closes, it stops at once.
"""

from __future__ import annotations

import json
import os
import sys
from queue import SimpleQueue
from threading import Thread


def main() -> None:
    """Solve what comes in until nothing can come any more."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever prints does not get between the results
    lines = listening()
    from segre.geometry.dimension import dimension
    from segre.sweep.task import solve

    dimension("softmax/d=1,1/a=1/t=2")  # loads all that a task needs, so that none waits for it
    out.write("\n")  # ready
    out.flush()
    while True:
        result = solve(json.loads(lines.get()))
        out.write(json.dumps(result) + "\n")
        out.flush()


def listening() -> SimpleQueue[str]:
    """The lines of standard input as they come; when it closes, the process ends at once."""
    lines: SimpleQueue[str] = SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            lines.put(line)
        os._exit(0)  # the driver is gone, or done: nobody waits for what is being solved

    Thread(target=listen, daemon=True).start()
    return lines


if __name__ == "__main__":
    main()
