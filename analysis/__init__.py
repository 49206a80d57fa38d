"""Journals in, comparisons out: `python -m analysis outputs/NAME` rebuilds tables, figures and report."""
