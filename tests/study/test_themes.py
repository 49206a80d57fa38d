"""Presets: every one composes, and several themes under one name are studies of their own."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import yaml

from study import session
from study.config import StudyOptions
from tests.study.test_requests import study

ROOT = Path(__file__).parents[2]
PRESETS = sorted(path.stem for path in (ROOT / "conf" / "experiment").glob("*.yaml"))
THEMES = yaml.safe_load((ROOT / "conf" / "experiment" / "claims.yaml").read_text())["hydra"]["sweeper"]["themes"]


def test_claims_lists_every_other_preset_once() -> None:
    assert sorted(THEMES) == [one for one in PRESETS if one != "claims"]


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_composes(tmp_path: Path, preset: str) -> None:
    finished = study(tmp_path, f"+experiment={preset}", "study.dry_run=true")
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.count("pairs differ in: ") == (len(THEMES) if preset == "claims" else 1)
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_outranks_a_preset(tmp_path: Path) -> None:
    finished = study(tmp_path, "+experiment=on_demand_cost", "framework=jax", "study.dry_run=true")
    assert "6 conditions, 5 blocks" in finished.stdout
    finished = study(tmp_path, "+experiment=claims", "framework=jaxx", "study.dry_run=true")
    assert finished.returncode == 2
    assert "Available options in 'framework'" in finished.stderr


def test_a_preset_of_unknown_themes_says_which(tmp_path: Path) -> None:
    finished = study(tmp_path, "+experiment=claims", "hydra.sweeper.themes=[nonsense]", "study.dry_run=true")
    assert finished.returncode == 2
    assert "nonsense" in finished.stderr and "Traceback" not in finished.stderr


def test_themes_land_under_one_name_and_what_is_absent_does_not_count_against_them(tmp_path: Path) -> None:
    themes = "hydra.sweeper.themes=[placement,static_shapes]"
    smaller = ["framework=jax", "workload.size=tiny", "protocol=smoke", "study.blocks=1"]
    finished = study(tmp_path, "+experiment=claims", themes, *smaller, "study.name=both")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    folder = tmp_path / "outputs" / "both"
    assert sorted(one.name for one in folder.iterdir()) == [
        "claims.html",
        "placement",
        "static_shapes",
        "tables",
        "themes.yaml",
    ]
    assert "+experiment=static_shapes" in (folder / "static_shapes" / "manifest.yaml").read_text()
    assert "T3" in finished.stdout and "supported" in finished.stdout
    # placement needs an accelerator: its rows say so, and nothing was launched
    assert "unavailable" in (folder / "placement" / "trials.csv").read_text()


def test_a_study_and_themes_do_not_share_a_folder(tmp_path: Path) -> None:
    (tmp_path / "outputs" / "a" / "journal").mkdir(parents=True)
    (tmp_path / "outputs" / "b").mkdir()
    (tmp_path / "outputs" / "b" / "themes.yaml").write_text("themes: []\n")
    refused = study(tmp_path, "+experiment=claims", "study.name=a")
    assert refused.returncode == 2 and "outputs/a holds another study" in refused.stderr
    for argument in ("study.name=b", "study.resume=outputs/b"):
        refused = study(tmp_path, "workload.size=tiny", argument)
        assert refused.returncode == 2 and "outputs/b holds the themes of another study" in refused.stderr


def test_a_setting_that_one_theme_cannot_take_names_the_theme(tmp_path: Path) -> None:
    refused = study(tmp_path, "+experiment=claims", "workload=mlp", "study.dry_run=true")
    assert refused.returncode == 2 and "theme fragmentation: " in refused.stderr


@pytest.mark.parametrize(
    ("name", "argument"), [("a-b", "study.resume=outputs/a-b"), ("tü x", "\"study.resume='outputs/tü x'\"")]
)
def test_the_way_to_resume_can_be_pasted(name: str, argument: str) -> None:
    options = StudyOptions(name, 0, None, None, None, True, False, None)
    pasted = session.resumed_by(options, Path("outputs") / name)
    assert shlex.split(pasted) == shlex.split(argument)
