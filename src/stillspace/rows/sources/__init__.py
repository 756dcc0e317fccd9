"""Sources of rows: tables in files and in arrays of other libraries, read a part at a time."""

from stillspace.rows.sources.opening import SUFFIXES, is_source, open_source
from stillspace.rows.sources.protocol import STORAGE_TYPES, RowSource, storage_type

__all__ = ["STORAGE_TYPES", "SUFFIXES", "RowSource", "is_source", "open_source", "storage_type"]
