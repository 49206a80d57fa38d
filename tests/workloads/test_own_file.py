"""A workload of the user's own: the example works as it stands, and every mistake is named."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runners.specs import WorkloadSpec
from tests.runners.harness import ROOT, environment, make_spec, run_trial

EXAMPLE = ROOT / "tests/examples/own_workload.py"

GOOD_INPUTS = """
import numpy as np
from runners.workloads.page import Problem, WorkCounts

def inputs(workload, seed):
    x = np.random.default_rng(seed).standard_normal((8, 8), dtype=np.float32)
    return Problem({"w": x}, {"x": x[:workload.batch_size]})
"""

STEP = """
def jax_step(workload): return lambda state, batch: (state, state['w'][0, 0])
tf_step = jax_step
"""

#: name → (the file's text after the good inputs, kind, reason, words of the message). `xp` is jax.numpy or tensorflow.
STEPS = {
    "good": ("w = state['w']\n    return {'w': w + 0.1 * w @ w}, xp.float_mean(w)", "ok", "", ""),
    "no_state": (
        "return xp.float_mean(state['w'])",
        "config",
        "step returns something else",
        "the step returned a {tensor}; it must return (new state, loss)",
    ),
    "lost_array": (
        "return {}, xp.float_mean(state['w'])",
        "config",
        "step returns something else",
        "the state without ['w']; it must return every array that came in, and no other",
    ),
    "added_array": (
        "return {**state, 'v': state['w']}, xp.float_mean(state['w'])",
        "config",
        "step returns something else",
        "the state with ['v'] added",
    ),
    "wrong_shape": (
        "return {'w': state['w'][:4]}, xp.float_mean(state['w'])",
        "config",
        "step returns something else",
        "state['w'] went in as float32 (8, 8) and came back as float32 (4, 8); shape and dtype must stay",
    ),
    "wrong_loss": (
        "return state, state['w'][0]",
        "config",
        "step returns something else",
        "the loss is float32 (8,); it must be one float32 number",
    ),
    "dead": (
        "(state['w'] @ state['w']); return {'w': state['w'] * 0.5}, xp.float_mean(state['w'])",
        "invalid",
        "dead or constant work",
        "the trace holds 1,024 FLOPs of products and convolutions, of which 0 depend on an input and reach an output",
    ),
    "constant_product": (
        "c = xp.ones((8, 8)); return {'w': state['w'] + c @ c}, xp.float_mean(state['w'])",
        "invalid",
        "dead or constant work",
        "of which 0 depend on an input",
    ),
    "constant_state": (
        "return {'w': xp.ones((8, 8))}, xp.float_mean(state['w'])",
        "invalid",
        "constant result",
        "depends on no input, so it can be computed once for all steps",
    ),
    "raises": (
        "raise ValueError('of my own')",
        "config",
        "workload file fails",
        "raises.py fails in {framework}_step, line {line}: ValueError: of my own",
    ),
    "numpy_in_step": (
        "return {'w': np.sqrt(state['w'])}, xp.float_mean(state['w'])",
        "config",
        "workload file fails",
        "numpy_in_step.py fails in {framework}_step, line {line}: ",
    ),
    "branches": (
        "if xp.float_mean(state['w']) > 0: return state, xp.float_mean(state['w'])",
        "config",
        "workload file fails",
        "branches.py fails in {framework}_step, line {line}: ",
    ),
    "wrong_axes": (
        "return state, xp.float_mean(batch['x'] @ xp.ones((3, 3)))",
        "config",
        "workload file fails",
        "wrong_axes.py fails in {framework}_step, line {line}: ",
    ),
    "other_dtype": (
        "return {'w': xp.zeros((8, 8), 'float16') * 1}, xp.float_mean(state['w'])",
        "config",
        "step returns something else",
        "state['w'] went in as float32 (8, 8) and came back as float16 (8, 8); shape and dtype must stay",
    ),
    "loss_of_one": (
        "return state, xp.float_mean(state['w'], axis=(0, 1), keepdims=True)[0]",
        "config",
        "step returns something else",
        "the loss is float32 (1,); it must be one float32 number",
    ),
    "plain_loss": ("return state, 1.0", "config", "step returns something else", "the loss is a float"),
    "generator": (
        "yield state, xp.float_mean(state['w'])",
        "config",
        "step returns something else",
        "returned a generator; it must return (new state, loss)",
    ),
    "helps_itself": (
        "return {'w': half_step(state['w'], by=0.5)}, xp.float_mean(batch['x'] @ state['w'])",
        "ok",
        "",
        "",
    ),
    "changes_its_batch": (
        "batch['x'] = batch['x'] * 2; w = state.pop('w')\n    return {'w': w * 0.9}, xp.float_mean(batch['x'] @ w)",
        "ok",
        "",
        "",
    ),
    "ignores_its_batch": (
        "return {'w': state['w'] * 0.9}, xp.float_mean(state['w'])",
        "ok",
        "",
        "no result of the step depends on batch['x']",
    ),
    "half_dead": (
        "(state['w'] @ state['w']); return {'w': state['w'] @ state['w'] * 0.1}, xp.float_mean(state['w'])",
        "ok",
        "",
        "the trace holds 2,048 FLOPs of products and convolutions, of which 1,024 depend",
    ),
}
COUNTED = """
def counts(workload):
    return WorkCounts(parameters=64, flops=2048, bytes=None, examples=4, matrix_flops=2048)
