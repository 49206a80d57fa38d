"""Compiled evidence end to end: real studies, real compilers, no device. One chip for most, tiny steps only."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runners import lines
from runners.records import OutcomeKind, TrialRecord


def installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


needs_libtpu = pytest.mark.skipif(not installed("libtpu"), reason="libtpu is not installed")
needs_cuda = pytest.mark.skipif(not installed("jax-cuda12-pjrt"), reason="the CUDA compiler is not installed")


def study(folder: Path, name: str, *arguments: str, **variables: str) -> tuple[dict[str, TrialRecord], str]:
    """The records of a study by framework, chip and compile, and what it printed; plans are cached under `folder`."""
    workload = [] if any(one.startswith("workload=") for one in arguments) else ["workload=mlp"]
    size = [] if any(one.startswith("workload.size=") for one in arguments) else ["workload.size=tiny"]
    command = [sys.executable, "-P", "-m", "study", "-m", *workload, *size, *arguments]
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), **variables}
    done = subprocess.run(
        [*command, f"study.name={name}"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    found = {}
    for path in (folder / "outputs" / name / "journal").glob("*.jsonl"):
        for line in path.read_text().splitlines():
            body = lines.decode_line(line)
            if body["kind"] == "trial":
                record = lines.trial_from_dict(body)
                spec = record.spec
                found[f"{spec.framework.name} {spec.framework.compile} {spec.device.chip}"] = record
    assert found, done.stderr
    return found, done.stdout + done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture(scope="module")
def planned(folder: Path) -> dict[str, TrialRecord]:
    return study(folder, "first", "framework=jax,tf,tf_graph", "device=tpu", "chip=v5e", "study.blocks=3")[0]


@needs_libtpu
def test_both_frameworks_plan_the_same_arguments_results_and_products(planned: dict[str, TrialRecord]) -> None:
    assert [record.outcome.kind for record in planned.values()] == [OutcomeKind.OK] * 3
    plans = [planned[name].plan for name in ("jax jit v5e", "tf xla v5e")]
    assert len({(one.argument_bytes, one.output_bytes, one.alias_bytes, one.matrix_flops) for one in plans if one}) == 1
    for record in planned.values():
        plan, counts = record.plan, record.report.counts
        assert plan is not None and plan.matrix_flops == counts.own_matrix_flops == 97_280
        assert plan.peak_bytes == sum(
            (plan.argument_bytes, plan.output_bytes, -plan.alias_bytes, plan.temp_bytes, plan.code_bytes)  # type: ignore[arg-type, operator]
        )
        # weights and biases of 2442 float32 are given to their successors, padded to the chip's tiles
        assert plan.alias_bytes is not None and plan.alias_bytes >= 4 * 2442
        assert plan.usable_bytes == 15.75 * 2**30 and plan.fits and plan.predicted_step_seconds
        assert record.report.timings.window_seconds == [] and record.report.memory == {}


@needs_libtpu
def test_what_lowered_it_and_what_is_the_same_plan_is_said(planned: dict[str, TrialRecord]) -> None:
    bridges = {name: record.plan.bridge for name, record in planned.items() if record.plan}
    assert bridges["jax jit v5e"] == "jax" and bridges["tf xla v5e"] == "tensorflow host bridge"
    graph, xla = planned["tf graph v5e"], planned["tf xla v5e"]
    assert graph.plan and xla.plan and graph.plan.module_hash == xla.plan.module_hash
    assert sorted([graph.plan.cached, xla.plan.cached]) == [False, True]
    assert any("plan of framework=tf" in warning for warning in graph.report.warnings)


@needs_libtpu
def test_a_second_run_compiles_nothing(folder: Path, planned: dict[str, TrialRecord]) -> None:
    again, printed = study(folder, "second", "framework=jax,tf", "device=tpu", "chip=v5e")
    for name, record in again.items():
        before = planned[name].plan
        assert record.plan and record.plan.cached and record.report.timings.compile_seconds is None
        assert before and record.plan.module_hash == before.module_hash
        assert (record.plan.temp_bytes, record.plan.peak_bytes) == (before.temp_bytes, before.peak_bytes)
    assert "libtpu" not in printed and "WARNING" not in printed


@needs_libtpu
def test_a_compilation_that_is_cut_off_leaves_nothing_behind(folder: Path, tmp_path: Path) -> None:
    arguments = [
        "framework=tf",
        "device=tpu",
        "workload.batch_size=24",
        "protocol.deadlines.compile=0.1",
    ]  # a plan gets twice that
    found, _ = study(folder, "late", *arguments, TMPDIR=str(tmp_path))
    outcome = found["tf xla v5e"].outcome
    assert (outcome.kind, outcome.reason) == ("timeout", "deadline of 0.2 s for the phase compile")
    assert "protocol.deadlines.PHASE sets a longer one" in outcome.text
    assert list(tmp_path.iterdir()) == []


@needs_libtpu
def test_what_is_too_large_for_one_chip_is_refused_there_and_fits_another(folder: Path) -> None:
    arguments = ["workload=matmul", "workload.shape.size=128", "workload.batch_size=20000000", "framework=jax"]
    found, _ = study(folder, "large", *arguments, "device=tpu", "chip=v5e,v5p", "workload.precision=bfloat16")
    refused, fits = found["jax jit v5e"], found["jax jit v5p"]
    assert (refused.outcome.kind, refused.outcome.reason, refused.outcome.phase) == ("oom", "compile", "compile")
    # x and its successor, 20,000,000 rows of 128 float32 each
    assert refused.outcome.bytes_asked == pytest.approx(2 * 20_000_000 * 128 * 4, rel=0.01)
    assert refused.outcome.bytes_available == 15.75 * 2**30
    assert refused.plan is None and fits.plan is not None and fits.plan.fits


def test_the_cpu_compiler_tells_when_memory_is_live(folder: Path) -> None:
    found, _ = study(folder, "host", "framework=jax,tf,tf_graph", "evidence=compiled", "allocation=default,platform")
    for name in ("jax jit None", "tf xla None"):
        plan = found[name].plan
        if plan is None:  # the last record of the name is that of the mode
            assert found[name].outcome.reason == "mode acts at run time"
            continue
        assert plan.live_bytes and plan.largest_buffers and plan.usable_bytes is None
        assert max(plan.live_bytes) <= plan.peak_bytes + 1024  # type: ignore[operator]
    assert found["tf graph None"].outcome.kind is OutcomeKind.NOT_APPLICABLE


@needs_cuda
def test_the_cuda_compiler_plans_for_a_gpu_that_is_not_there(folder: Path) -> None:
    found, _ = study(folder, "cuda", "framework=jax,tf,tf_graph", "device=gpu", "chip=h100")
    plans = [found[name].plan for name in ("jax jit h100", "tf xla h100")]
    assert all(plan and plan.live_bytes and plan.flops_source == "lowered module" for plan in plans)
    assert len({(plan.argument_bytes, plan.output_bytes) for plan in plans if plan}) == 1
    assert [found[name].start for name in ("jax jit h100", "tf xla h100")] == ["zygote"] * 2
    assert not any(record.report.warnings for record in found.values())
    assert found["tf graph h100"].outcome.reason == "not compiled as a whole"


@needs_cuda
def test_a_product_that_tritons_default_tiles_do_not_fit_is_left_to_cublas(folder: Path) -> None:
    """32 × 197 rows, as in ViT: XLA's compiler refuses them where it cannot tune."""
    asked = ["workload=vit_b16", "workload.size=paper", "workload.shape.layers=1", "framework=jax"]
    found, _ = study(folder, "tiles", *asked, "device=gpu", "chip=h100")
    (record,) = found.values()
    assert record.outcome.kind is OutcomeKind.OK and record.plan is not None
    assert record.report.warnings == [record.plan.note] and "without Triton's products" in record.plan.note


@needs_libtpu
def test_the_largest_batch_is_searched_on_real_compilations(folder: Path) -> None:
    arguments = ["workload=elementwise", "workload.shape.width=1048576", "workload.batch_size=1000", "framework=jax"]
    found, printed = study(folder, "search", *arguments, "device=tpu", "study.search=batch_size")
    assert "the largest batch that fits is" in printed
    largest = int(printed.partition("the largest batch that fits is ")[2].split()[0])
    # x, updated in place, and y: two rows of 4 MiB an example, in 15.75 GiB; a chip's tile holds 8 rows
    assert largest == pytest.approx(15.75 * 2**30 / (2 * 4 * 2**20), rel=0.01)
    assert found
