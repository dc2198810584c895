"""The report of a run: one page that needs no network, and its charts and table as files."""

from .page import write_report

__all__ = ["write_report"]
