"""Prints how long a page's training step takes against a public implementation of the same model, in one process.

Goal: at most 10 % longer, for FLOP of equal number. Public are keras.applications.ResNet50, and KerasHub's GPT-2 and
BERT backbones (pip install keras-hub; --no-deps with regex and tokenizers is enough), each on Keras's back end for the
framework, with the page's loss and the page's optimiser around it. Both compiled steps take turns, window by window.

    JAX_PLATFORMS=cpu python -m tests.benchmarks.models_against_keras jax|tf|tf_graph [resnet50 gpt2_small bert_base]
"""

from __future__ import annotations

import importlib
import statistics
import sys
from collections.abc import Callable
from typing import Any

from runners import frameworks, workloads
from runners.frameworks.base import FrameworkRunner
from runners.specs import TrialSpec, WorkloadSpec
from runners.stepper import Stepper
from runners.workloads import keras as keras_page
from runners.workloads.nn import model
from runners.workloads.page import Problem
from tests.runners.harness import make_spec, workload

PAIRS, WARM_STEPS, WINDOW_STEPS = 15, 3, 2
COMPILATIONS = {"jax": ("jax", "jit"), "tf": ("tf", "xla"), "tf_graph": ("tf", "graph")}
#: ResNet50 of keras.applications has no other width than the published one.
SIZES = {"resnet50": {"batch_size": 4, "width": 64, "image": 96}}


def asked(name: str) -> WorkloadSpec:
    """The page at a size that two cores bear."""
    changes = dict(SIZES.get(name, {}))
    spec = workload(name, "default")
    shape = {**spec.shape, **{key: value for key, value in changes.items() if key != "batch_size"}}
    return workload(name, "default", batch_size=changes.get("batch_size", spec.batch_size), shape=shape)


def resnet50(spec: WorkloadSpec, keras: Any) -> Any:
    """Keras's own, with biases and the stride in the first convolution of a block."""
    size = spec.shape["image"]
    return keras.applications.ResNet50(
        weights=None, input_shape=(size, size, 3), classes=spec.shape["classes"], classifier_activation=None
    )


def gpt2_small(spec: WorkloadSpec, keras: Any) -> Any:  # noqa: ARG001
    """KerasHub's, without dropout."""
    shape = spec.shape
    return importlib.import_module("keras_hub").models.GPT2Backbone(
        shape["vocabulary"], shape["layers"], shape["heads"], shape["width"], 4 * shape["width"], 0.0, shape["sequence"]
    )


def bert_base(spec: WorkloadSpec, keras: Any) -> Any:  # noqa: ARG001
    """KerasHub's, without dropout."""
    shape = spec.shape
    return importlib.import_module("keras_hub").models.BertBackbone(
        shape["vocabulary"], shape["layers"], shape["heads"], shape["width"], 4 * shape["width"], 0.0, shape["sequence"]
    )


def logits_of(name: str, keras: Any, embedding: Any, batch: dict[str, Any], called: Callable[[Any], Any]) -> Any:
    """What the page's loss is taken of, in Keras's operations."""
    if name == "resnet50":
        return called(batch["images"])
    mask = keras.ops.ones_like(batch["tokens"])
    if name == "gpt2_small":
        x = called({"token_ids": batch["tokens"], "padding_mask": mask})
    else:
        found = called({"token_ids": batch["tokens"], "segment_ids": batch["types"], "padding_mask": mask})
        x = keras.ops.take_along_axis(found["sequence_output"], batch["positions"][..., None], axis=1)
    return keras.ops.matmul(keras.ops.reshape(x, (-1, x.shape[-1])), keras.ops.transpose(embedding))


def public(name: str, spec: WorkloadSpec, page: Any, framework: str) -> tuple[Callable[..., Any], Problem]:
    """The public model's training step, and its first state and batch."""
    keras = keras_page._keras()
    with keras.StatelessScope(initialize_variables=False):
        built = globals()[name](spec, keras)
    weights, kept = keras_page._named(built.trainable_variables), keras_page._named(built.non_trainable_variables)
    table = next((key for key in weights if key.endswith("token_embedding/embeddings")), "")

    def loss_of(p: dict[str, Any], batch: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        values, new = [batch[f"s/{key}"] for key in kept], []

        def called(inputs: Any) -> Any:
            with keras.StatelessScope(initialize_variables=False):
                outputs, after = built.stateless_call([p[key] for key in weights], values, inputs, training=True)
            new[:] = after
            return outputs

        logits = keras.ops.cast(logits_of(name, keras, p.get(table), batch, called), "float32")
        labels = keras.ops.reshape(batch["labels"], (-1,))
        losses = keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
        return keras.ops.mean(losses), dict(zip(kept, new, strict=True))

    layers = importlib.import_module(f"runners.frameworks.{framework}_layers")
    drawn = [{key: keras_page._drawn(one, {}) for key, one in side.items()} for side in (weights, kept)]
    problem = model.problem(spec, 0, drawn[0], page.inputs(spec, 0).batch, page.OPTIMISER, (), drawn[1])
    return layers.model_step(spec, page.OPTIMISER, loss_of, loss_of), problem


def stepper(runner: FrameworkRunner, step: Callable[..., Any], problem: Problem) -> Stepper:
    """A compiled step with its state, warmed."""
    made = problem.made()
    state = {name: runner.place(array, in_place=True) for name, array in made.state.items()}
    batch = {name: runner.place(array, in_place=False) for name, array in made.batch.items()}
    ready = Stepper(runner, runner.compile(step, state, batch, donate=True), state)
    for _ in range(WARM_STEPS):
        ready.step()
    ready.build_fence()
    return ready


def compare(runner: FrameworkRunner, spec: TrialSpec, name: str) -> None:
    """One line for one model."""
    asked_for, framework = spec.workload, spec.framework.name
    page = workloads.load(asked_for)
    ours = stepper(runner, getattr(page, f"{framework}_step")(asked_for), page.inputs(asked_for, 0))
    theirs = stepper(runner, *public(name, asked_for, page, framework))
    pairs = [(ours.window(WINDOW_STEPS).seconds, theirs.window(WINDOW_STEPS).seconds) for _ in range(PAIRS)]
    ratio = statistics.median(own / other for own, other in pairs)
    milliseconds = [statistics.median(side) / WINDOW_STEPS * 1e3 for side in zip(*pairs, strict=True)]
    work = [one.program.work.needed for one in (ours, theirs)]
    print(
        f"{framework} {spec.framework.compile} {name}: ours {milliseconds[0]:.1f} ms, public {milliseconds[1]:.1f} ms, "
        f"ratio {ratio:.3f}; FLOP ratio {work[0] / work[1]:.3f}; time for equal FLOP {ratio * work[1] / work[0]:.3f}",
        flush=True,
    )


def main(compilation: str, *names: str) -> None:
    """Every model, or the named ones."""
    framework, compile = COMPILATIONS[compilation]
    runner = frameworks.load(framework)
    for name in names or ("resnet50", "gpt2_small", "bert_base"):
        spec = make_spec(framework, compile, workload=asked(name))
        runner.open_device(spec)
        compare(runner, spec, name)


if __name__ == "__main__":
    main(*sys.argv[1:])
