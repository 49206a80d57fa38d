"""ARTIFACT.md and CITATION.cff: what others need to check and repeat a study.

ARTIFACT.md answers the checklists of ACM's artifact badges, MLSys' artifact appendix and NeurIPS' paper checklist.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
from pathlib import Path
from typing import Any

import jinja2
import yaml

from analysis import method, words
from analysis.frames import records
from analysis.load import Journals
from analysis.report import commands, machines
from analysis.tables import Tables

SOFTWARE = "accelerator-study"

#: What is summed: the evidence and all that follows from it, without logs (they may hold paths).
SUMMED = ("manifest.yaml", "journal/*.jsonl", "trials.*", "tables/*", "figures/*", "report.html", "paper.pdf")

#: Blocks whose order is printed; manifest.yaml has all.
SHOWN_BLOCKS = 3


def write_artifact(journals: Journals, tables: Tables, folder: Path) -> None:
    """ARTIFACT.md into `folder`, after everything that its checksums cover."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("analysis"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["line"] = _one_line
    page = environment.get_template("artifact.md.j2").render(**context(journals, tables, folder))
    (folder / "ARTIFACT.md").write_text(page, encoding="utf-8", errors="replace")


def context(journals: Journals, tables: Tables, folder: Path) -> dict[str, Any]:
    """What the template says, under the names that it uses."""
    return {
        "title": _title(journals),
        "software": _software_version(journals),
        "commands": commands(journals),
        "machines": machines(journals),
        "freeze": freeze(),
        "orders": _orders(journals),
        "seeds": words.listed(session.design.get("seed") for session in journals.sessions),
        "paragraphs": method.paragraphs(journals, tables),
        "compute": method.compute(journals),
        "exclusions": method.exclusions(journals, tables),
        "spent": _spent(journals),
        "expected": [pair["sentence"] for pair in records(tables.pairs)],
        "margin": tables.pairs["margin_ratio"].iloc[0] if len(tables.pairs) else 0.02,
        "sums": checksums(folder),
        "frameworks": words.listed(tables.trials["framework"].unique()),
        "devices": words.listed(journals.trials["device"].unique()),
    }


def freeze() -> list[str]:
    """name==version of every distribution of the environment that this analysis runs in, by name, each once."""
    found = {
        (one.metadata["Name"] or "").lower().replace("_", "-"): one.version
        for one in importlib.metadata.distributions()
    }
    return [f"{name}=={version}" for name, version in sorted(found.items()) if name]


def checksums(folder: Path) -> list[tuple[str, str]]:
    """(SHA-256, path below `folder`) of what the study consists of, by path; `sha256sum -c` reads it."""
    paths = sorted({path for pattern in SUMMED for path in folder.glob(pattern)})
    return [(hashlib.sha256(path.read_bytes()).hexdigest(), path.relative_to(folder).as_posix()) for path in paths]


def write_citation(journals: Journals, path: Path) -> None:
    """CITATION.cff (format 1.2.0) of the results, naming the software that made them.

    A study does not know who ran it: its authors are named as such, for them to fill in.
    """
    dates = sorted(session.started_utc[:10] for session in journals.sessions)
    software = {"type": "software", "title": SOFTWARE, "authors": [{"name": f"the authors of {SOFTWARE}"}]}
    version = _software_version(journals)
    citation = {
        "cff-version": "1.2.0",
        "message": "If you use these results, cite them and the software that measured them.",
        "type": "dataset",
        "title": f"JAX and TensorFlow compared: study {_title(journals)}",
        "authors": [{"name": "the people who ran this study (fill in your names)"}],
        **({"date-released": dates[-1]} if dates else {}),
        "references": [{**software, **({"version": version} if version else {})}],
    }
    path.write_text(yaml.safe_dump(citation, sort_keys=False, allow_unicode=True, width=120), encoding="utf-8")


def _title(journals: Journals) -> str:
    return words.listed(session.study for session in journals.sessions) or words.listed(journals.folders)


def _software_version(journals: Journals) -> str:
    """As recorded when the trials ran, not as installed where they are analysed."""
    found = ((session.provenance.get("versions") or {}).get(SOFTWARE) for session in journals.sessions)
    return words.listed(version for version in found if version)


def _orders(journals: Journals) -> list[list[str]]:
    """The trial ids of the first blocks in the order in which they ran."""
    table = journals.trials[journals.trials["start"] != "not launched"]
    blocks = [block["trial_id"].tolist() for _, block in table.groupby(["_folder", "block"], sort=True)]
    return blocks[:SHOWN_BLOCKS]


def _spent(journals: Journals) -> list[dict[str, Any]]:
    """Trials and process time by outcome; replaced attempts are lines of their own."""
    rows = []
    for name, table in (("", journals.trials), ("replaced: ", journals.superseded)):
        grouped = table.assign(seconds=table["elapsed_seconds"].fillna(0.0)).groupby("outcome", sort=True)["seconds"]
        for outcome, seconds in grouped:
            rows.append(
                {"outcome": f"{name}{outcome}", "trials": len(seconds), "time": words.duration(float(seconds.sum()))}
            )
    return rows


def _one_line(text: Any) -> str:
    return " ".join(str(text).split())
