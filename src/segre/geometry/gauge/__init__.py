"""The symmetries of transformers: changes of the weights that do not change the function.

One module for each place where they arise. A piece knows how many dimensions it adds for
generic weights (`count`, a formula in the sizes) and can write its generators at given weights
mod p (`build`). The formulas are in docs/certificate.md, why they are symmetries in
docs/mathematics.md.
"""
