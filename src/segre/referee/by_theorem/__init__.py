"""Does a theorem apply to an architecture, with the numbers that a certificate lists?

Written from docs/certificate-theorems.md alone: no formula is shared with the prover.
"""
