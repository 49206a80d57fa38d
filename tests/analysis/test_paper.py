"""What a publication needs: the PDF, LaTeX tables, ARTIFACT.md, CITATION.cff, the same bytes every time."""

from __future__ import annotations

import csv
import hashlib
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import yaml

from analysis import shown
from analysis.__main__ import main
from analysis.figures import gallery
from analysis.latex import escaped, latex
from analysis.load import read_journals
from analysis.method import paragraphs
from analysis.pipeline import analyse
from analysis.shown import ShownTable
from analysis.tables import build_tables, write_tables
from runners.records import Plan
from tests.analysis import records_factory as factory

JAX, TF = factory.condition("jax"), factory.condition("tf")
EVIL = r'\input{/etc/passwd} #read("x") $x^2$ & % _ ~ "quoted" <script>'

NO_TYPST = "the extra paper is not installed"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Typst is there, and figures are saved as SVG only, which is all that Typst reads."""
    pytest.importorskip("typst", reason=NO_TYPST)
    monkeypatch.setattr(gallery, "METADATA", {"svg": gallery.METADATA["svg"]})


#: What breaks a table or a document in one format or another.
ODD = ["[a](b)", "* b", "line\n\nbreak", "nul\0tab\t", "\u202eright to left שלום", "🚀 モデル", "-5", "=1+1", "--flag"]
ODD += ["a|b", "~^`", "<b>&amp;</b>", ""]


def small_study(folder: Path) -> Path:
    conditions = [factory.condition(name, allocation=EVIL) for name in ("jax", "tf")]
    trials = [factory.trial(one, b, 0.01 * (1 + n) + 1e-5 * b) for b in range(3) for n, one in enumerate(conditions)]
    failed = factory.trial(conditions[0], 3, outcome="oom", reason=EVIL, text=EVIL, phase="measure")
    session = factory.session(conditions, 4, name=EVIL)
    session = replace(session, design={**session.design, "command": f"python -m study {EVIL}"})
    return factory.write(folder, session, *trials, failed)


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("typst", reason=NO_TYPST)
    folder = small_study(tmp_path_factory.mktemp("paper") / "s")
    assert main([str(folder), "--paper", "--quiet"]) == 0
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_everything_is_there(printed: Path) -> None:
    assert (printed / "paper.pdf").read_bytes().startswith(b"%PDF-")
    files = set(contents(printed))
    assert {"ARTIFACT.md", "CITATION.cff", "paper/paper.typ", "paper/paper.json", "trials.parquet"} <= files
    assert {"tables/conditions.tex", "tables/pairs.tex", "tables/failures.tex", "figures/ratios.pdf"} <= files


def test_rebuilt_elsewhere_from_a_copy_of_the_journals_it_is_the_same_to_the_byte(
    printed: Path, tmp_path: Path
) -> None:
    """In another process, another folder, another time zone and with another hash seed."""
    copy = tmp_path / "s"
    shutil.copytree(printed / "journal", copy / "journal")
    command = [sys.executable, "-m", "analysis", str(copy), "--paper", "--quiet"]
    environment = {"PYTHONHASHSEED": "7", "PATH": "/usr/bin:/bin", "TZ": "Asia/Tokyo"}
    subprocess.run(command, check=True, cwd=Path(__file__).parents[2], env=environment)
    assert contents(copy) == contents(printed)


def test_the_pdf_is_set_and_holds_no_place_or_date(printed: Path) -> None:
    pdf = (printed / "paper.pdf").read_bytes()
    assert b"CreationDate" not in pdf and b"ModDate" not in pdf
    assert str(printed).encode() not in pdf


def test_checksums_are_those_of_the_files(printed: Path) -> None:
    text = (printed / "ARTIFACT.md").read_text(encoding="utf-8")
    listed = dict(reversed(line) for line in re.findall(r"^([0-9a-f]{64})  (.+)$", text, flags=re.MULTILINE))
    assert {"journal/a.jsonl", "trials.csv", "tables/pairs.csv", "figures/ratios.svg", "paper.pdf"} <= set(listed)
    for name, digest in listed.items():
        assert hashlib.sha256((printed / name).read_bytes()).hexdigest() == digest


def test_the_artifact_answers_the_checklists(printed: Path) -> None:
    text = (printed / "ARTIFACT.md").read_text(encoding="utf-8")
    for said in ("ACM", "MLSys", "NeurIPS", "Study seed: 7", "an invented processor", "| oom | 1 | 9.50 s |"):
        assert said in text
    # six good trials of 9.5 s and the failed one: 66.5 s
    assert "lived for 66.5 s altogether" in text and "of which 9.50 s in trials that did not end ok" in text
    assert "jax takes 0.50 × the time of tf" in text
    assert re.search(r"^pandas==\d", text, flags=re.MULTILINE)
    assert str(printed.parent) not in text


def test_the_citation_is_valid_as_far_as_a_study_knows(printed: Path) -> None:
    citation = yaml.safe_load((printed / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["type"] == "dataset" and citation["date-released"] == "2026-01-01"


def test_latex_is_booktabs_and_escaped(printed: Path) -> None:
    text = (printed / "tables" / "failures.tex").read_text(encoding="utf-8")
    assert text.count(r"\toprule") == text.count(r"\midrule") == text.count(r"\bottomrule") == 1
    assert r"\input{" not in text and r"\textbackslash{}input\{/etc/passwd\}" in text
    row = next(line for line in text.splitlines() if "oom" in line)
    assert len(re.findall(r"(?<!\\)&", row)) == 4 and row.endswith(r"\\")


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex is installed")
def test_latex_compiles(printed: Path, tmp_path: Path) -> None:
    tables = "".join(f"\\input{{{path}}}" for path in sorted((printed / "tables").glob("*.tex")))
    head = r"\documentclass{article}\usepackage{booktabs}\usepackage[T1]{fontenc}\begin{document}"
    (tmp_path / "x.tex").write_text(f"{head}{tables}\\end{{document}}")
    subprocess.run(["pdflatex", "-halt-on-error", "x.tex"], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex is installed")
def test_latex_of_any_text_compiles(tmp_path: Path) -> None:
    """As the first cell too, where a bracket would be read as an argument of the line break before it."""
    made = ShownTable(
        "odd", EVIL, ["first", "second [a]"], [False, True], [[odd, odd] for odd in (*ODD, EVIL)], len(ODD) + 1
    )
    head = r"\documentclass{article}\usepackage{booktabs}\begin{document}"
    (tmp_path / "x.tex").write_text(f"{head}{latex(made)}\\end{{document}}", encoding="utf-8")
    subprocess.run(["pdflatex", "-halt-on-error", "x.tex"], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)


def test_latex_spells_out_what_it_cannot_set() -> None:
    assert escaped("größe · 2 ÷ 3") == "größe · 2 ÷ 3"
    assert escaped("モ\n\n--x <y>") == r"U+30E2 -{}-x \textless{}y\textgreater{}"


@pytest.mark.usefixtures("quick")
def test_odd_levels_reach_every_document(tmp_path: Path) -> None:
    conditions = [factory.condition(name, allocation=odd) for odd in ODD for name in ("jax", "tf")]
    folder = factory.study(tmp_path / "s", conditions, lambda n, b: 0.01 * (1 + n % 2) + 1e-5 * b, name=" ".join(ODD))
    analyse([folder], folder, paper=True)
    assert (folder / "paper.pdf").read_bytes().startswith(b"%PDF")
    assert yaml.safe_load((folder / "CITATION.cff").read_text(encoding="utf-8"))["cff-version"] == "1.2.0"
    with (folder / "trials.csv").open(encoding="utf-8", newline="") as stream:
        found = [row["allocation"] for row in csv.DictReader(stream)]
    shown = [f"'{odd}" if odd in ("--flag", "=1+1") else odd for odd in ODD]
    assert sorted(set(found)) == sorted(shown)
    assert set(pd.read_parquet(folder / "trials.parquet")["allocation"]) == set(ODD)


def test_the_method_has_the_real_numbers(tmp_path: Path) -> None:
    one = factory.condition("jax", protocol__warmup_steps=30, protocol__warmup_seconds=2, protocol__window_seconds=0.1)
    other = {**one, "framework": "tf", "compile": "xla"}
    trials = [
        factory.trial(c, b, 0.01 + 0.001 * b, steps=20 + 30 * n) for b in range(4) for n, c in enumerate((one, other))
    ]
    trials.append(factory.trial(one, 4, outcome="crash"))
    journals = read_journals([factory.write(tmp_path / "s", factory.session([one, other], 5), *trials)])
    said = dict(paragraphs(journals, build_tables(journals, 0.05)))
    assert "2 conditions (framework: jax and tf; compile: jit and xla)" in said["Design"]
    assert "(seed 7; blocks 5)" in said["Design"] and "9 of 10 planned trials" in said["Design"]
    assert "at least 30 steps and 2 s" in said["One trial"]
    assert "3 windows a trial, K = 20 to 50, median window 200 to 650 ms" in said["One trial"]
    assert "within ±0.05" in said["Comparison"] and "over the 1 comparisons" in said["Comparison"]
    assert "1 comparison matched, 0 did not, 0 could not be checked" in said["Same work"]
    assert "1 crash (of 9)" in said["Failures and exclusions"]


def test_compiled_rows_have_a_table_of_their_own(tmp_path: Path) -> None:
    chip = factory.condition("jax", device="tpu", chip="v5e", evidence="compiled")
    planned = factory.trial(chip, 0, None, plan=Plan(peak_bytes=123 * 2**20, fits=True))
    folder = factory.write(tmp_path / "s", factory.session([JAX, chip], 1), factory.trial(JAX, 0, 0.01), planned)
    tables = build_tables(read_journals([folder]), 0.02)
    made = {table.name: table for table in shown.all_tables(tables, 10)}
    assert [row[0] for row in made["conditions"].rows] == ["jax"]
    assert made["compiled"].rows[0][1:4] == ["v5e", "ok", "123"]


def test_a_long_table_is_cut_and_says_so(tmp_path: Path) -> None:
    conditions = [factory.condition("jax", workload__batch_size=size) for size in range(1, 9)]
    tables = build_tables(read_journals([factory.study(tmp_path / "s", conditions, lambda *_: 0.01)]), 0.02)
    table = shown.all_tables(tables, 5)[0]
    assert (len(table.rows), table.total) == (5, 8)
    assert latex(table).count(r"\\") == 5 + 1


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("kind", ["empty", "failed", "one"])
def test_a_paper_of_nearly_nothing(tmp_path: Path, kind: str) -> None:
    trials = {
        "empty": [],
        "failed": [factory.trial(one, 0, outcome="oom", text="asked for 12 GiB") for one in (JAX, TF)],
        "one": [factory.trial(JAX, 0, 0.01)],
    }[kind]
    folder = factory.write(tmp_path / "s", factory.session([JAX, TF], 1), *trials)
    assert analyse([folder], folder, paper=True).paper == folder / "paper.pdf"


@pytest.mark.usefixtures("quick")
def test_a_paper_without_its_session_line_in_any_script(tmp_path: Path) -> None:
    one = factory.condition("jax", allocation="größe 配置 🚀")
    folder = factory.write(tmp_path / "s 配置", *[factory.trial(one, b, 0.01) for b in range(2)])
    assert main([str(folder), "--paper", "--quiet"]) == 0
    assert "nothing is known of the machine" in (folder / "ARTIFACT.md").read_text(encoding="utf-8")


def test_without_typst_the_request_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "typst", None)
    folder = factory.study(tmp_path / "s", [JAX], lambda *_: 0.01)
    assert main([str(folder), "--paper"]) == 2
    assert "pip install 'accelerator-study[paper]'" in capsys.readouterr().err
    assert not (folder / "report.html").exists()


def test_latex_tables_of_an_earlier_analysis_go(tmp_path: Path) -> None:
    folder = factory.study(tmp_path / "s", [JAX], lambda *_: 0.01)
    (folder / "tables").mkdir()
    (folder / "tables" / "pairs.tex").write_text("old")
    journals = read_journals([folder])
    write_tables(journals, build_tables(journals, 0.02), folder)
    assert not list((folder / "tables").glob("*.tex"))


def test_a_paper_of_an_earlier_analysis_is_named_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = factory.study(tmp_path / "s", [JAX], lambda *_: 0.01, blocks=1)
    (folder / "paper.pdf").write_bytes(b"%PDF-old")
    assert main([str(folder)]) == 0
    assert "paper.pdf is of an earlier analysis: --paper makes it anew." in capsys.readouterr().out
