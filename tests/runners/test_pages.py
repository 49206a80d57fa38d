"""Every workload page: in each framework the same work as its float64 reference, and counts that others confirm."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from runners import contract, workloads
from runners.faults import TrialFault
from runners.specs import WorkloadSpec
from runners.workloads.page import DTYPES, abstract, describe, input_hash, made, normal, total_bytes
from tests.runners.harness import HERE, ROOT, environment, run_script, workload

#: Largest relative distance of a loss from the float64 reference, and of the frameworks from each other, within ten
#: steps, by the dtype's precision (float16 keeps 11 bits, bfloat16 8, and errors of single elements partly cancel).
TOLERANCE = {"float32": 1e-4, "float16": 5e-3, "bfloat16": 2e-2}
#: Keras pages need Keras on a back end, so that they are looked at in the script's processes only.
OURS = [name for name in workloads.names() if name != "keras"]
COMPILED = [name for name in OURS if workloads.load(workload(name)).COMPILED]
#: Published numbers of trained parameters: torchvision (resnet50, vit_b_16), BERT base without its head, GPT-2 124M.
PUBLISHED = {
    "resnet50": 25_557_032,
    "vit_b16": 86_567_656,
    "bert_base": 109_482_240,
    "gpt2_small": 124_439_808,
}
MODELS = [*PUBLISHED, "attention"]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What match_pages.py prints for each framework (both run at once), and what count_lowered.py counts after it."""
    folder = tmp_path_factory.mktemp("lowered")
    running = {framework: _start(framework, folder) for framework in ("jax", "tf")}
    results = {framework: _finish(child) for framework, child in running.items()}
    return {**results, "lowered": run_script("count_lowered.py", str(folder), framework="jax")}


def _start(framework: str, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, str(HERE / "match_pages.py"), framework, str(folder)]
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"}
    with (folder.parent / f"{framework}.err").open("w") as log:
        return subprocess.Popen(
            command, cwd=ROOT, env=environment(framework, quiet), stdout=subprocess.PIPE, stderr=log, text=True
        )


