"""Varieties: of the functions of polynomial networks, and of conditional independence."""
