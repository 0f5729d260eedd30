"""Every analysis of the paper from stored run folders, and what the paper leaves out. No model is called.

>>> from gistbench.runners.report import Runs, run_analyses
>>> runs = Runs.open(["runs/demo"])  # doctest: +SKIP
>>> {found.id: list(found.tables) for found in run_analyses(runs, ["table_3"])}  # doctest: +SKIP
{'table_3': ['medians']}
"""

from .analysis import Analysis, FigureSpec, Layout, Options, Reference, analysis, analysis_ids, run_analyses
from .build import Report, build_report
from .columns import COLUMNS, Column, describe_column
from .load import Group, Run, Runs

__all__ = [
    "COLUMNS",
    "Analysis",
    "Column",
    "FigureSpec",
    "Group",
    "Layout",
    "Options",
    "Reference",
    "Report",
    "Run",
    "Runs",
    "analysis",
    "analysis_ids",
    "build_report",
    "describe_column",
    "run_analyses",
]
