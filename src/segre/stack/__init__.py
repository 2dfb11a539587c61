"""Stacks of attention layers at work: the forward map."""
