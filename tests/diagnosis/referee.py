"""Faults that a referee found silent or misnamed, and relatives of them: written down, with the names that are right,
before any rule was made for them."""
import numpy as np

from kernel import BOS, LAYERS, Kernel, name_of, to_integers
from names import COLUMNS, GROWS, LEAKS, NOTHING, PENALTY, PERMUTED, SCALED, SOME, START, WRONG, Fault


def leaking(layers):
    """In these layers each position sees the one after it."""
    def attend(world):
        kernel = world.kernel()
        right = kernel.layer
        closed, open_ = kernel.causal, lambda q, k: k <= q + 1

        def layer(x, place, weights_of):
            kernel.causal = open_ if place in layers else closed
            return right(x, place, weights_of)
        kernel.layer = layer
        # The last row of a capture predicts a token that its own forward pass has not read: one more is read here.
        seen = [[*ids, ids[-1]] for ids in world.sequences]
        return [z[:-1] for z in kernel.run(seen)]
    return attend


def columns(first, last, change):
    def make(world):
        def changed(z):
            z = z.copy()
            z[:, first:last] = change(z[:, first:last])
            return z
        return world.each(changed)
    return make


def penalised(change):
    """`change(logits of the tokens that were there before, how often each was)`, from the second row on."""
    def make(world):
        out = []
        for ids, right in zip(world.sequences, world.right):
            z = right.copy()
            for t in range(len(z)):
                tokens, counts = np.unique(np.array(ids[1:t + 1], int), return_counts=True)
                z[t, tokens] = change(z[t, tokens], counts)
            out.append(z)
        return out
    return make


def low_rank(world, rank, size):
    random = np.random.default_rng(17)

    def change(name, w):
        if "layers" not in name:
            return w
        a, b = random.standard_normal((w.shape[0], rank)), random.standard_normal((rank, w.shape[1]))
        update = a @ b
        return w + size * np.sqrt(np.mean(w * w) / np.mean(update * update)) * update
    return world.changed(change)


def other_experts(world, share):
    """A share of the tokens goes through the mlp of layer 2 in layer 1."""
    kernel = world.kernel()
    right = kernel.product
    chosen = np.random.default_rng(3).random(257) < share
    state = {}

    def embedded(x, ids):
        state["other"] = chosen[ids][..., None]
        return x

    def product(x, name):
        out = right(x, name)
        if ".1.mlp." not in name:
            return out
        return np.where(state["other"], right(x, name.replace(".1.mlp.", ".2.mlp.")), out)
    kernel.embedded, kernel.product = embedded, product
    return kernel.run(world.sequences)


def stale_prefix(world, length):
    """Keys and values of the first positions are those of another checkpoint."""
    old = Kernel(world.moved(0.3))
    kept = {}

    def keep(k, v, layer):
        kept.setdefault(layer, []).append((k, v))
        return k, v
    old.cached = keep
    old.run(world.sequences)
    kernel, turn = world.kernel(), {}

    def cached(k, v, layer):
        at = turn.setdefault(layer, 0)
        turn[layer] += 1
        stale_k, stale_v = kept[layer][at]
        k, v = k.copy(), v.copy()
        k[:, :, :length], v[:, :, :length] = stale_k[:, :, :length], stale_v[:, :, :length]
        return k, v
    kernel.cached = cached
    return kernel.run(world.sequences)


ORDER = np.random.default_rng(23).permutation(256)

FAULTS = [
    Fault("the mask of layer 1 lets the next token through", (LEAKS,), leaking({1})),
    Fault("the mask of layer 3 lets the next token through", (LEAKS,), leaking({3})),
    Fault("the masks of all layers let the next token through", (LEAKS,), leaking(set(range(LAYERS)))),
    Fault("the last quarter of the vocabulary is zero", (COLUMNS,), columns(192, 256, lambda z: z * 0)),
    Fault("32 columns of the head are those of another checkpoint", (COLUMNS,), columns(
        64, 96, lambda z: z + np.random.default_rng(5).standard_normal(z.shape).astype(np.float32))),
    Fault("half of the vocabulary times 1.1", (COLUMNS,), columns(0, 128, lambda z: z * np.float32(1.1))),
    Fault("the bias of a shard is missing", (COLUMNS,), columns(128, 192, lambda z: z - np.float32(0.7))),
    Fault("repetition penalty 1.2", (PENALTY,), penalised(lambda z, n: np.where(z > 0, z / 1.2, z * 1.2))),
    Fault("repetition penalty 1.05", (PENALTY,), penalised(lambda z, n: np.where(z > 0, z / 1.05, z * 1.05))),
    Fault("presence penalty 0.5", (PENALTY,), penalised(lambda z, n: z - 0.5)),
    Fault("frequency penalty 0.2", (PENALTY,), penalised(lambda z, n: z - 0.2 * n)),
    Fault("ids permuted in and out", (PERMUTED, WRONG), lambda world: [
        z[:, [*ORDER, BOS]] for z in world.run(inputs=lambda ids: [int(ORDER[i]) if i < 256 else i for i in ids])]),
    Fault("norm epsilon 1e-2", (SOME, NOTHING, SCALED), lambda world: world.run(eps=1e-2)),
    Fault("one scale for each tensor in int8", (SOME, NOTHING), lambda world: world.run(
        weights=world.changed(lambda n, w: to_integers(w, 8, axis=None)))),
    Fault("an adapter of rank 4 not merged", (SOME, WRONG), lambda world: world.run(weights=low_rank(world, 4, 0.15))),
    Fault("a fifth of the tokens to another expert", (SOME, WRONG), lambda world: other_experts(world, 0.2)),
    Fault("embedding scale missing", (SOME, WRONG), lambda world: world.run(embedded=lambda x, ids: x * np.float32(0.5))),
    Fault("a stale prefix of 16 positions in the cache", (START, SOME, GROWS), lambda world: stale_prefix(world, 16)),
]
