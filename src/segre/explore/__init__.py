"""A page on which a design is changed by hand, and what segre knows of it follows at once."""
