"""Pictures, with matplotlib. It is imported when the first one is drawn, and never `pyplot`."""

from stillspace.plots.dimension import draw_dimension_profile
from stillspace.plots.outlier_map import draw_outlier_map
from stillspace.plots.score_map import draw_score_map, draw_scores
from stillspace.plots.side_view import Panel, draw_side_views
from stillspace.plots.trade_off import draw_trade_off

__all__ = [
    "Panel",
    "draw_dimension_profile",
    "draw_outlier_map",
    "draw_score_map",
    "draw_scores",
    "draw_side_views",
    "draw_trade_off",
]
