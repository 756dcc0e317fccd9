"""Where a robust fit starts and what it takes for outliers: several starts on a sample of the rows.

Never private: everything here looks at rows.
"""

from stillspace.search.candidates import Candidate, chosen, disagreement, search
from stillspace.search.cuts import cut_of, reach_of
from stillspace.search.dimension import DimensionProfile, profile
from stillspace.search.location import located, median_center, pairs_center

__all__ = [
    "Candidate",
    "DimensionProfile",
    "chosen",
    "cut_of",
    "disagreement",
    "located",
    "median_center",
    "pairs_center",
    "profile",
    "reach_of",
    "search",
]
