"""What the pages of neural networks share and no framework is needed for: parameters, optimisers, layers in NumPy.

The layers in a framework are runners/frameworks/jax_layers.py and tf_layers.py, imported inside the pages' steps.

The layers follow the plain implementations of each community: one dense product for q, k and v, einsum attention,
cross entropy from logits, NHWC convolutions. Nothing here is a library of layers: what one page needs stands there.
"""
