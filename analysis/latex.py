"""tables/*.tex: booktabs tables to \\input into a paper."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis.shown import ShownTable


def write_latex(tables: list[ShownTable], folder: Path) -> None:
    """One file a table into `folder`. The document needs \\usepackage{booktabs}; texts are escaped, in UTF-8."""
    for table in tables:
        (folder / f"{table.name}.tex").write_text(latex(table), encoding="utf-8")


def latex(table: ShownTable) -> str:
    """The table as a LaTeX `table` with caption and label."""
    frame = pd.DataFrame(table.rows, columns=table.columns, dtype=str)
    style = frame.style.hide(axis="index").format(escape="latex").format_index(escape="latex", axis=1)
    text: str = style.to_latex(
        column_format="".join("r" if numeric else "l" for numeric in table.numeric),
        hrules=True,
        caption=_escaped(table.caption),
        label=f"tab:{table.name}",
        position_float="centering",
    )
    return text


def _escaped(text: str) -> str:
    return text.replace("%", "\\%")
