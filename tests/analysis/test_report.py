"""The report: the answer first, everything escaped, nothing fetched, and readable whatever the study holds."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from analysis.pipeline import analyse
from runners.records import Plan
from tests.analysis import records_factory as factory

JAX, TF = factory.condition("jax"), factory.condition("tf")
EVIL = '<script>alert("x")</script>-->&<img src=x onerror=alert(1)>'


pytestmark = pytest.mark.usefixtures("svg_only")


def report_of(folder: Path) -> str:
    return analyse([folder], folder).report.read_text(encoding="utf-8")


def visible(page: str) -> str:
    """The text of a page without figures, scripts and tags."""
    for pattern in (r"<style>.*?</style>", r"<script>.*?</script>", r"<svg.*?</svg>", r"<[^>]+>"):
        page = re.sub(pattern, " ", page, flags=re.DOTALL)
    return " ".join(html.unescape(page).split())


class Tags(HTMLParser):
    """Counts what a browser would run or fetch, and checks that tags are closed in order."""

    VOID = ("meta", "img", "br", "link", "input", "path", "use", "rect")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.scripts = 0
        self.fetched: list[str] = []
        self.ids: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory, svg_only: None) -> str:
    """A study in which every text that a record can carry tries to be markup."""
    assert svg_only is None, "a fixture for its effect only"
    jax, tf = (factory.condition(name, allocation=EVIL, workload__note=EVIL) for name in ("jax", "tf"))
    trials = [
        factory.trial(one, b, 0.01 * (1 + n), warnings=[EVIL]) for b in range(2) for n, one in enumerate((jax, tf))
    ]
    trials.append(factory.trial(jax, 2, outcome="crash", reason=EVIL, text=EVIL, phase="measure"))
    session = factory.session([jax, tf], 3, name=EVIL)
    session = replace(session, provenance={EVIL: EVIL}, design={**session.design, "command": EVIL})
    folder = factory.write(tmp_path_factory.mktemp("hostile") / "s", session, *trials)
    with (folder / "journal" / "a.jsonl").open("a") as stream:
        stream.write('{"kind": "<script>alert(2)</script>"}\n')
    return report_of(folder)


def test_everything_from_records_is_escaped(hostile: str) -> None:
    found = Tags(hostile)
    assert found.scripts == 1 and found.open == []
    assert all(target.startswith("#") for target in found.fetched)
    assert 'alert("x")' not in re.sub(r"&[#\w]+;", "", hostile)
    assert EVIL in html.unescape(hostile)


def test_ids_are_unique_among_sections_and_figures(hostile: str) -> None:
    sections = [name for name in Tags(hostile).ids if not re.search(r"DejaVuSans|-m[0-9a-f]+$|-p[0-9a-f]+$", name)]
    assert len(sections) == len(set(sections))


def test_the_answer_comes_first(tmp_path: Path) -> None:
    text = visible(report_of(factory.study(tmp_path / "s", [JAX, TF], lambda n, b: 0.01 * (1 + n) + 1e-5 * b)))
    assert text.index("jax takes 0.50 × the time of tf") < text.index("Conditions") < text.index("Figures")
    assert "6 of 6 planned trials are done" in text
    assert "python -m study -m framework=jax,tf" in text
    assert "an invented processor" in text
    assert "Nothing: every planned trial ended ok." in text


def test_an_empty_study_says_so(tmp_path: Path) -> None:
    text = visible(report_of(factory.write(tmp_path / "s", factory.session([JAX, TF], 4))))
    assert "0 of 8 planned trials are done." in text
    assert "there is nothing to compare" in text
    assert "0 of 4 trials, the others have not been run" in text


def test_a_study_that_failed_altogether_names_its_failures(tmp_path: Path) -> None:
    trials = [
        factory.trial(one, b, outcome="oom", phase="compile", reason="host memory", text="asked for 12 GiB of 8 GiB")
        for b in range(2)
        for one in (JAX, TF)
    ]
    text = visible(report_of(factory.write(tmp_path / "s", factory.session([JAX, TF], 2), *trials)))
    assert "jax and tf have no common block (jax: 2 oom; tf: 2 oom)" in text
    assert text.count("asked for 12 GiB of 8 GiB") == 2
    assert "“How long does one step take?” is not drawn" in text


def test_one_framework_alone_has_nothing_to_compare(tmp_path: Path) -> None:
    text = visible(report_of(factory.study(tmp_path / "s", [JAX], lambda *_: 0.01)))
    assert "There is no pair of conditions to compare." in text and "Match certificate" not in text


def test_names_in_any_script_and_with_spaces(tmp_path: Path) -> None:
    name = "größe  配置 🚀 $x^2$"
    conditions = [factory.condition(framework, allocation=name) for framework in ("jax", "tf")]
    folder = factory.study(tmp_path / "s 配置", conditions, lambda n, b: 0.01 * (1 + n) + 1e-5 * b, name=name)
    assert "größe 配置 🚀 $x^2$" in visible(report_of(folder))


def test_an_unfinished_study_says_how_far_it_is(tmp_path: Path) -> None:
    trials = [factory.trial(JAX, 0, 0.01), factory.trial(TF, 0, 0.02), factory.trial(JAX, 1, 0.01)]
    text = visible(report_of(factory.write(tmp_path / "s", factory.session([JAX, TF], 32), *trials)))
    assert "3 of 64 planned trials are done." in text
    assert "in the one common block (n = 1: no interval)" in text


def test_several_machines_are_told_apart(tmp_path: Path) -> None:
    trials = [factory.trial(JAX, b, 0.01, provenance=f"{b}-machine") for b in range(2)]
    text = visible(report_of(factory.write(tmp_path / "s", factory.session([JAX], 2), *trials)))
    assert "come from 2 different machines or sets of versions" in text and "0-machin" in text


def test_compiled_results_have_a_section_of_their_own(tmp_path: Path) -> None:
    chip = factory.condition("jax", device="tpu", chip="v5e", evidence="compiled")
    planned = factory.trial(chip, 0, None, plan=Plan(peak_bytes=123 * 2**20, fits=False, predicted_step_seconds=0.002))
    page = report_of(
        factory.write(tmp_path / "s", factory.session([JAX, chip], 1), factory.trial(JAX, 0, 0.01), planned)
    )
    before, section = visible(page).split("Compiled, not measured")
    assert "123 MiB" in section and "does not fit" in section and "123 MiB" not in before
    assert (tmp_path / "s" / "tables" / "compiled.csv").exists()
    without = report_of(factory.write(tmp_path / "s", factory.session([JAX], 1), factory.trial(JAX, 0, 0.01)))
    assert "Compiled, not measured" not in without
    assert not (tmp_path / "s" / "tables" / "compiled.csv").exists()


def test_bad_lines_and_repeated_attempts_are_listed(tmp_path: Path) -> None:
    trials = [
        factory.trial(JAX, 0, outcome="invalid", reason="retraced", started="2026-01-01T00:00:01"),
        factory.trial(JAX, 0, 0.01, started="2026-01-01T00:00:02"),
    ]
    folder = factory.write(tmp_path / "s", factory.session([JAX], 1), *trials)
    with (folder / "journal" / "a.jsonl").open("a") as stream:
        stream.write('{"kind":"trial","spec"')
    text = visible(report_of(folder))
    assert "1 journal line could not be read as written" in text
    assert "s/journal/a.jsonl 4 lost" in text
    assert "jax, block 0: invalid (retraced)" in text


def test_rebuilt_from_the_same_journals_it_is_the_same(tmp_path: Path) -> None:
    folder = factory.study(tmp_path / "s", [JAX, TF], lambda n, b: 0.01 * (1 + n) + 1e-5 * b)
    assert report_of(folder) == report_of(folder)


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed")


def browsed(folder: Path, page: str, script: str, width: int = 1200) -> tuple[str, list[str]]:
    """The page's title after a script was added at its end, and what the browser's console said."""
    (folder / "page.html").write_text(page.replace("</body>", f"<script>{script}</script></body>"), encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    options += ["--enable-logging=stderr", f"--window-size={width},900", f"--user-data-dir={folder / 'profile'}"]
    command = [str(CHROMIUM), *options, "--dump-dom", f"file://{folder}/page.html"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    title = re.search(r"<title>(.*?)</title>", found.stdout)
    return title.group(1) if title else "", [line for line in found.stderr.splitlines() if "CONSOLE" in line]


@needs_browser
def test_tables_sort_in_a_real_browser(tmp_path: Path) -> None:
    conditions = [factory.condition("jax", workload__batch_size=size) for size in (1, 2, 3)]
    page = report_of(factory.study(tmp_path / "s", conditions, lambda n, b: (0.02, 0.03, 0.01)[n] + 1e-5 * b))
    title, console = browsed(
        tmp_path,
        page,
        """
        const buttons = [...document.querySelectorAll("#conditions + div button")];
        buttons.find(button => button.textContent == "step time").click();
        const rows = [...document.querySelectorAll("#conditions + div tbody tr")];
        document.title = rows.map(row => row.cells[0].textContent).join("|");
        """,
    )
    assert title == "jax · batch_size 3|jax · batch_size 1|jax · batch_size 2"
    assert console == []


@needs_browser
@pytest.mark.parametrize("width", [500, 1200])
def test_the_page_fits_the_screen_and_no_word_is_broken(hostile: str, tmp_path: Path, width: int) -> None:
    """Wide tables scroll inside their frames; the verdict's column keeps its words on one line."""
    title, console = browsed(
        tmp_path,
        hostile,
        """
        const page = document.documentElement;
        const cells = [...document.querySelectorAll("td.word")];
        const whole = cells.every(cell => {
          const range = document.createRange();
          range.selectNodeContents(cell);
          return new Set([...range.getClientRects()].map(box => Math.round(box.top))).size <= 1;
        });
        document.title = `${page.scrollWidth <= page.clientWidth} ${cells.length > 0} ${whole}`;
        """,
        width,
    )
    assert title == "true true true"
    assert console == []
