"""Real checkpoints; `commands` has the operations on them (docs/checkpoints.md)."""
