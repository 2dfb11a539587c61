"""Why does a certificate not hold? `RejectionError` carries the first reason, in one line."""

from __future__ import annotations


class RejectionError(Exception):
    """Raised inside the referee where a check fails; `verify` turns it into a verdict."""
