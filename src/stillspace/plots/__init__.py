"""Pictures, with matplotlib, which is imported when the first one is drawn.

Displays follow scikit-learn: `from_estimator(..., ax=None)` draws and returns a display with `ax_`
and `figure_`. Functions `draw_…` return whole figures and never use `pyplot`.
"""

from stillspace.plots.components import DimensionDisplay, LoadingsDisplay, ScreeDisplay
from stillspace.plots.embedding import BiplotDisplay, EmbeddingDisplay
from stillspace.plots.expected_error import PlannerDisplay, draw_expected_error
from stillspace.plots.outlier_map import OutlierMapDisplay
from stillspace.plots.privacy import BudgetDisplay, PrivacyCurveDisplay
from stillspace.plots.score_map import draw_score_map
from stillspace.plots.side_view import Panel, draw_side_views
from stillspace.plots.trade_off import AuditDisplay, draw_trade_off

__all__ = [
    "AuditDisplay",
    "BiplotDisplay",
    "BudgetDisplay",
    "DimensionDisplay",
    "EmbeddingDisplay",
    "LoadingsDisplay",
    "OutlierMapDisplay",
    "Panel",
    "PlannerDisplay",
    "PrivacyCurveDisplay",
    "ScreeDisplay",
    "draw_expected_error",
    "draw_score_map",
    "draw_side_views",
    "draw_trade_off",
]
