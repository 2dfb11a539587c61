"""Is a trained layer of linear attention at a global optimum? A certificate by convex duality."""

from segre.optimum.certificate import Optimum, certify_optimum
from segre.optimum.problem import Problem

__all__ = ["Optimum", "Problem", "certify_optimum"]