"""
FILES = {
    "not_python": ("def inputs(:", "config", "workload file fails", "cannot be imported: SyntaxError"),
    "no_inputs": (
        "def jax_step(workload): ...\ndef tf_step(workload): ...",
        "config",
        "no inputs",
        "no function inputs",
    ),
    "no_step": (GOOD_INPUTS, "config", "no step", "neither jax_step(workload) nor tf_step(workload)"),
    "other_half": (
        GOOD_INPUTS + "\ndef other_step(workload): ...",
        "not_applicable",
        "no step for this framework",
        "other_half.py has no {framework}_step(workload); add it to compare the frameworks",
    ),
    "step_itself": (
        GOOD_INPUTS + "\ndef jax_step(state, batch): ...\ntf_step = jax_step",
        "config",
        "wrong signature",
        "must take the workload alone and return the step, a function of (state, batch)",
    ),
    "step_of_one": (
        GOOD_INPUTS + "\ndef jax_step(workload): return lambda state: state\ntf_step = jax_step",
        "config",
        "wrong signature",
        "the step must take (state, batch)",
    ),
    "fails_to_build": (
        GOOD_INPUTS + "\ndef jax_step(workload): return workload.shape['width']\ntf_step = jax_step",
        "config",
        "workload file fails",
        "fails_to_build.py fails in {framework}_step, line 9: KeyError: 'width'",
    ),
    "fails_in_inputs": (
        GOOD_INPUTS.replace("    x = ", "    1 / 0\n    x = ") + STEP,
        "config",
        "workload file fails",
        "fails_in_inputs.py fails in inputs, line 6: ZeroDivisionError",
    ),
    "fails_in_counts": (
        GOOD_INPUTS + STEP + "\ndef counts(workload): return 1 / 0",
        "config",
        "workload file fails",
        "fails_in_counts.py fails in counts, line 12: ZeroDivisionError",
    ),
    "counts_a_dict": (
        GOOD_INPUTS + STEP + "\ndef counts(workload): return {'flops': 3}",
        "config",
        "no counts",
        "counts(workload) returned a dict; it must return a WorkCounts",
    ),
    "inputs_without_seed": (
        GOOD_INPUTS.replace("(workload, seed)", "(workload)") + STEP,
        "config",
        "workload file fails",
        "inputs_without_seed.py fails in inputs: TypeError",
    ),
    "inputs_yield": (
        GOOD_INPUTS.replace("return", "yield") + STEP,
        "config",
        "no problem",
        "returned a generator; it must return a Problem",
    ),
    "state_in_a_list": (
        GOOD_INPUTS.replace('{"w": x}', "[x]") + STEP,
        "config",
        "wrong array",
        "the state is a list of 1; it must be a dict of arrays, their names strings",
    ),
    "words": (
        GOOD_INPUTS.replace('{"w": x}', '{"w": np.array(["a"])}') + STEP,
        "config",
        "wrong array",
        "state['w'] is of dtype str32; it must hold numbers, such as float32 or int32",
    ),
    "no_rows": (
        GOOD_INPUTS.replace("x[:workload.batch_size]", "x[:0]") + STEP,
        "config",
        "wrong array",
        "batch['x'] is empty, of shape (0, 8)",
    ),
    "absent_package": (
        "import package_that_is_not_there\n" + GOOD_INPUTS + STEP,
        "config",
        "workload file fails",
        "absent_package.py cannot be imported, line 1: ModuleNotFoundError",
    ),
    "leaves": (
        "import sys\nsys.exit(3)",
        "config",
        "workload file fails",
        "leaves.py cannot be imported, line 2: SystemExit: 3",
    ),
    "returns_nothing": (
        GOOD_INPUTS + "\ndef jax_step(workload): ...\ntf_step = jax_step",
        "config",
        "no step",
        "returned a NoneType; it must return the step, a function",
    ),
    "double_precision": (
        GOOD_INPUTS.replace("dtype=np.float32", "dtype=np.float64")
        + "\ndef jax_step(workload): return lambda state, batch: ...\ntf_step = jax_step",
        "config",
        "wrong array",
        "state['w'] is float64, which JAX would narrow and TensorFlow would not; use .astype('float32')",
    ),
}


def _file(folder: Path, name: str) -> Path:
    path = folder / f"{name}.py"
    if name in FILES:
        path.write_text(FILES[name][0])
        return path
    body = STEPS[name.removesuffix("_counted")][0]
    step = f"""
