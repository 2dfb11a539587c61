"""Does a certificate of a polynomial network hold? Version 5.

Written from docs/certificate-polynomial.md alone, whose sections are cited as P1 to P6.
"""
