"""Pairs of captures without a fault, of which nothing may be said. Each gives (train, inf): the same kernel twice,
with other orders of summation or other fused steps."""
import dataclasses
import typing

import numpy as np

from kernel import to_bf16


@dataclasses.dataclass
class Pair:
    name: str
    make: typing.Callable  # world -> (logits of one run, logits of the other)


def float16(x):
    return x.astype(np.float16).astype(np.float32)


def bf16(world, group=16, **members):
    kernel = world.kernel(**members).rounded(to_bf16)
    return [to_bf16(z) for z in kernel.run(world.sequences, group)]


PAIRS = [
    Pair("a capture and itself", lambda w: (w.train, w.train)),
    Pair("float32, sums in two parts", lambda w: (w.train, w.run(split=2))),
    Pair("float32, sums in eight parts", lambda w: (w.train, w.run(split=8))),
    Pair("float32, eager against fused attention in blocks of 16", lambda w: (w.train, w.run(block=16))),
    Pair("float32, batch 1 against 8", lambda w: (w.kernel().run(w.sequences, 1), w.kernel().run(w.sequences, 8))),
    Pair("float32, batch 1 against 8 with sums in parts",
         lambda w: (w.kernel().run(w.sequences, 1), w.kernel(split=4, block=32).run(w.sequences, 8))),
    Pair("float32, every position one later", lambda w: (w.train, w.run(
        positions=lambda t, layer: (t + 1, t + 1)))),
    Pair("float32, logits stored in float16", lambda w: (w.train, [float16(z) for z in w.train])),
    Pair("float16, sums in four parts", lambda w: (
        w.kernel().rounded(float16).run(w.sequences), w.kernel(split=4).rounded(float16).run(w.sequences))),
    Pair("bf16, eager against fused attention", lambda w: (bf16(w), bf16(w, block=16))),
    Pair("bf16, batch 1 against 8 with sums in parts", lambda w: (bf16(w, 1), bf16(w, 8, split=4))),
    Pair("bf16, every position one later", lambda w: (bf16(w), bf16(
        w, positions=lambda t, layer: (t + 1, t + 1)))),
]
