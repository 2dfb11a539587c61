"""A report as one self-contained page."""
