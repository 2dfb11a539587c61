"""Benchmarks: each compares segre with a peer, in one run, on one machine."""
