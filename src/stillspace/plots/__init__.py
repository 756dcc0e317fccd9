"""Pictures, with matplotlib. It is imported when the first one is drawn, and never `pyplot`."""

from stillspace.plots.side_view import Panel, draw_side_views

__all__ = ["Panel", "draw_side_views"]
