"""Queries: sums of row terms, each with its two bounds (SPEC 2 and the table of SPEC 4).

Rows lie in the unit ball. A term is computed from its row and the current point alone, with
element-wise arithmetic, so that its bits do not depend on any other row; only the final addition
of finished terms may be a matrix product. `norm_bound` bounds a term's (Frobenius) norm and
`difference_bound` the difference of two terms; both are infinite for the classic solvers, whose
weights 1/‖Qx‖ no constant bounds, and which are therefore never private.
"""

from stillspace.parts.queries.base import (
    LARGEST_POINT,
    PRIVATE_FLOOR,
    PRIVATE_NEAR,
    ROBUST_FLOOR,
    UNIT_ROUNDOFF,
    Query,
)
from stillspace.parts.queries.columns import ColumnCounts, IncompleteRows
from stillspace.parts.queries.distances import (
    DistanceCounts,
    GeometricMedian,
    GladCost,
    MedianCost,
    ScoreCounts,
)
from stillspace.parts.queries.gradients import (
    Curvature,
    CurvatureMatrix,
    Glad,
    IrlsPower,
    Joint,
    Reaper,
    ReweightedMoment,
)
from stillspace.parts.queries.moments import (
    AngleCounts,
    CapScatter,
    FarMoment,
    FourthMoment,
    NearCost,
    NearMoment,
    ScoreMoment,
    ScoreSquares,
    SecondMoment,
)

__all__ = [
    "LARGEST_POINT",
    "PRIVATE_FLOOR",
    "PRIVATE_NEAR",
    "ROBUST_FLOOR",
    "UNIT_ROUNDOFF",
    "AngleCounts",
    "CapScatter",
    "ColumnCounts",
    "Curvature",
    "CurvatureMatrix",
    "DistanceCounts",
    "FarMoment",
    "FourthMoment",
    "GeometricMedian",
    "Glad",
    "GladCost",
    "IncompleteRows",
    "IrlsPower",
    "Joint",
    "MedianCost",
    "NearCost",
    "NearMoment",
    "Query",
    "Reaper",
    "ReweightedMoment",
    "ScoreCounts",
    "ScoreMoment",
    "ScoreSquares",
    "SecondMoment",
]
