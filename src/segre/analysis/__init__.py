"""One question after another about a model or a design, each answered as well as it can be."""