def _finish(child: subprocess.Popen[str]) -> Any:
    stdout, _ = child.communicate()
    assert child.returncode == 0, f"{child.args} failed; see its .err file"
    return json.loads(stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def results(outcomes: dict[str, Any]) -> dict[str, Any]:
    """Every variant of both frameworks: `compilation page mode dtype donation`."""
    return {**outcomes["jax"]["pages"], **outcomes["tf"]["pages"]}


def test_one_framework_a_process(outcomes) -> None:
    assert outcomes["jax"]["held"] == ["jax"]
    assert outcomes["tf"]["held"] == ["tensorflow"]


def test_every_page_is_tried_in_every_compilation(results) -> None:
    tried = {tuple(key.split()[:2]) for key in results}
    assert tried == {(compile, name) for compile in ("jit", "xla", "graph") for name in [*COMPILED, "keras"]}


def test_losses_follow_the_reference(results) -> None:
    for key, result in results.items():
        name, tolerance = key.split()[1], TOLERANCE[key.split()[3]]
        count = len(result["reference"])
        assert count == (0 if name == "keras" else 1 if " train " in key else len(result["losses"])), key
        np.testing.assert_allclose(result["losses"][:count], result["reference"], rtol=tolerance, atol=0, err_msg=key)


def test_the_frameworks_do_the_same_work(results) -> None:
    compared = 0
    for key, result in results.items():
        jax = results.get(key.replace(key.split()[0], "jit", 1))
        if jax is None:
            continue
        assert jax["hash"] == result["hash"]
        compared += jax is not result
        tolerance = TOLERANCE[key.split()[3]]
        np.testing.assert_allclose(result["losses"], jax["losses"], rtol=tolerance, atol=0, err_msg=key)
    assert compared > 60


def test_losses_move_so_that_they_prove_a_match(results) -> None:
    for key, result in results.items():
        losses = np.array(result["losses"][:10])
        assert np.median(np.abs(np.diff(losses)) / np.abs(losses[1:])) > (2e-3 if "keras" in key else 1e-2), key


def test_gradients_follow_finite_differences(results) -> None:
    slopes = {key: result["slope"] for key, result in results.items() if result["slope"]}
    assert {key.split()[1] for key in slopes} == set(MODELS)
    for key, (own, differences) in slopes.items():
        assert own == pytest.approx(differences, rel=1e-3), key


def test_the_fence_depends_on_every_output(results) -> None:
    for key, result in results.items():
        assert result["fence"] == pytest.approx(result["first_elements"], rel=1e-3, abs=1e-4), key


def test_a_step_is_traced_as_often_as_declared(results) -> None:
    for key, result in results.items():
        assert result["traces"] == result["declared_traces"], key
    traces = {key: result["traces"] for key, result in results.items() if "dynamic_shapes" in key}
    assert {" ".join([key.split()[0], key.split()[2]]): count for key, count in traces.items()} == {
        "jit each_shape": 20,
        "graph each_shape": 20,
        "xla signature": 1,
        "graph reduce_retracing": 2,
        "graph signature": 1,
    }
    assert {result["traces"] for key, result in results.items() if "dynamic_shapes" not in key} == {1}


def test_own_flops_are_those_of_the_trace_and_of_the_lowered_module(results, outcomes) -> None:
    for key, result in results.items():
        if "dynamic_shapes" in key:
            continue
        (needed, constant, ignored), counted = result["work"], result["counted"]
        assert constant == [] and ignored == [], key
        assert needed == pytest.approx(counted, rel=0.01), key
    lowered = outcomes["lowered"]
    assert {key.split()[1] for key in lowered} == set(COMPILED) - {"dynamic_shapes"}
    for key, flops in lowered.items():
        counted = next(result["counted"] for variant, result in results.items() if variant.startswith(key))
        assert flops == pytest.approx(counted, rel=0.01), key


@pytest.mark.parametrize("name", OURS)
def test_inputs_depend_on_the_seed_and_on_nothing_else(name: str) -> None:
    page = workloads.load(workload(name))
    first, again, other = (input_hash(page.inputs(workload(name), seed)) for seed in (1, 1, 2))
    assert first == again
    assert (first != other) is (name in COMPILED)  # the others hold nothing that was drawn


def test_shapes_are_known_before_numbers(results) -> None:
    assert all(result["abstract"] for result in results.values())
    wide = describe(0, {"x": normal((10**6, 10**6), "bfloat16")})
    assert abstract(wide.state) == {"x": ((10**6, 10**6), "bfloat16")}
    assert total_bytes(wide.state) == 2 * 10**12


@pytest.mark.parametrize("name", [*PUBLISHED])
def test_published_models_have_their_published_parameters(name: str) -> None:
    page, spec = workloads.load(workload(name)), workload(name, "paper")
    problem, counts = page.inputs(spec, 0), page.counts(spec)
    elements = {key: int(np.prod(array.shape)) for key, array in problem.state.items() if key.startswith("p/")}
    assert counts.parameters == sum(elements.values()) == PUBLISHED[name]


@pytest.mark.parametrize("name", COMPILED)
@pytest.mark.parametrize("size", ["tiny", "default", "paper"])
def test_parameters_and_bytes_are_those_of_the_arrays(name: str, size: str) -> None:
    page, spec = workloads.load(workload(name)), workload(name, size)
    problem, counts = page.inputs(spec, 0), page.counts(spec)
    trained = [array for key, array in problem.state.items() if name in ("mlp", "embedding", "dynamic_shapes")]
    trained += [array for key, array in problem.state.items() if key.startswith("p/")]
    assert counts.parameters == sum(int(np.prod(array.shape)) for array in trained)
    batches = sum(total_bytes(batch) for batch in problem.batches) // len(problem.batches)
    if name == "embedding":  # only the rows that are gathered move
        gathered = int(np.prod(problem.batch["ids"].shape)) * spec.shape["width"] * 4
        assert counts.bytes == 3 * gathered + batches
    else:
        assert counts.bytes == 2 * total_bytes(problem.state) + batches
    assert counts.flops >= counts.matrix_flops >= 0


def _flops(name: str, **changes: Any) -> int:
    spec = workload(name, **changes)
    return workloads.load(spec).counts(spec).flops


def test_flops_against_figures_worked_out_by_hand() -> None:
    # mlp tiny: layers 32→32, 32→32, 32→10 on 8 rows: products 2·8·(1024 + 1024 + 320), times 3, less the first
    # layer's input gradient 2·8·1024
    assert _flops("mlp") == 3 * 37_888 - 16_384 == 97_280
    # matmul tiny: 8×16 by 16×16 is 2·8·256 = 4,096; the loss 3·128
    assert _flops("matmul") == 4_096 + 384
    # elementwise tiny: 8·64 elements, 5 each; reduction: 9 each
    assert (_flops("elementwise"), _flops("reduction")) == (2_560, 4_608)
    # attention tiny, 2·16 tokens of width 32: q, k, v 2·32·32·96, out 2·32·32·32; scores and mixture 2·2·16·16·32 each;
    # three times that, but for the gradient of x
    dense, mixed = 2 * 32 * 32 * 96 + 2 * 32 * 32 * 32, 2 * 2 * 2 * 16 * 16 * 32
    assert _flops("attention") == 3 * (dense + mixed) - 2 * 32 * 32 * 96
    assert _flops("attention", mode="infer") == dense + mixed
    # conv2d tiny: a 3×3 window has 3·8 − 2 taps a side of 8 inside; three convolutions of 2 images, 4→4 channels
    assert _flops("conv2d") == 3 * 2 * 2 * 22 * 22 * 4 * 4
    # scan tiny: 8 products of 4×16 by 16×16, and 3 an element of 8·4·16
    assert _flops("scan") == 8 * 2 * 4 * 256 + 3 * 512


def test_resnet50_costs_what_is_published() -> None:
    # 4.09 GMAC an image at 224² (torchvision), with every tap counted; taps on the padding are 3.5 % of it
    spec = workload("resnet50", "paper", mode="infer", batch_size=1)
    assert workloads.load(spec).counts(spec).flops == pytest.approx(2 * 4.09e9 * (1 - 0.035), rel=0.002)


def test_mlp_reference_follows_finite_differences() -> None:
    page, spec = workloads.load(workload("mlp")), workload("mlp")
    problem = page.inputs(spec, 3)
    before = {name: made(array).astype(np.float64) for name, array in problem.state.items()}
    (after, _), step = next(page.reference(spec, problem)), 1e-6
    for name, index in (("w0", (3, 5)), ("b1", (2,)), ("w2", (7, 1))):
        losses = []
        for sign in (1, -1):
            moved = {key: array.copy() for key, array in before.items()}
            moved[name][index] += sign * step
            losses.append(next(page.reference(spec, type(problem)(moved, problem.batch)))[1])
        gradient = (losses[0] - losses[1]) / (2 * step)
        assert (before[name] - after[name])[index] / page.RATE == pytest.approx(gradient, rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("size", [16, 24, 48, 100])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_chain_of_products_keeps_its_length(size: int, dtype: str) -> None:
    spec = workload("matmul", shape={"size": size}, dtype=dtype)
    page = workloads.load(spec)
    problem = page.inputs(spec, 0)
    w = made(problem.batch["w"]).astype(np.float64)
    np.testing.assert_array_equal(w @ w.T, np.eye(size))
    states = [state["x"] for state, _ in islice(page.reference(spec, problem), 1000)]
    np.testing.assert_allclose(np.linalg.norm(states[-1]), np.linalg.norm(states[0]), rtol=1e-9)


LEVELS = sorted(path.stem for path in (ROOT / "conf/workload").glob("*.yaml"))
KEYS = ["name", "size", "batch_size", "dtype", "donate", "precision"]
OWN_KEYS = {"model", "mode", "modes", "tracing", "path"}


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_is_whole(level: str) -> None:
    conf = yaml.safe_load((ROOT / f"conf/workload/{level}.yaml").read_text())
    assert list(conf)[: len(KEYS)] == KEYS
    assert list(conf)[-2:] == ["shape", "sizes"]
    assert set(list(conf)[len(KEYS) : -2]) <= OWN_KEYS
    assert conf["name"] in [*workloads.names(), "file"]
    assert list(conf["sizes"]) == ["tiny", "default", "paper"]
    for sizes in conf["sizes"].values():
        assert set(sizes) == {"batch_size", *conf["shape"]}


def test_every_page_has_a_level_of_its_name() -> None:
    assert set(workloads.names()) <= set(LEVELS)


@pytest.mark.parametrize("name", OURS)
def test_a_page_offers_float32_at_least_and_says_what_it_does(name: str) -> None:
    page = workloads.load(workload(name))
    assert "float32" in page.SUPPORTED_DTYPES
    assert set(page.SUPPORTED_DTYPES) <= set(DTYPES)
    contract.problem_of(page, workload(name), 0)
    for word in ("state  ", "loss   ") if name not in MODELS else ("batch  ", "loss   "):
        assert word in page.__doc__


def test_an_unknown_page_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(
        TrialFault, match=r"'mpl' is unknown; known are allocations, attention, .*, vit_b16, file"
    ) as caught:
        workloads.load(WorkloadSpec("mpl", "tiny", 1, "float32"))
    assert caught.value.kind == "config"
