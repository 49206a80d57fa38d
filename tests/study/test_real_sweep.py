"""The main job with the real frameworks, at smoke size: what README promises of it."""

from __future__ import annotations

import csv
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.columns import COLUMNS

ENVIRONMENT = {**os.environ, "COLUMNS": "160"}


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """One smoke sweep over three frameworks and two allocation modes; its folder and what it printed."""
    folder = tmp_path_factory.mktemp("sweep")
    arguments = [
        "-m", "framework=jax,tf,tf_graph", "allocation=default,growth", "workload.size=tiny", "protocol=smoke",
        "study.name=main",
    ]  # fmt: skip
    command = [sys.executable, "-m", "study", *arguments]
    finished = subprocess.run(
        command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=300, check=False
    )
    return folder / "outputs" / "main", finished


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "trials.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_it_ends_well_and_says_where_the_report_is(sweep: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    folder, finished = sweep
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "outputs/main/report.html" in finished.stdout
    assert "the time of tf" in finished.stdout
    for name in ("report.html", "manifest.yaml", "tables/pairs.csv", "figures/ratios.svg", "figures/ratios.pdf"):
        assert (folder / name).stat().st_size > 0, name


def test_outcomes_and_effective_mechanisms(sweep: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    found = {
        (row["framework"], row["compile"], row["allocation"]): (row["outcome"], row["allocation_effective"])
        for row in rows(sweep[0])
    }
    assert found == {
        ("jax", "jit", "default"): ("ok", "posix_memalign"),
        ("jax", "jit", "growth"): ("not_applicable", ""),
        ("tf", "xla", "default"): ("ok", "mkl_pool"),
        ("tf", "xla", "growth"): ("ok", "bfc"),
        ("tf", "graph", "default"): ("ok", "mkl_pool"),
        ("tf", "graph", "growth"): ("ok", "bfc"),
    }


def test_the_table_has_the_promised_columns_and_no_invented_zero(
    sweep: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    table = rows(sweep[0])
    assert set(COLUMN_NAMES) <= set(table[0])
    for row in table:
        assert row["process_peak_bytes"] == ""
        assert row["planned_peak_bytes"] == ""
        if row["framework"] == "jax":
            assert row["device_live_peak_bytes"] == ""
        if row["outcome"] == "ok":
            assert float(row["step_seconds"]) > 0
            assert int(row["host_peak_bytes"]) > int(row["host_baseline_bytes"]) > 0


def test_the_frameworks_match(sweep: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    with (sweep[0] / "tables" / "pairs.csv").open(newline="") as file:
        pairs = list(csv.DictReader(file))
    matched = [pair["match"] for pair in pairs]
    # jax has no growth on the CPU: those two pairs have nothing to compare
    assert sorted(matched) == ["", "", "true", "true", "true", "true"]


def test_everything_is_rebuilt_from_the_journals_alone(
    sweep: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    shutil.copytree(sweep[0] / "journal", tmp_path / "main" / "journal")
    subprocess.run(
        [sys.executable, "-m", "analysis", str(tmp_path / "main"), "--quiet"], timeout=120, check=True, env=ENVIRONMENT
    )
    for name in ("trials.csv", "tables/pairs.csv", "tables/conditions.csv", "figures/ratios.svg"):
        assert digest(tmp_path / "main" / name) == digest(sweep[0] / name), name


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


COLUMN_NAMES = [
    "trial_id", "block", "order", "framework", "framework_version", "compile", "device", "chip", "allocation",
    "allocation_effective", "workload", "batch_size", "dtype", "evidence", "outcome", "phase", "reason",
    "step_seconds", "examples_per_second", "compile_seconds", "first_step_seconds", "host_baseline_bytes",
    "host_peak_bytes", "device_live_peak_bytes", "device_pool_peak_bytes", "process_peak_bytes",
    "planned_argument_bytes", "planned_output_bytes", "planned_alias_bytes", "planned_temp_bytes",
    "planned_code_bytes", "planned_peak_bytes", "planned_flops", "planned_bytes_accessed",
    "predicted_step_seconds", "usable_bytes", "fits", "own_flops", "parameters", "traces", "loss_first",
    "loss_last", "warnings", "seed",
]  # fmt: skip


def test_readme_documents_every_column_and_setting() -> None:
    readme = (Path(__file__).parent.parent.parent / "README.md").read_text()
    missing = [column.name for column in COLUMNS if f"`{column.name}`" not in readme]
    assert missing == []
    from study.help import rows as settings

    assert [key for key, *_ in settings() if f"`{key}`" not in readme] == []
