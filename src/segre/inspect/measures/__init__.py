"""Measures of a recorded pass: one module each, found by `segre.inspect.measure.measures`."""
