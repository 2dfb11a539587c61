"""The parts of recovery: data, what is visible of weights, and three ways to find it."""
