"""Data with a known answer."""

from stillspace.datasets.europe import Europe, Genotypes, load_popres, make_europe, make_genotypes
from stillspace.datasets.haystack import Haystack, make_haystack

__all__ = [
    "Europe",
    "Genotypes",
    "Haystack",
    "load_popres",
    "make_europe",
    "make_genotypes",
    "make_haystack",
]
