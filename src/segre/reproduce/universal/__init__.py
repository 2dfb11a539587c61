"""Functions from softmax attention over anchors (arXiv 2504.15956)."""
