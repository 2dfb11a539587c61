"""Stacks of attention layers at work: the forward map, and a formula for their redundancy."""
