"""Function composition by layers of full attention (arXiv 2602.01763)."""
