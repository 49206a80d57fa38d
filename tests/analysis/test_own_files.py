"""An analysis writes over its own files and over nobody else's."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.__main__ import main
from tests.analysis import records_factory as factory

JAX = factory.condition("jax")
TF = factory.condition("tf", compile="xla")


def test_other_files_in_the_output_folder_stay(tmp_path: Path) -> None:
    folder = factory.study(tmp_path / "s", [JAX], lambda *_: 0.01)
    mine = [tmp_path / "out" / "tables" / "mine.csv", tmp_path / "out" / "figures" / "mine.svg"]
    for path in mine:
        path.parent.mkdir(parents=True)
        path.write_text("precious")
    assert main([str(folder), "--quiet", "--output", str(tmp_path / "out")]) == 0
    assert [path.read_text() for path in mine] == ["precious", "precious"]
    assert (tmp_path / "out" / "trials.csv").exists()


def test_another_studys_folder_is_no_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = (factory.study(tmp_path / name, [JAX], lambda *_: 0.01) for name in ("a", "b"))
    assert main([str(one), str(other), "--quiet", "--output", str(one)]) == 2
    assert "is the folder of a study: name another place" in capsys.readouterr().err
    assert not (one / "trials.csv").exists()


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = factory.study(tmp_path / "s", [JAX], lambda *_: 0.01)
    (folder / "tables").write_text("in the way")
    assert main([str(folder), "--quiet"]) == 2
    assert capsys.readouterr().err.startswith("analysis: ")


def test_a_notebooks_backend_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "module://not_installed_here")
    folder = factory.study(tmp_path / "s", [JAX], lambda *_: 0.01)
    assert main([str(folder), "--quiet"]) == 0


def test_compile_as_the_primary_factor_is_compared(tmp_path: Path) -> None:
    graph = factory.condition("tf", compile="graph")
    folder = factory.study(tmp_path / "s", [TF, graph], lambda n, _: 0.01 * (1 + n), primary="compile")
    assert main([str(folder), "--quiet"]) == 0
    (pair,) = (folder / "tables" / "pairs.csv").read_text().splitlines()[1:]
    assert "no common block" not in pair
    assert "0.5" in pair
