"""Varieties: of the functions of polynomial networks, and of conditional independence.

>>> from segre.variety.degree import degree
>>> degree("cnn/k=2,2/degree=2").value
4
"""
