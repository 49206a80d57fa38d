"""The matrix of allocation modes: every level of conf/allocation, and how `study modes` shows it."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from runners.probes.mechanism import MECHANISMS
from runners.specs import AllocationSpec, DeviceSpec, FrameworkSpec
from study import conflicts, devices, help, launch, matrix, modes
from study.__main__ import conf_folder
from study.config import entry_of
from study.design import allocation_spec
from study.errors import RequestError
from study.schema import Allocation, AllocationEntry
from tests.study import samples

LEVELS = help.levels("allocation")
GIB = 2**30

#: The table of the canonical modes, for a device of 10 GiB and f = 0.3, worked out by hand: 0.3 · 10 GiB = 3072 MiB.
#: Variables that only log, or that belong to the collection of garbage, are left out.
CANONICAL = {
    ("jax", "preallocate"): ({"XLA_PYTHON_CLIENT_PREALLOCATE": "true", "XLA_CLIENT_MEM_FRACTION": "0.300000"}, {}),
    ("tf", "preallocate"): ({}, {"memory_limit_mib": "3072"}),
    ("jax", "growth"): ({"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "XLA_CLIENT_MEM_FRACTION": "0.300000"}, {}),
    ("tf", "growth"): ({"TF_FORCE_GPU_ALLOW_GROWTH": "true"}, {"memory_limit_mib": "3072"}),
    ("jax", "async_reserved"): (
        {
            "XLA_PYTHON_CLIENT_ALLOCATOR": "cuda_async",
            "XLA_PYTHON_CLIENT_PREALLOCATE": "true",
            "XLA_CLIENT_MEM_FRACTION": "0.300000",
        },
        {},
    ),
    ("tf", "async_reserved"): (
        {"TF_GPU_ALLOCATOR": "cuda_malloc_async", "TF_CUDA_MALLOC_ASYNC_SUPPORTED_PREALLOC": "-1"},
        {"memory_limit_mib": "3072"},
    ),
}
UNCAPPED = {
    ("jax", "growth"): ({"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "XLA_CLIENT_MEM_FRACTION": "1.0"}, {}),
    ("tf", "growth"): ({"TF_FORCE_GPU_ALLOW_GROWTH": "true"}, {"memory_growth": True}),
    ("jax", "platform"): ({"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}, {}),
    ("tf", "platform"): ({"TF_GPU_ALLOCATOR": "cuda_malloc"}, {}),
    ("jax", "async_elastic"): (
        {"XLA_PYTHON_CLIENT_ALLOCATOR": "cuda_async", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
        {},
    ),
    ("tf", "async_elastic"): ({"TF_GPU_ALLOCATOR": "cuda_malloc_async"}, {}),
    ("jax", "vmm"): ({"XLA_PYTHON_CLIENT_ALLOCATOR": "vmm"}, {}),
    ("jax", "default"): ({}, {}),
    ("tf", "default"): ({}, {}),
}


@pytest.fixture(scope="module")
def cells() -> dict[tuple[str, str, str], matrix.Cell]:
    return {(cell.mode, cell.framework, cell.device): cell for cell in matrix.matrix([], [])}


def test_the_canonical_modes_are_there() -> None:
    assert set(LEVELS) == {
        "default", "preallocate", "growth", "platform", "async_elastic", "async_reserved", "vmm", "unified",
        "glibc_retain", "jemalloc", "jemalloc_retain", "tcmalloc", "mimalloc",
    }  # fmt: skip


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_answers_for_both_frameworks_on_every_device(level: str, cells) -> None:
    """The contract of a level: what is set with mechanisms that exist, or why it has no meaning, and its sources."""
    for framework in ("jax", "tf"):
        for device in ("cpu", "gpu", "tpu"):
            cell = cells[level, framework, device]
            assert (cell.why_not is None) or (len(cell.why_not.split()) >= 5 and not cell.settings)
            assert set(cell.accepts) <= set(MECHANISMS)
            if cell.why_not is None and level != "default":
                assert cell.accepts, "a mode that accepts anything proves nothing"
    head = (conf_folder() / f"allocation/{level}.yaml").read_text().partition("name:")[0]
    assert re.search(r"\.(cc|h|py|html|yaml)\b|\w+\(3\)|readme|documentation", head), "a fact without its source"


#: Where a mode means something; anywhere else there is a reason.
HOST = {(framework, "cpu") for framework in ("jax", "tf")}
GPU = {(framework, "gpu") for framework in ("jax", "tf")}
MEANS = {
    "default": HOST | GPU | {("jax", "tpu"), ("tf", "tpu")},
    "preallocate": GPU,
    "growth": GPU | {("tf", "cpu")},
    "platform": GPU | HOST,
    "async_elastic": GPU,
    "async_reserved": GPU,
    "vmm": {("jax", "gpu")},
    "unified": GPU,
    **dict.fromkeys(("glibc_retain", "jemalloc", "jemalloc_retain", "tcmalloc", "mimalloc"), HOST),
}


@pytest.mark.parametrize("level", LEVELS)
def test_a_mode_has_a_reason_wherever_it_means_nothing(level: str, cells) -> None:
    found = {(name, device) for (mode, name, device), cell in cells.items() if mode == level and cell.why_not is None}
    assert found == MEANS[level]


@pytest.mark.parametrize(
    ("key", "why_not"),
    [
        (("async_elastic", "jax", "cpu"), "cudaMallocAsync is a pool of the CUDA driver"),
        (("async_reserved", "tf", "tpu"), "there is no preallocation knob on a TPU"),
        (("vmm", "tf", "gpu"), "TensorFlow offers no such allocator"),
        (("unified", "jax", "cpu"), "a CPU has one memory"),
        (("jemalloc_retain", "tf", "gpu"), "it changes no device allocation"),
        (("preallocate", "tf", "cpu"), "TensorFlow refuses memory_limit on a CPU"),
        (("growth", "tf", "tpu"), "TensorFlow refuses memory growth on a TPU"),
    ],
)
def test_the_reason_says_what_is_in_the_way(key: tuple[str, str, str], why_not: str, cells) -> None:
    assert why_not in cells[key].why_not


def spec_of(framework: str, mode: str, device: str = "gpu", **changes: object) -> AllocationSpec:
    """The mode as the study would hand it to a trial."""
    allocation = matrix.level(mode)
    allocation = replace(allocation, **changes)
    condition = samples.condition(
        framework,
        device=DeviceSpec(device),
        allocation=allocation,
        entry=entry_of(allocation, framework, device),
    )
    return allocation_spec(condition)


def told(spec: AllocationSpec) -> tuple[dict[str, str], dict[str, object]]:
    quiet = ("TF_ENABLE_GPU_GARBAGE_COLLECTION", "TF_CPP_MIN_LOG_LEVEL", "TF_CPP_VMODULE")
    return {key: value for key, value in spec.environment.items() if key not in quiet}, spec.calls


@pytest.mark.parametrize(("framework", "mode"), CANONICAL)
def test_a_capped_mode_sets_what_the_sources_say(framework: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "total_memory_bytes", lambda _: 10 * GIB)
    spec = spec_of(framework, mode, fraction=0.3)
    assert told(spec) == CANONICAL[framework, mode]
    assert spec.limit_bytes == 3072 * 2**20
    if framework == "tf":
        assert spec.environment["TF_ENABLE_GPU_GARBAGE_COLLECTION"] == "false"


@pytest.mark.parametrize(("framework", "mode"), UNCAPPED)
def test_a_mode_without_a_cap_sets_what_the_sources_say(framework: str, mode: str) -> None:
    assert told(spec_of(framework, mode)) == UNCAPPED[framework, mode]


def test_tensorflows_mebibytes_are_rounded_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """⌊f·total/2²⁰⌋: a third of 1000 MiB + 1 byte is 333 MiB and a bit."""
    monkeypatch.setattr(devices, "total_memory_bytes", lambda _: 1000 * 2**20 + 1)
    assert spec_of("tf", "preallocate", fraction=1 / 3).calls == {"memory_limit_mib": "333"}


def test_unified_memory_is_oversubscribed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "total_memory_bytes", lambda _: 10 * GIB)
    jax, tf = (spec_of(name, "unified", fraction=1.5) for name in ("jax", "tf"))
    assert (jax.environment["TF_FORCE_UNIFIED_MEMORY"], jax.environment["XLA_CLIENT_MEM_FRACTION"]) == ("1", "1.500000")
    assert (tf.calls, tf.limit_bytes) == ({"gpu_memory_fraction": "1.500000"}, 15 * GIB)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            AllocationEntry(
                environment={"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.5"},
                capped_environment={"XLA_CLIENT_MEM_FRACTION": "0.5"},
            ),
            "sets both XLA_CLIENT_MEM_FRACTION and XLA_PYTHON_CLIENT_MEM_FRACTION",
        ),
        (
            AllocationEntry(uncapped_calls={"memory_growth": True, "memory_limit_mib": "5"}),
            "sets both memory_growth and memory_limit_mib",
        ),
        (
            AllocationEntry(environment={"XLA_PYTHON_CLIENT_PREALLOCATE": "FALSE"}),
            "XLA_PYTHON_CLIENT_PREALLOCATE=FALSE is not possible; it takes true, false",
        ),
        (AllocationEntry(environment={"XLA_PYTHON_CLIENT_ALLOCATOR": "banana"}), "ALLOCATOR=banana is not possible"),
        (AllocationEntry(environment={"TF_FORCE_GPU_ALLOW_GROWTH": "1"}), "it takes true, false"),
    ],
)
def test_conflicting_settings_are_refused_before_launch(entry: AllocationEntry, message: str) -> None:
    """Cases 2 and 3, where a level of one's own brings them."""
    with pytest.raises(RequestError, match=re.escape(message)):
        conflicts.require_no_conflict(entry, "conf/allocation/own.yaml")


