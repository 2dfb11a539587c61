"""What was done to segre to make it answer wrongly, counted. `python -m bench.faults --help`.

Every module here is one kind of fault. It has a function `tally(quick)` that tries many of them,
seeded, and says how many were tried and how many got through.
"""
