"""Where a robust fit starts and what it takes for outliers: several starts on a sample of the rows.

Never private: everything here looks at rows.
"""

from stillspace.search.candidates import Candidate, chosen, disagreement, search
from stillspace.search.clumps import Clump, find_clumps, outside
from stillspace.search.cuts import cut_of, reach_of
from stillspace.search.dimension import DimensionProfile, profile
from stillspace.search.filtered import Found, filtered_search
from stillspace.search.location import located, median_center, pairs_center, recentred

__all__ = [
    "Candidate",
    "Clump",
    "DimensionProfile",
    "Found",
    "chosen",
    "cut_of",
    "disagreement",
    "filtered_search",
    "find_clumps",
    "located",
    "median_center",
    "outside",
    "pairs_center",
    "profile",
    "reach_of",
    "recentred",
    "search",
]
