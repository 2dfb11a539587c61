"""What can training not change?

Each continuous symmetry listed below gives quantities that gradient flow conserves, for any data.
The flow keeps them to the tolerance of the integration. Gradient descent lets them drift, in
proportion to its step.

Prints, but for measured numbers:

    query-key basis GL(2): conserves W_Q W_Q^T - W_K W_K^T
    value-output basis GL(2): conserves W_V W_V^T - W_O^T W_O
    flow: loss 0.25 -> 0.07, drift 1e-12
    descent: drift 9e-05, with half the step 4e-05
    the quotient is near 2: True
"""

import numpy as np

import segre
from segre.fields import Real
from segre.geometry.conserved import laws
from segre.geometry.flow import drift, gradient_descent, gradient_flow
from segre.network import forward

spec = segre.Network.parse("softmax/d=3,3/a=2/dv=2/t=3")
for law in laws(spec).every:
    print(f"{law.name}: conserves {law.formula}")

start, truth = segre.Weights.random(spec, seed=3), segre.Weights.random(spec, seed=5)
X = np.random.default_rng(1).standard_normal((6, 3, 3))
Y = forward(Real(), spec, truth.vector, X)

flow = drift(gradient_flow(start, X, Y, time=5.0))
print(f"flow: loss {flow.loss_before:.2f} -> {flow.loss_after:.2f}, drift {flow.worst:.0e}")
worst = [drift(gradient_descent(start, X, Y, 1 / steps, steps)).worst for steps in (200, 400)]
print(f"descent: drift {worst[0]:.0e}, with half the step {worst[1]:.0e}")
print(f"the quotient is near 2: {abs(worst[0] / worst[1] - 2) < 0.1}")
