"""The largest batch that ran, by framework, allocation mode and cap, from real processes and real ends of memory."""

from __future__ import annotations

from matplotlib.figure import Figure

from analysis.figures import capacity
from analysis.tables import Tables

QUESTION = "Measured: what is the largest batch that fits under the cap?"
TABLE = "measured_capacity"
COLUMNS = ("largest_batch_size",)
ORDER = 95
EVIDENCE = "measured"


def draw(tables: Tables) -> Figure:
    """One row for each framework, allocation mode, cap and workload that was searched."""
    note = "Every batch that was tried ran a few steps in a process of its own, or ended there out of memory."
    return capacity.frontier(tables.measured_capacity, QUESTION, note, alpha=1.0)