def test_a_conflicting_level_stops_the_request() -> None:
    entry = {"environment": {"XLA_PYTHON_CLIENT_PREALLOCATE": "no"}}
    with pytest.raises(
        RequestError, match=r"conf/allocation/own\.yaml, frameworks\.jax\.gpu: XLA_PYTHON_CLIENT_PREALL"
    ):
        entry_of(Allocation("own", frameworks={"jax": {"gpu": entry}}), "jax", "gpu")


@pytest.mark.parametrize(
    ("inherited", "visible"), [(None, "0"), ("", "0"), ("3,1", "3"), ("GPU-8932f937", "GPU-8932f937")]
)
def test_a_trial_sees_one_gpu(inherited: str | None, visible: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if inherited is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", inherited)
    found = launch.environment(samples.spec(device=DeviceSpec("gpu"), framework=FrameworkSpec("jax", "jit")))
    assert (found["CUDA_VISIBLE_DEVICES"], found["CUDA_DEVICE_ORDER"]) == (visible, "PCI_BUS_ID")
    assert (found["JAX_PLATFORMS"], found["TF_CPP_MIN_LOG_LEVEL"]) == ("cuda", "0")


def test_jax_is_kept_off_the_gpu_in_a_tensorflow_trial() -> None:
    found = launch.environment(samples.spec(device=DeviceSpec("gpu"), framework=FrameworkSpec("tf", "xla")))
    assert found["JAX_PLATFORMS"] == "cpu"
    assert launch.environment(samples.spec())["CUDA_VISIBLE_DEVICES"] == "-1"


@pytest.mark.parametrize("width", [80, 140])
def test_the_table_is_whole_at_any_width(width: int, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert modes.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert [level for level in LEVELS if f"\n  {level} " not in text] == []
    for name in ("XLA_PYTHON_CLIENT_PREALLOCATE=false", "TF_CUDA_MALLOC_ASYNC_SUPPORTED_PREALLOC=-1"):
        assert name in text, "a variable is not broken across lines"
    assert "…" not in text


def test_one_mode_shows_its_proof(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    assert modes.main(["growth"]) == 0
    text = capsys.readouterr().out
    assert "read back as bfc_limit: best-fit with coalescing, growing up to the limit asked for" in text
    assert "jemalloc" not in text
    assert modes.main(["grwth"]) == 2
    assert "grwth is no allocation mode; there are default, async_elastic" in capsys.readouterr().err


def test_json_holds_every_cell_and_own_levels_stand_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert modes.main(["--json", "hydra.searchpath=[file://tests/conf]"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len([cell for cell in found if cell["mode"] != "fake"]) == len(LEVELS) * 2 * 3
    own = {cell["device"]: cell["why_not"] for cell in found if cell["mode"] == "fake"}
    assert own == {"cpu": None, "gpu": "no entry", "tpu": "no entry"}
