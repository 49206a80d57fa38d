"""tables/*.tex: booktabs tables to \\input into a paper."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis.shown import ShownTable

#: What TeX would read as a command, or print as another character in its default encoding.
_ESCAPED = {
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "<": "\\textless{}",
    ">": "\\textgreater{}",
    "|": "\\textbar{}",
    "`": "\\textasciigrave{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}

#: Beyond Latin-1, what every LaTeX sets without a further package or font.
_SET_EVERYWHERE = "–—‘’“”„…"


def write_latex(tables: list[ShownTable], folder: Path) -> None:
    """One file a table into `folder`. The document needs \\usepackage{booktabs}; texts are escaped, in UTF-8."""
    for table in tables:
        (folder / f"{table.name}.tex").write_text(latex(table), encoding="utf-8")


def latex(table: ShownTable) -> str:
    """The table as a LaTeX `table` with caption and label."""
    # a row that began with [ or * would be read as an argument of the line break before it
    rows = [[f"{{}}{cell}" if cell[:1] in ("[", "*") else cell for cell in map(escaped, row)] for row in table.rows]
    frame = pd.DataFrame(rows, columns=[escaped(name) for name in table.columns], dtype=str)
    text: str = frame.style.hide(axis="index").to_latex(
        column_format="".join("r" if numeric else "l" for numeric in table.numeric),
        hrules=True,
        caption=escaped(table.caption),
        label=f"tab:{table.name}",
        position_float="centering",
    )
    return text


def escaped(text: str) -> str:
    """The text as pdfTeX, XeTeX and LuaTeX print it: one line, without commands.

    A character that LaTeX cannot set out of the box is written out as U+XXXX, which can be looked up.
    """
    line = " ".join(text.split())
    return "".join(_ESCAPED.get(character) or _settable(character) for character in line).replace("--", "-{}-")


def _settable(character: str) -> str:
    code = ord(character)
    known = 0x20 <= code < 0x7F or 0xA0 <= code <= 0xFF or character in _SET_EVERYWHERE
    return character if known else f"U+{code:04X}"
