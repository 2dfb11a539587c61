"""Questions about the function space of a network, one per module, answered with evidence."""
