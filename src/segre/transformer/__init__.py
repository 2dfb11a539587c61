"""Full transformers: the spec, its weight tensors, and the forward map."""
