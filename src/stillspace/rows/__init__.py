"""Ways to hold rows and to add a query over them."""

from stillspace.rows.file import FileRows, RowTable
from stillspace.rows.labels import LabelledRows, label_codes
from stillspace.rows.maps import (
    Affine,
    Caps,
    Clip,
    Fill,
    LeaveOut,
    Lengths,
    Pairs,
    Project,
    Sphere,
    Without,
    levels,
)
from stillspace.rows.memory import MemoryRows
from stillspace.rows.pairs import PairedRows, draw_pairs, pair_block
from stillspace.rows.protocols import (
    ChosenRows,
    OnceAdded,
    Rows,
    RowSum,
    block_columns,
    through_view,
)
from stillspace.rows.sketch import Sketch
from stillspace.rows.stored import Scaling
from stillspace.rows.sums import STANDARD, ExactSum, Layout, Summation

__all__ = [
    "STANDARD",
    "Affine",
    "Caps",
    "ChosenRows",
    "Clip",
    "ExactSum",
    "FileRows",
    "Fill",
    "LabelledRows",
    "Layout",
    "LeaveOut",
    "Lengths",
    "MemoryRows",
    "OnceAdded",
    "PairedRows",
    "Pairs",
    "Project",
    "RowSum",
    "RowTable",
    "Rows",
    "Scaling",
    "Sketch",
    "Sphere",
    "Summation",
    "Without",
    "block_columns",
    "draw_pairs",
    "label_codes",
    "levels",
    "pair_block",
    "through_view",
]
