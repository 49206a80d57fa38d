"""`python -m analysis`: exit status, what is printed, where things go, what is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from analysis.__main__ import main
from analysis.pipeline import analyse
from analysis.terminal import show
from tests.analysis import records_factory as factory

JAX, TF = factory.condition("jax"), factory.condition("tf")
ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.usefixtures("svg_only")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return factory.study(tmp_path / "good", [JAX, TF], lambda n, b: 0.01 * (1 + n) + 1e-5 * b)


@pytest.fixture
def mismatch(tmp_path: Path) -> Path:
    trials = [factory.trial(JAX, 0, 0.03), factory.trial(TF, 0, 0.02, input_hash="other")]
    return factory.write(tmp_path / "bad", factory.session([JAX, TF], 1, name="bad"), *trials)


def test_as_a_process_of_its_own(study: Path) -> None:
    command = [sys.executable, "-W", "error", "-m", "analysis", str(study)]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "jax takes 0.50 × the time of tf" in ended.stdout and "report.html" in ended.stdout
    names = {path.name for path in study.iterdir()}
    assert names == {"journal", "trials.csv", "trials.parquet", "tables", "figures", "report.html"}
    tables = {path.stem for path in (study / "tables").iterdir()}
    assert {"conditions", "pairs", "outcomes", "warnings", "bad_lines", "match"} <= tables


def test_quiet_prints_nothing(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(study), "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_a_mismatch_makes_the_status_one(mismatch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(mismatch)]) == 1
    assert "NOT MATCHED" in capsys.readouterr().out
    assert ",false," in (mismatch / "tables" / "pairs.csv").read_text()


@pytest.mark.parametrize("arguments", [["{}/absent"], ["{}"], ["{}/good", "{}/absent"]])
def test_wrong_folders_make_the_status_two(
    study: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [argument.format(study.parent) for argument in arguments]
    assert main(paths) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and paths[-1] in error
    assert not (study / "report.html").exists()


@pytest.mark.parametrize("arguments", [[], ["x", "--margin", "banana"], ["x", "--margin", "0"], ["--unknown"]])
def test_wrong_options_make_the_status_two(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2


def test_several_folders_are_rebuilt_and_combined(study: Path, mismatch: Path) -> None:
    assert main([str(study), str(mismatch), "--quiet"]) == 1
    combined = study.parent / "combined-good+bad"
    for folder in (study, mismatch, combined):
        assert (folder / "report.html").exists()
    assert len((combined / "trials.csv").read_text().splitlines()) == 1 + 6 + 2


def test_output_goes_where_it_is_asked_to(study: Path, tmp_path: Path) -> None:
    assert main([str(study), "--quiet", "--output", str(tmp_path / "elsewhere" / "deep")]) == 0
    assert (tmp_path / "elsewhere" / "deep" / "report.html").exists()
    assert not (study / "report.html").exists()


def test_columns_are_printed_as_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--columns"]) == 0
    assert (
        "| `step_seconds` | float64 | s | the trial's value: median window ÷ steps per window |"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize("width", [80, 120])
def test_the_terminal_summary_fits(tmp_path: Path, width: int, capsys: pytest.CaptureFixture[str]) -> None:
    conditions = [
        factory.condition(name, allocation="glibc_retain", workload__batch_size=size)
        for name in ("jax", "tf_graph")
        for size in (128, 4096)
    ]
    folder = factory.study(tmp_path / "s", conditions, lambda n, b: None if (n, b) == (1, 1) else 0.0123 * (1 + n))
    show(analyse([folder], folder), Console(width=width, highlight=False))
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines if not line.startswith("Report:")) <= width
    text = " ".join(lines)
    assert "2 ok, 1" in text and "oom" in text and "300" in text and "12.3" in text


def test_no_outcome_is_broken_inside_a_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = factory.condition("jax", allocation="growth"), factory.condition("tf_graph", allocation="growth")
    trials = [factory.trial(one, 0, outcome="not_applicable"), factory.trial(other, 0, outcome="unavailable")]
    folder = factory.write(tmp_path / "s", factory.session([one, other], 1), *trials)
    show(analyse([folder], folder), Console(width=80, highlight=False))
    printed = capsys.readouterr().out
    assert "1 n/a" in printed and "1 unavailable" in printed


def test_many_comparisons_take_a_dozen_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """16 cells of one block: sentences of two lines each at 80 columns. The one that did not match leads."""
    cells = [
        factory.condition(name, allocation="glibc_retain", workload__batch_size=1000 + size)
        for size in range(16)
        for name in ("jax", "tf_graph")
    ]
    trials = [factory.trial(one, 0, 0.01 * (1 + n % 2)) for n, one in enumerate(cells)]
    trials[-1] = factory.trial(cells[-1], 0, 0.02, input_hash="other")
    folder = factory.write(tmp_path / "s", factory.session(cells, 1), *trials)
    show(analyse([folder], folder), Console(width=80, highlight=False))
    lines = capsys.readouterr().out.splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("•"))
    rest = next(n for n, line in enumerate(lines) if line.startswith("…"))
    shown = sum(line.startswith("•") for line in lines)
    assert 1 < rest - first <= 12
    assert "batch_size 1015" in lines[first]
    assert lines[rest] == f"… and {16 - shown} more comparisons in the report."


def test_walls() -> None:
    """The analysis imports neither the study nor a framework."""
    code = (
        "import sys, analysis.pipeline, analysis.terminal\n"
        "print([name for name in ('study', 'jax', 'tensorflow', 'hydra') if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert ended.stdout.strip() == "[]"
