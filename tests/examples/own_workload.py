"""A workload of your own: one training step of softmax regression.

    python -m study -m framework=jax,tf workload=file workload.path=tests/examples/own_workload.py

Copy this file and change it. It holds `inputs` and a step for each framework; leave one out, and that framework's
trials say that the workload is not applicable. Everything else is optional; runners/workloads/page.py tells what.
Without `counts` a comparison of the frameworks is not certified as matched.
"""

import numpy as np

from runners.workloads.page import Problem, WorkCounts

CLASSES = 10


def inputs(workload, seed):
    """The first state and the batch: NumPy arrays by name, the same bytes for every framework."""
    random = np.random.default_rng(seed)
    width = workload.shape.get("width", 256)  # +workload.shape.width=512 on the command line changes it
    return Problem(
        state={"w": np.zeros((width, CLASSES), np.float32)},
        batch={
            "x": random.standard_normal((workload.batch_size, width), dtype=np.float32),
            "labels": random.integers(0, CLASSES, workload.batch_size, dtype=np.int32),
        },
    )


def counts(workload):
    """The work of one step, checked against what each framework really traces: x @ w, and its gradient by w."""
    width = workload.shape.get("width", 256)
    flops = 2 * 2 * workload.batch_size * width * CLASSES
    moved = 4 * (2 * width * CLASSES + workload.batch_size * (width + 1))  # w in and out, x and labels in
    return WorkCounts(
        parameters=width * CLASSES, flops=flops, bytes=moved, examples=workload.batch_size, matrix_flops=flops
    )


def jax_step(workload):
    """Returns a pure step: (state, batch) → (new state, loss). It is compiled for you."""
    import jax
    import jax.numpy as jnp

    def loss_of(w, batch):
        logits = batch["x"] @ w
        chosen = jnp.take_along_axis(logits, batch["labels"][:, None], axis=1)[:, 0]
        return jnp.mean(jax.nn.logsumexp(logits, axis=1) - chosen)

    def step(state, batch):
        loss, gradient = jax.value_and_grad(loss_of)(state["w"], batch)
        return {"w": state["w"] - 0.1 * gradient}, loss

    return step


def tf_step(workload):
    """The same step in TensorFlow."""
    import tensorflow as tf

    def step(state, batch):
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(state["w"])
            logits = batch["x"] @ state["w"]
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(batch["labels"], logits))
        return {"w": state["w"] - 0.1 * tape.gradient(loss, state["w"])}, loss

    return step
