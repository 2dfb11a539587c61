"""Rank against depth: how fast attention makes all tokens alike, and what keeps them apart."""
