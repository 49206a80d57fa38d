"""Whether two sides did the same work, from the bytes that went in to the losses that came out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.load import read_journals
from analysis.tables import Tables, build_tables
from tests.analysis import records_factory as factory


def tables_of(folder: Path, ours: dict[str, Any], theirs: dict[str, Any], **settings: Any) -> Tables:
    """jax against tf, two blocks each; `ours` and `theirs` are what their records say."""
    jax, tf = factory.condition("jax", **settings), factory.condition("tf", **settings)
    trials = []
    for block in range(2):
        trials.append(factory.trial(jax, block, 0.01, **ours))
        trials.append(factory.trial(tf, block, 0.01, **theirs))
    folder = factory.write(folder / "s", factory.session([jax, tf], 2), *trials)
    return build_tables(read_journals([folder]), 0.02)


def test_equal_work_is_certified(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, {}, {"losses": (2.5, 2.25 * (1 + 5e-5), 2.0)})
    row = tables.match.iloc[0]
    assert bool(row["match"]) is True and tables.mismatches == 0
    assert (row["match_blocks_count"], row["match_losses_count"]) == (2, 6)
    assert row["largest_relative_difference_ratio"] == pytest.approx(5e-5, rel=1e-3)


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        ({"input_hash": "other"}, "input hash differs in block 0: jax same-bytes, tf other"),
        ({"parameters": 999}, "parameter count differs in block 0: jax 1000, tf 999"),
        ({"own_flops": 1}, "own FLOPs differs in block 0: jax 2000000, tf 1"),
        ({"losses": (2.5, 2.25, 2.001)}, "loss 3 differs by 0.0005"),
        ({"losses": (2.5, float("nan"), 2.0)}, "loss 2 is not finite: jax 2.25, tf nan"),
        ({"reference": (2.5, 2.3, 2.0)}, "tf 2.25, reference 2.3"),
    ],
    ids=["bytes", "parameters", "flops", "loss", "nan", "reference"],
)
def test_each_difference_is_named_with_its_values(tmp_path: Path, theirs: dict[str, Any], said: str) -> None:
    tables = tables_of(tmp_path, {}, theirs)
    assert tables.pairs["match"].tolist() == [False]
    assert said in tables.pairs["match_reason"].iloc[0]
    assert "NOT MATCHED" in tables.pairs["sentence"].iloc[0]
    assert tables.mismatches == 1


@pytest.mark.parametrize(
    ("theirs", "said"),
    [({"losses": ()}, "no loss of tf"), ({"input_hash": None}, "no input hash of tf"), ({"parameters": None}, "of tf")],
)
def test_what_cannot_be_checked_is_neither_true_nor_false(tmp_path: Path, theirs: dict[str, Any], said: str) -> None:
    tables = tables_of(tmp_path, {}, theirs)
    assert tables.pairs["match"].isna().all() and tables.mismatches == 0
    assert said in tables.pairs["match_reason"].iloc[0]


@pytest.mark.parametrize(
    ("dtype", "apart", "matches"),
    [
        ("float32", 0.9e-4, True),
        ("float32", 1.1e-4, False),
        ("float16", 4e-3, True),
        ("float16", 6e-3, False),
        ("bfloat16", 1.9e-2, True),
        ("bfloat16", 2.2e-2, False),
    ],
)
def test_the_tolerance_is_that_of_the_number_format(tmp_path: Path, dtype: str, apart: float, matches: bool) -> None:
    tables = tables_of(tmp_path, {}, {"losses": (2.5, 2.25 * (1 - apart), 2.0)}, workload__dtype=dtype)
    assert tables.pairs["match"].tolist() == [matches]


def test_different_workloads_are_not_held_against_each_other(tmp_path: Path) -> None:
    conditions = [factory.condition("jax", workload=name) for name in ("mlp", "matmul")]
    trials = [factory.trial(one, 0, 0.01, input_hash=one["workload"]) for one in conditions]
    folder = factory.write(tmp_path / "s", factory.session(conditions, 1, primary="workload"), *trials)
    tables = build_tables(read_journals([folder]), 0.02)
    assert tables.pairs["match"].isna().all()
    assert "differ in the work itself" in tables.pairs["match_reason"].iloc[0]
