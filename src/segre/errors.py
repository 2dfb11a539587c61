"""The types of errors: every error that segre raises on purpose is a SegreError.

The message is one line that says what was given, what is allowed, and what to do next;
the command line prints it without a traceback and exits with `exit_code`.
"""

from __future__ import annotations


class SegreError(Exception):
    """Base of all deliberate errors.

    >>> raise SegreError("what was given, what is allowed, and what to do next")
    Traceback (most recent call last):
    segre.errors.SegreError: what was given, what is allowed, and what to do next
    """

    exit_code = 2


class SpecError(SegreError):
    """A spec that cannot be read: malformed, out of range, or in an unknown format."""


class UnsupportedError(SegreError):
    """A valid spec that segre does not support."""


class TooLargeError(SegreError):
    """The computation would need more memory than the stated limit; nothing was allocated."""


class CertificateError(SegreError):
    """A file that is not a certificate at all: not JSON, truncated, or of another format."""


class WeightsError(SegreError):
    """A file or array that does not hold the weights of a network."""


class CheckpointError(SegreError):
    """A model directory that cannot be read, or is not what its config says."""


class SweepError(SegreError):
    """A sweep file, expression or store that cannot be used as asked."""


class StoppedRunError(SweepError):
    """A run that cannot continue for outside reasons, such as a lost cluster or no workers."""

    exit_code = 70


class InterruptedRunError(SegreError):
    """Work stopped by the user that can be continued; the message says what is kept."""

    exit_code = 130


class UnluckyError(SegreError):
    """A random point at which an exact computation has no value, such as a zero divisor.

    The engine catches it and draws another point; users see it only if many points in a row fail.
    """

    exit_code = 3


def is_due_to(error: BaseException, kind: type[BaseException]) -> bool:
    """Whether it was caused by another error: libraries and imports wrap exceptions."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, kind):
        cause = cause.__cause__ or cause.__context__
    return cause is not None
