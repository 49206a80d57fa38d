"""What the pages of neural networks share: parameters, layers and optimisers, once per framework and once in NumPy.

The layers follow the plain implementations of each community: one dense product for q, k and v, einsum attention,
cross entropy from logits, NHWC convolutions. Nothing here is a library of layers: what one page needs stands there.
"""
