"""The formulas of segre as JavaScript, for a page that has no server."""
