"""Is a formula right for a whole family of architectures?

A sweep tests a claim about softmax stacks of equal widths exactly on every member. If it is killed,
the store keeps the finished work. A second sweep tests a wrong claim and lists counterexamples.

Prints:

    dimension == l*a*(2*d - a) + d*d: {'holds': 10}
    dimension == l*(2*a*d + d*d): {'fails': 10}
      for example softmax/d=2,2/a=2/t=3: dimension 8
    10 architectures: {'proved': 10}
    one claim holds for 10 of them, the other for 0
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from segre.sweep.plan import Plan
from segre.sweep.run import run
from segre.sweep.status import standing

family = {
    "kind": "softmax",
    "exhaustive": True,
    "where": "a <= d",
    "fields": {"layers": "1..2", "d": "2..4", "a": "2..3", "t": 3},
}
claims = {
    "right": "dimension == l*a*(2*d - a) + d*d",
    "wrong": "dimension == l*(2*a*d + d*d)",  # the number of weights
}


def main() -> None:
    """Workers are processes that import this file, so importing it must not start a run."""
    with TemporaryDirectory() as folder:
        holds = []
        for name, claim in claims.items():
            store = Path(folder) / f"{name}.db"
            run(Plan.from_mapping({**family, "claim": claim}), store, workers=1)
            found = standing(store)
            print(f"{claim}: {found.verdicts}")
            holds.append(found.verdicts.get("holds", 0))
            for row in found.counterexamples[:1]:
                print(f"  for example {row.spec}: dimension {row.dimension}")
    print(f"{found.done} architectures: {found.statuses}")
    print(f"one claim holds for {holds[0]} of them, the other for {holds[1]}")


if __name__ == "__main__":
    main()
