"""A report for a data-protection officer: one HTML page, made of what a model file holds."""

from stillspace.report.page import render_report, write_report

__all__ = ["render_report", "write_report"]
