"""Small helpers on tables that several modules need."""

from __future__ import annotations

from typing import Any

import pandas as pd


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table as dicts by column name."""
    names = [str(name) for name in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.itertuples(index=False, name=None)]


def is_mixed(column: pd.Series) -> bool:
    """Whether a column holds more than one distinct value."""
    return len(column.unique()) > 1
