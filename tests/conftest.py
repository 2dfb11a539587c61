"""What all tests share: how many examples are tried, and what Ctrl-C does."""

import signal

from hypothesis import settings

settings.register_profile("segre", deadline=None, max_examples=60)
settings.load_profile("segre")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Shells start what runs in the background deaf to Ctrl-C, and so would be all that tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
