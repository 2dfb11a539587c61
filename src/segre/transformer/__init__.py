"""Transformers as people run them: the spec, its weight tensors, and the forward map."""
