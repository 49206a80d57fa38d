"""Allocation modes read back from real processes, and host memory against bytes planted on purpose."""

from __future__ import annotations

import ctypes.util
import json
import subprocess
import sys

import pytest

from runners.probes import allocation, host
from runners.probes.mechanism import MECHANISMS
from runners.records import AllocationResult
from runners.specs import AllocationSpec
from tests.runners.harness import LIMIT_LOG, MIB, RETAIN, ROOT, environment, run_script


def library(name: str) -> str:
    found = ctypes.util.find_library(name)
    return found or pytest.skip(f"lib{name} is not installed")


@pytest.mark.parametrize(
    ("framework", "extra", "arguments", "effective"),
    [
        ("jax", {}, [], "posix_memalign"),
        ("jax", RETAIN, [], "glibc_retain"),
        ("tf", {}, [], "mkl_pool"),
        ("tf", {"TF_ONEDNN_USE_SYSTEM_ALLOCATOR": "1"}, [], "posix_memalign"),
        ("tf", {"TF_CPU_ALLOCATOR_USE_BFC": "1", **LIMIT_LOG}, [str(256 * MIB)], "bfc"),
        (
            "tf",
            {"TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPU_BFC_MEM_LIMIT_IN_MB": "256", **LIMIT_LOG},
            [str(256 * MIB + 5)],
            "bfc_limit",
        ),
    ],
    ids=["jax", "jax-retain", "tf", "tf-system", "tf-bfc", "tf-bfc-limit"],
)
def test_the_mechanism_is_read_back(framework, extra, arguments, effective) -> None:
    result = run_script("probe_mode.py", framework, *arguments, framework=framework, extra=extra)
    assert result["effective"] == effective
    assert effective in MECHANISMS
    if effective == "posix_memalign":
        assert result["live_peak"] is None  # statistics that are not collected are no zeros
    else:
        assert result["live_peak"] is None or result["live_peak"] < 4096  # the probe leaves no peak behind


@pytest.mark.parametrize(
    ("name", "soname"), [("tcmalloc", "tcmalloc_minimal"), ("jemalloc", "jemalloc"), ("mimalloc", "mimalloc")]
)
def test_a_preloaded_malloc_is_recognised(name: str, soname: str) -> None:
    result = run_script("probe_mode.py", "jax", framework="jax", extra={"LD_PRELOAD": library(soname)})
    assert (result["effective"], result["device_allocator"], result["host_allocator"]) == (name, "posix_memalign", name)


@pytest.mark.parametrize("framework", ["jax", "tf"])
def test_jemalloc_is_told_apart_by_what_it_keeps(framework: str) -> None:
    tuned = {"MALLOC_CONF": "oversize_threshold:0,dirty_decay_ms:-1,muzzy_decay_ms:-1"}
    result = run_script(
        "probe_mode.py", framework, framework=framework, extra={"LD_PRELOAD": library("jemalloc"), **tuned}
    )
    assert (result["effective"], result["host_allocator"]) == ("jemalloc_retain", "jemalloc_retain")
    assert result["readings"]["kept_bytes"] >= 0.9 * 64 * MIB


def test_a_bfc_pool_is_read_from_the_log() -> None:
    extra = {"TF_CPU_ALLOCATOR_USE_BFC": "1", **LIMIT_LOG, "TF_CPP_VMODULE": "process_state=2,bfc_allocator=1"}
    result = run_script("probe_mode.py", "tf", framework="tf", extra=extra)
    # the probe holds 1,000 and 300,000 bytes at once: one first region of 2 MiB holds both
    assert (result["effective"], result["readings"]["logged_pool_bytes"]) == ("bfc", 2 * MIB)


def test_a_mode_that_is_not_effective_is_invalid_and_names_both() -> None:
    result = AllocationResult("mkl_pool", "mkl_pool", "glibc", {})
    allocation.require_accepted(AllocationSpec("default"), result)
    with pytest.raises(allocation.TrialFault, match="allocation=growth asks for bfc, but mkl_pool serves") as caught:
        allocation.require_accepted(AllocationSpec("growth", accepts=("bfc",)), result)
    assert caught.value.kind == "invalid"


@pytest.mark.parametrize("extra", [{}, RETAIN], ids=["glibc", "retain"])
@pytest.mark.parametrize("planted", [64 * 1024, 3 * MIB, 200 * MIB])
def test_a_short_spike_in_a_thread_is_the_peak(planted: int, extra: dict[str, str]) -> None:
    result = run_script("planted_bytes.py", str(planted), extra=extra)
    assert (result["problem"], result["warnings"]) == (None, [])
    assert abs(result["risen"] - planted) <= result["bound"] + 256 * 1024  # a thread's own stack and arena


def test_nothing_is_inherited_from_a_parent_that_touched_a_gibibyte() -> None:
    direct = run_script("planted_bytes.py", str(MIB))
    code = (
        "import subprocess, sys; block = bytearray(2**30); block[::4096] = b'x' * 2**18; "
        "sys.exit(subprocess.call(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, sys.executable, "tests/runners/planted_bytes.py", str(MIB)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(""),
        check=True,
    )
    big_parent = json.loads(done.stdout)
    assert abs(big_parent["baseline"] - direct["baseline"]) < 4 * MIB
    assert big_parent["risen"] < MIB + big_parent["bound"] + 256 * 1024


def test_the_peak_error_bound_grows_as_cpus_squared() -> None:
    assert host.peak_error_bytes(cpus=2) == 2 * 32 * host.PAGE_BYTES
    assert host.peak_error_bytes(cpus=64) == 2 * 64**2 * host.PAGE_BYTES
