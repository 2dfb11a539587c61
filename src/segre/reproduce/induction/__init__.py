"""Induction heads on n-gram Markov chains (arXiv 2409.10559)."""
