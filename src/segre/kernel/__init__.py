"""Does a certificate prove what it claims? A verifier that shares no mathematics with segre.

Written from docs/certificate.md. It takes from segre only the readers of specs, files and errors.
"""
