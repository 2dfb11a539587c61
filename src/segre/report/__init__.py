"""Findings as text and pictures; nothing is computed here."""
