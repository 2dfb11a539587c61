"""What all tests share: where to find the generators of random architectures."""

import signal
import sys
from pathlib import Path

from hypothesis import settings

for folder in ("", "cli", "sweep", "../scripts"):
    sys.path.insert(0, str((Path(__file__).parent / folder).resolve()))
settings.register_profile("segre", deadline=None, max_examples=60)
settings.load_profile("segre")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Shells start what runs in the background deaf to Ctrl-C, and so would be all that tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