def jax_step(workload):
    import jax.numpy as xp
    xp.float_mean = xp.mean
    def step(state, batch):
        {body.replace(chr(10) + "    ", chr(10) + "        ")}
    return step

def tf_step(workload):
    import tensorflow as xp
    xp.float_mean = xp.reduce_mean
    def step(state, batch):
        {body.replace(chr(10) + "    ", chr(10) + "        ")}
    return step
"""
    step += "\ndef half_step(w, *, by): return w * by\n"
    path.write_text(GOOD_INPUTS + step + (COUNTED if name.endswith("_counted") else ""))
    return path


@pytest.fixture(scope="module", params=["jax", "tf"])
def said(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder, framework = tmp_path_factory.mktemp("own"), request.param
    files = [str(_file(folder, name)) for name in [*FILES, *STEPS, "half_dead_counted"]]
    done = subprocess.run(
        [sys.executable, "-m", "tests.workloads.own_mistakes", framework, *files],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(framework),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {"framework": framework, **json.loads(done.stdout.splitlines()[-1])}


@pytest.mark.parametrize("name", [*FILES, *STEPS])
def test_what_is_said_of_a_file(said, name: str) -> None:
    _, kind, reason, words = {**FILES, **STEPS}[name]
    found_kind, found_reason, text = said[name]
    assert (found_kind, found_reason) == (kind, reason), text
    filled = words.replace("{framework}", said["framework"])
    # where the body of the step stands in the file
    filled = filled.replace("{line}", {"jax": "13", "tf": "20"}[said["framework"]])
    for part in filled.split("{tensor}"):
        assert part in text


def test_a_count_that_the_step_does_not_keep_is_told(said) -> None:
    kind, reason, text = said["half_dead_counted"]
    assert (kind, reason) == ("invalid", "work is not as counted")
    assert "counts 2,048 FLOPs of products and convolutions a step; the trace holds 2,048" in text
    assert "of which 1,024 depend on an input and reach an output" in text


def test_the_example_runs_and_matches() -> None:
    spec = replace(WorkloadSpec("file", "tiny", 8, "float32", {"width": 32}), path=str(EXAMPLE.relative_to(ROOT)))
    runs = {framework: run_trial(make_spec(framework, workload=spec)) for framework in ("jax", "tf")}
    for run in runs.values():
        assert run.status == 0, run.stderr
        assert run.report.counts.traced_matrix_flops == 2 * 2 * 8 * 32 * 10
        assert run.report.counts.own_matrix_flops == 2 * 2 * 8 * 32 * 10
        assert (run.report.counts.parameters, run.report.counts.own_bytes) == (320, 4 * (640 + 8 * 33))
    jax, tf = (runs[framework].report.match for framework in ("jax", "tf"))
    assert jax.input_hash == tf.input_hash
    np.testing.assert_allclose(jax.losses, tf.losses, rtol=1e-4)
    assert jax.losses[0] == pytest.approx(np.log(10), rel=1e-6)  # ten classes, and weights that start at zero
    assert jax.losses[-1] < jax.losses[0]


def test_a_missing_half_is_not_applicable(tmp_path) -> None:
    path = tmp_path / "jax_only.py"
    text = EXAMPLE.read_text()
    path.write_text(text[: text.index("def tf_step")])
    spec = replace(WorkloadSpec("file", "tiny", 8, "float32"), path=str(path))
    run = run_trial(make_spec("tf", workload=spec))
    assert (run.status, run.failure["kind"], run.failure["phase"]) == (1, "not_applicable", "import")
    assert "jax_only.py has no tf_step(workload)" in run.failure["text"]


def test_a_file_offers_float32_unless_it_says_more() -> None:
    spec = replace(WorkloadSpec("file", "tiny", 8, "bfloat16"), path=str(EXAMPLE))
    run = run_trial(make_spec("jax", workload=spec))
    assert (run.failure["kind"], run.failure["reason"]) == ("config", "dtype not offered")


@pytest.mark.parametrize("framework", ["jax", "tf"])
def test_a_lack_of_memory_is_no_mistake_of_the_file(tmp_path, framework: str) -> None:
    path = tmp_path / "large.py"
    path.write_text(GOOD_INPUTS.replace("    x = ", "    np.empty(2**60, np.float32)\n    x = ") + STEP)
    spec = replace(WorkloadSpec("file", "tiny", 4, "float32"), path=str(path))
    run = run_trial(make_spec(framework, workload=spec))
    assert (run.failure["kind"], run.failure["exception"]) == (None, "numpy._core._exceptions._ArrayMemoryError")


def test_a_variable_of_the_step_is_no_state(tmp_path) -> None:
    path = tmp_path / "hidden.py"
    step = """
