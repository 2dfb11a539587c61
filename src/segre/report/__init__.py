"""Findings as text and plots; nothing is computed here."""
