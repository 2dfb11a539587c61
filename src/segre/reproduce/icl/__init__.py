"""In-context regression by one layer of linear attention (arXiv 2501.16265)."""
