"""What answers consist of, and how they are shown; nothing is computed here."""
