"""Real checkpoints; what can be done with them is in `commands` (docs/checkpoints.md)."""
