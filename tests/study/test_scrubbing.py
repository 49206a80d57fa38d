"""Records hold neither this machine's name nor the folders of the user, the study and the interpreter."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from runners.lines import encode_line
from runners.records import Quantity
from runners.specs import AllocationSpec, FrameworkSpec
from study import provenance
from study.provenance import each_text, provenance_hash, scrub, scrub_folders, scrubbed
from tests.study import samples


@pytest.fixture(autouse=True)
def named(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine called atlas and a user whose home is /home/ada."""
    monkeypatch.setattr(socket, "gethostname", lambda: "atlas")
    monkeypatch.setenv("HOME", "/home/ada")
    provenance._folders.cache_clear()
    yield
    provenance._folders.cache_clear()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/ada/data/x.npy is missing on atlas", "~/data/x.npy is missing on <host>"),
        (f"{Path.cwd()}/page.py", "./page.py"),
        (f"{sys.prefix}/lib/x.py line 3", "<environment>/lib/x.py line 3"),
        ("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", "libjemalloc.so.2"),
        ("/usr/lib/liba.so:/opt/b-1.0/libb.so.2.1", "liba.so:libb.so.2.1"),
        ("atlases of atlas-2", "atlases of atlas-2"),
        ("Rss of /proc/self/smaps_rollup", "Rss of /proc/self/smaps_rollup"),
        ("examples/s", "examples/s"),
    ],
)
def test_texts(text: str, expected: str) -> None:
    assert scrub(text) == expected


def test_what_was_asked_keeps_a_word_that_is_also_the_machines_name() -> None:
    assert scrub_folders("framework=atlas") == "framework=atlas"


def test_a_whole_record_holds_nothing_of_the_place() -> None:
    home = "/home/ada"
    record = samples.record(
        0,
        framework=FrameworkSpec("fake", "jit", f"{home}/tf/bin/python"),
        allocation=AllocationSpec("jemalloc", environment={"LD_PRELOAD": "/usr/lib/libjemalloc.so.2"}),
        settings={"framework": "fake", "framework.python": f"{home}/tf/bin/python", "workload.batch_size": 8},
    )
    record.report.warnings.append(f"{home}/cache was cold on atlas")
    record.report.knobs["xla_flags"] = f"--xla_dump_to={os.fspath(Path.cwd())}/dump"
    record.report.memory["host_peak"] = Quantity(5, "VmHWM of /proc/self/status")
    record = replace(record, outcome=replace(record.outcome, text=f"No such file: {home}/x"))
    clean = scrubbed(record)
    line = encode_line(clean)
    for secret in (home, str(Path.cwd()), sys.prefix, "/usr/lib", "cold on atlas"):
        assert secret not in line
    assert clean.spec.settings["framework.python"] == "~/tf/bin/python"
    assert clean.report.memory["host_peak"].value == 5
    assert (clean.spec.trial_id, clean.outcome.kind) == (record.spec.trial_id, record.outcome.kind)
    assert record.spec.settings["framework.python"] == f"{home}/tf/bin/python", "the record itself is left alone"


def test_kinds_of_values_stay() -> None:
    value = {"a": ("x", 1, None, True), "b": ["y", 2.5]}
    assert each_text(value, str.upper) == {"a": ("X", 1, None, True), "b": ["Y", 2.5]}


def test_nodes_alike_are_one_kind_of_machine_though_their_kernels_count_some_kib_apart() -> None:
    facts = provenance.provenance()

    def hashed(memory_bytes: int, swap_bytes: int = 0) -> str:
        machine = {**facts["machine"], "memory_bytes": memory_bytes, "swap_bytes": swap_bytes}
        return provenance_hash({**facts, "machine": machine})

    node = 32_695_152 * 1024  # MemTotal of a node of 32 GiB
    assert hashed(node) == hashed(node + 3_072 * 1024) == hashed(32 * 2**30)
    assert len({hashed(node), hashed(node // 2), hashed(node, 2**33), hashed(2 * node)}) == 4
    assert facts["machine"]["memory_bytes"] == psutil.virtual_memory().total