def tf_step(workload):
    import tensorflow as tf
    count = tf.Variable(0.0, name="count")
    def step(state, batch):
        return {"w": state["w"] * 0.9 + count.assign_add(1.0)}, tf.reduce_mean(batch["x"] @ state["w"])
    return step
"""
    path.write_text(GOOD_INPUTS + step)
    spec = replace(WorkloadSpec("file", "tiny", 4, "float32"), path=str(path))
    run = run_trial(make_spec("tf", workload=spec))
    assert (run.failure["kind"], run.failure["reason"]) == ("config", "step holds variables")
    assert "a tf.Variable of its own (count:0)" in run.failure["text"]


def test_losses_that_never_move_are_told(tmp_path) -> None:
    path = tmp_path / "still.py"
    path.write_text(
        GOOD_INPUTS + "\ndef jax_step(workload): return lambda state, batch: (dict(state), state['w'].mean())"
    )
    spec = replace(WorkloadSpec("file", "tiny", 4, "float32"), path=str(path))
    run = run_trial(make_spec("jax", workload=spec))
    assert run.status == 0
    assert any("the first 10 losses are all" in warning for warning in run.report.warnings)


def test_a_message_of_jax_names_the_step_of_the_file(said) -> None:
    _, _, text = said["branches"]
    assert "counted" not in text and "base.py" not in text
