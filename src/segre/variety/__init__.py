"""The variety of functions of a polynomial network: its degree, critical points of its loss.

>>> from segre.variety.degree import degree
>>> degree("cnn/k=2,2/degree=2").value
4
"""
