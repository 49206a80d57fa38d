"""outputs/reference, a real study that comes with the repository, rebuilt from its journals: its tables are as stored.

Every name must be equal, every number to 1e-9: another environment may add up in another order.
"""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path

import pytest

from analysis.pipeline import analyse

REFERENCE = Path(__file__).parents[2] / "outputs" / "reference"
CLOSE = 1e-9

pytestmark = [
    pytest.mark.skipif(not (REFERENCE / "journal").is_dir(), reason="the repository has no outputs/reference here"),
    pytest.mark.usefixtures("svg_only"),
]


def cells(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.reader(stream))


def same(stored: str, found: str) -> bool:
    """Equal as text, or as numbers to 1e-9; numbers inside a sentence count as text."""
    try:
        return stored == found or math.isclose(float(stored), float(found), rel_tol=CLOSE, abs_tol=1e-300)
    except ValueError:
        return False


@pytest.fixture(scope="module")
def rebuilt(tmp_path_factory: pytest.TempPathFactory, svg_only: None) -> Path:
    assert svg_only is None, "a fixture for its effect only"
    target = tmp_path_factory.mktemp("reference")
    analyse([REFERENCE], target)
    return target


def test_every_table_is_as_stored(rebuilt: Path) -> None:
    names = ["trials.csv", *(f"tables/{path.name}" for path in sorted((REFERENCE / "tables").glob("*.csv")))]
    assert len(names) > 5
    for name in names:
        stored, found = cells(REFERENCE / name), cells(rebuilt / name)
        assert [len(row) for row in found] == [len(row) for row in stored], name
        for before, after in zip(stored, found, strict=True):
            wrong = [pair for pair in zip(before, after, strict=True) if not same(*pair)]
            assert not wrong, (name, wrong[:3])


def test_its_journals_hold_no_place() -> None:
    """No home, no temporary folder, no folder of a checkout or an environment."""
    for path in (REFERENCE / "journal").glob("*.jsonl"):
        found = re.findall(r'"[^"]*(?:/home/|/root|/tmp/|/opt/|/usr/lib|site-packages)[^"]*"', path.read_text())
        assert not found, (path.name, found[:3])
