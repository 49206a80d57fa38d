"""Small helpers on tables that several modules need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table as dicts by column name."""
    names = [str(name) for name in table.columns]
    return [dict(zip(names, row, strict=True)) for row in rows(table)] if names else [{} for _ in table.index]


def rows(table: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
    """The rows of a table as tuples."""
    columns = (table[name] for name in table.columns)
    # texts lie in Arrow's memory, which is slow to leave one by one
    return zip(*(one.to_numpy(dtype=object) if one.dtype == "str" else one for one in columns), strict=True)


def is_mixed(column: pd.Series) -> bool:
    """Whether a column holds more than one distinct value."""
    return len(column.unique()) > 1
