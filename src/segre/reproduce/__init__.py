"""The papers' tables and figures, recomputed; one file each."""
