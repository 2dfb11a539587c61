"""One full-rank head against many of rank one (arXiv 2407.16153)."""
