"""Every workload page: in each framework the same work as its float64 reference, and counts that others confirm."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest
import yaml

from runners import workloads
from runners.faults import TrialFault
from runners.workloads.page import DTYPES, input_hash
from tests.runners.harness import ROOT, run_script, workload

#: Largest relative distance of a loss from the float64 reference within ten steps, by the dtype's precision
#: (float16 keeps 11 bits, bfloat16 8, and errors of single elements partly cancel in a loss).
TOLERANCE = {"float32": 1e-4, "float16": 5e-3, "bfloat16": 2e-2}


@pytest.fixture(scope="module", params=["jax", "tf"])
def results(request: pytest.FixtureRequest) -> dict[str, Any]:
    return run_script("match_pages.py", request.param, framework=request.param)


def test_losses_follow_the_reference(results) -> None:
    pages = {key.split()[1] for key in results}
    assert pages == set(workloads.names())
    for key, result in results.items():
        np.testing.assert_allclose(
            result["losses"], result["reference"], rtol=TOLERANCE[key.split()[2]], atol=0, err_msg=key
        )
        changes = np.abs(np.diff(result["reference"])) / np.abs(result["reference"][1:])
        assert np.median(changes) > 1e-2, f"{key}: losses that hardly move prove no match"


def test_the_fence_depends_on_every_output(results) -> None:
    for key, result in results.items():
        assert result["fence"] == pytest.approx(result["first_elements"], rel=1e-3), key


def test_a_step_is_traced_once(results) -> None:
    assert {result["traces"] for result in results.values()} == {1}


@pytest.mark.parametrize("name", workloads.names())
def test_inputs_depend_on_the_seed_and_on_nothing_else(name: str) -> None:
    page = workloads.load(name)
    first, again, other = (input_hash(page.inputs(workload(name), seed)) for seed in (1, 1, 2))
    assert first == again != other
    assert page.SUPPORTED_DTYPES == DTYPES


@pytest.mark.parametrize("name", workloads.names())
@pytest.mark.parametrize("size", ["tiny", "default"])
def test_parameters_and_bytes_are_those_of_the_arrays(name: str, size: str) -> None:
    page, spec = workloads.load(name), workload(name, size)
    problem, counts = page.inputs(spec, 0), page.counts(spec)
    state, batch = (sum(array.nbytes for array in side.values()) for side in (problem.state, problem.batch))
    trained = sum(array.size for array in problem.state.values()) if name == "mlp" else 0
    assert counts.parameters == trained
    assert counts.bytes == 2 * state + batch
    assert counts.examples == spec.batch_size


def test_flops_against_figures_worked_out_by_hand() -> None:
    # mlp tiny: layers 32→32, 32→32, 32→10 on 8 rows: products 2·8·(1024 + 1024 + 320), times 3, less the first
    # layer's input gradient 2·8·1024
    assert workloads.load("mlp").counts(workload("mlp")).flops == 3 * 37_888 - 16_384 == 97_280
    # matmul tiny: 8×16 by 16×16 is 2·8·256 = 4,096; the loss 3·128
    assert workloads.load("matmul").counts(workload("matmul")).flops == 4_096 + 384
    # elementwise tiny: 8·64 elements, 5 each
    assert workloads.load("elementwise").counts(workload("elementwise")).flops == 2_560


def test_mlp_reference_follows_finite_differences() -> None:
    page, spec = workloads.load("mlp"), workload("mlp")
    problem = page.inputs(spec, 3)
    before = {name: array.astype(np.float64) for name, array in problem.state.items()}
    (after, _), step = next(page.reference(problem)), 1e-6
    for name, index in (("w0", (3, 5)), ("b1", (2,)), ("w2", (7, 1))):
        losses = []
        for sign in (1, -1):
            moved = {key: array.copy() for key, array in before.items()}
            moved[name][index] += sign * step
            losses.append(next(page.reference(type(problem)(moved, problem.batch)))[1])
        gradient = (losses[0] - losses[1]) / (2 * step)
        assert (before[name] - after[name])[index] / page.RATE == pytest.approx(gradient, rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("size", [16, 24, 48, 100])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_chain_of_products_keeps_its_length(size: int, dtype: str) -> None:
    page = workloads.load("matmul")
    problem = page.inputs(workload("matmul", shape={"size": size}, dtype=dtype), 0)
    w = problem.batch["w"].astype(np.float64)
    np.testing.assert_array_equal(w @ w.T, np.eye(size))
    states = [state["x"] for state, _ in islice(page.reference(problem), 1000)]
    np.testing.assert_allclose(np.linalg.norm(states[-1]), np.linalg.norm(states[0]), rtol=1e-9)


@pytest.mark.parametrize("name", workloads.names())
def test_conf_has_every_page_with_every_size(name: str) -> None:
    conf = yaml.safe_load((ROOT / f"conf/workload/{name}.yaml").read_text())
    assert list(conf) == ["name", "size", "batch_size", "dtype", "donate", "precision", "shape", "sizes"]
    assert conf["name"] == name
    assert list(conf["sizes"]) == ["tiny", "default", "paper"]
    for sizes in conf["sizes"].values():
        assert set(sizes) == {"batch_size", *conf["shape"]}


def test_an_unknown_page_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(TrialFault, match="'mpl' is unknown; known are elementwise, matmul, mlp") as caught:
        workloads.load("mpl")
    assert caught.value.kind == "config"
