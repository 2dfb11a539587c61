"""Linear attention with weight decay as a convex problem (arXiv 2205.08078)."""
