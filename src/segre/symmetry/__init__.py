"""The symmetries of a network, written once: spaces, and what is free in them."""
