"""Data with a known answer."""

from stillspace.datasets.haystack import Haystack, make_haystack

__all__ = ["Haystack", "make_haystack"]
