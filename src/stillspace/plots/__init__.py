"""Pictures, with matplotlib. It is imported when the first one is drawn, and never `pyplot`."""

from stillspace.plots.side_view import Panel, draw_side_views
from stillspace.plots.trade_off import draw_trade_off

__all__ = ["Panel", "draw_side_views", "draw_trade_off"]
