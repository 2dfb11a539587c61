"""Where is the space of functions not smooth?

The script classifies three points of one lightning layer X -> V X (X^T A X): a generic one, one
where two sheets cross, and one on the boundary, where the sheet folds. The points are fractions, so
the answers are exact.

Prints:

    generic: smooth (no reason), boundary: False
      tangents span 7 of 7 dimensions
    rank one: singular (crossing sheets), boundary: False
      tangents span 9 of 7 dimensions
    rank one, parallel: singular (fold), boundary: True
      tangents span 6 of 7 dimensions
    on the boundary: rank one, parallel (exact: True)
"""

from segre import classify
from segre.weights import number_array

points = {
    "generic": ([[1, 2], [0, 1]], [[1, 1], [2, 0]]),
    "rank one": ([[1, 2], [2, 4]], [[3, 3], [1, 1]]),
    "rank one, parallel": ([[1, 2], [2, 4]], [[1, 3], [2, 6]]),
}
boundary = []
for name, (V, A) in points.items():
    found = classify(number_array(V, "V"), number_array(A, "A"), a=2)
    reasons = ", ".join(found.reasons) or "no reason"
    print(f"{name}: {found.kind} ({reasons}), boundary: {found.boundary}")
    print(f"  tangents span {found.tangent_span} of {found.dimension} dimensions")
    boundary += [name] if found.boundary else []
print(f"on the boundary: {'; '.join(boundary)} (exact: {found.exact})")
