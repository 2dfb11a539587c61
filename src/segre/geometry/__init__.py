"""One question about a network's space of functions per module; each answers with evidence."""
