"""The battery: faults that the rules of the diagnosis may be fitted to."""
import numpy as np

from kernel import LAYERS, MATRICES, name_of, to_bf16, to_fp8, to_integers
from names import (ATTENTION, BLIND_ATTENTION, FILTERED, GROWS, NONFINITE, NOTHING, PERMUTED, SCALED, SEQUENCES, SHIFTED,
                   SLICE, SOME, START, WRONG, Fault)

FAULTS = []


def fault(name, right, right8=None, also=(), where=""):
    def add(make):
        FAULTS.append(Fault(name, right, make, right8, also, where))
        return make
    return add


def swapped(values, a, b):
    out = list(values)
    out[a], out[b] = out[b], out[a]
    return out


def kept_mass(z, share):
    """−Infinity beside the likeliest tokens that together hold `share`."""
    order = np.argsort(-z, -1)
    p = np.exp(z - z.max(-1, keepdims=True))
    p = np.take_along_axis(p / p.sum(-1, keepdims=True), order, -1)
    dropped = np.zeros(z.shape, bool)
    np.put_along_axis(dropped, order, np.cumsum(p, -1) - p >= share, -1)
    return np.where(dropped, np.float32(-np.inf), z)


def dropped_heads(layer, heads):
    def change(mixed, place):
        if place == layer:
            mixed = mixed.copy()
            mixed[:, heads] = 0
        return mixed
    return change


def reordered_heads(layer, order):
    return lambda mixed, place: mixed[:, order] if layer in (place, None) else mixed


def in_layer(world, layer, matrix, change):
    name = name_of(layer, matrix)
    return {**world.weights, name: change(world.weights[name]).astype(np.float32)}


# Rotary positions.
for base in (500000.0, 1000.0, 20000.0):
    fault(f"rope base {base:.0f} for 10000", (ATTENTION, GROWS), BLIND_ATTENTION)(
        lambda world, base=base: world.run(rope_base=base))
for factor in (0.5, 1.1):
    fault(f"rope positions times {factor}", (ATTENTION, GROWS), BLIND_ATTENTION)(
        lambda world, f=factor: world.run(positions=lambda t, layer: (t * f, t * f)))
fault("rope pairs adjacent dimensions", (ATTENTION, GROWS), BLIND_ATTENTION)(
    lambda world: world.run(rope_pairs="adjacent"))
fault("no rope in layer 1", (ATTENTION, GROWS), BLIND_ATTENTION)(
    lambda world: world.run(positions=lambda t, layer: (t * 0, t * 0) if layer == 1 else (t, t)))
fault("queries one position ahead of their keys", (ATTENTION, GROWS), BLIND_ATTENTION)(
    lambda world: world.run(positions=lambda t, layer: (t + 1, t)))
fault("positions start again at 64", (GROWS,))(
    lambda world: world.run(positions=lambda t, layer: (t % 64, t % 64)))

# Attention.
for factor in (1.25, 0.9, 32 ** -0.5):
    fault(f"attention scale times {factor:.3g}", (ATTENTION, GROWS), BLIND_ATTENTION)(
        lambda world, f=factor: world.run(attention_scale=world.kernel().attention_scale * f))
fault("window of 32 positions", (GROWS,))(
    lambda world: world.run(visible=lambda q, k, layer: k > q - 32))
fault("a page of 16 keys is lost", (GROWS,))(
    lambda world: world.run(visible=lambda q, k, layer: (k < 48) | (k >= 64) | (q < 64)))
fault("no token sees itself", (ATTENTION, GROWS), BLIND_ATTENTION)(
    lambda world: world.run(causal=lambda q, k: (k < q) | ((k == 0) & (q == 0))))

# Layers and heads.
for a, b in ((1, 2), (0, 3), (2, 3)):
    fault(f"layers {a} and {b} swapped", (WRONG,))(
        lambda world, a=a, b=b: world.run(layers=swapped(range(LAYERS), a, b)))
for layer in (1, 3):
    fault(f"layer {layer} missing", (WRONG,))(
        lambda world, n=layer: world.run(layers=[i for i in range(LAYERS) if i != n]))
fault("layer 1 in the place of layer 2", (WRONG,))(lambda world: world.run(layers=[0, 1, 1, 3]))
fault("attention of layer 2 missing", (WRONG, SOME))(lambda world: world.run(skip_attention={2}))
fault("mlp of layer 2 missing", (WRONG,))(lambda world: world.run(skip_mlp={2}))
fault("head 0 of layer 1 missing", (SOME, WRONG))(lambda world: world.run(heads=dropped_heads(1, [0])))
fault("heads 1 and 2 of layer 2 swapped", (SOME, WRONG))(
    lambda world: world.run(heads=reordered_heads(2, [0, 2, 1, 3])))
fault("heads of every layer in reverse order", (WRONG,))(
    lambda world: world.run(heads=reordered_heads(None, [3, 2, 1, 0])))
fault("gate and up of layer 1 swapped", (WRONG, SOME))(lambda world: world.run(weights={
    **world.weights, name_of(1, "mlp.gate_proj"): world.weights[name_of(1, "mlp.up_proj")],
    name_of(1, "mlp.up_proj"): world.weights[name_of(1, "mlp.gate_proj")]}))
fault("output projection of layer 0 transposed", (WRONG,))(
    lambda world: world.run(weights=in_layer(world, 0, "self_attn.o_proj", np.transpose)))

# Shifts.
fault("rows one position ahead", (SHIFTED,))(lambda world: world.each(lambda z: np.concatenate((z[1:], z[-1:]))))
fault("rows one position behind", (SHIFTED,))(lambda world: world.each(lambda z: np.concatenate((z[:1], z[:-1]))))
fault("inputs one token behind", (SHIFTED,))(lambda world: world.run(inputs=lambda ids: [ids[0], *ids[:-1]]))
fault("a line break for the token that begins a text", (START,), (START, NOTHING))(
    lambda world: world.run(inputs=lambda ids: [10, *ids[1:]]))

# Columns.
fault("halves of the head swapped", (PERMUTED,))(lambda world: world.each(lambda z: np.roll(z, 128, -1)))
fault("vocabulary shifted by one", (PERMUTED,))(lambda world: world.each(lambda z: np.roll(z, 1, -1)))

# Weights of another checkpoint, in whole or in part.
fault("weights moved by 50%", (WRONG,))(lambda world: world.run(weights=world.moved(0.5)))
fault("weights moved by 15%", (SOME, WRONG))(lambda world: world.run(weights=world.moved(0.15)))
fault("weights moved by 5%", (SOME, WRONG))(lambda world: world.run(weights=world.moved(0.05)))
fault("layer 2 moved by 50%", (SOME, WRONG))(
    lambda world: world.run(weights=world.moved(0.5, chosen=lambda n: ".2." in n)))
fault("down projections moved by 40%", (SOME, WRONG))(
    lambda world: world.run(weights=world.moved(0.4, chosen=lambda n: "down_proj" in n)))
fault("a sixth of all rows from another checkpoint", (SOME, WRONG))(lambda world: world.run(weights=world.changed(
    lambda n, w: np.where((np.arange(len(w)) % 6 == 0)[:, None], np.roll(w, 1, 0), w) if "layers" in n else w)))

# Scales.
for temperature in (1.02, 1.05, 1.1, 0.98):
    fault(f"temperature {temperature}", (SCALED,))(
        lambda world, t=temperature: world.each(lambda z: z / np.float32(t)))
fault("head times 1.05", (SCALED,))(lambda world: world.run(weights={
    **world.weights, "lm_head.weight": world.weights["lm_head.weight"] * np.float32(1.05)}))
fault("last norm times 0.9", (SCALED,))(lambda world: world.run(weights={
    **world.weights, "model.norm.weight": world.weights["model.norm.weight"] * np.float32(0.9)}))
fault("logits capped at 30", (SCALED,))(lambda world: world.each(lambda z: 30 * np.tanh(z / 30)))

# Filters.
fault("top-k 20", (FILTERED,))(lambda world: world.each(
    lambda z: np.where(z < np.sort(z, -1)[:, -20, None], np.float32(-np.inf), z)))
fault("top-p 0.95", (FILTERED,))(lambda world: world.each(lambda z: kept_mass(z, 0.95)))
fault("min-p 0.02 with -10000", (FILTERED,))(lambda world: world.each(
    lambda z: np.where(z < z.max(-1, keepdims=True) + np.log(0.02), np.float32(-1e4), z)))

# Some of the corpus.
fault("French with clipped activations", (SLICE,), where="language=fr")(lambda world: world.where(
    lambda i, row: row["slices"]["language"] == "fr", world.run(activations=lambda x: np.clip(x, -2, 2))))
fault("German with weights moved by 10%", (SLICE,), where="language=de")(lambda world: world.where(
    lambda i, row: row["slices"]["language"] == "de", world.run(weights=world.moved(0.1))))
fault("licences at temperature 1.2", (SCALED,), also=(SLICE,), where="domain=licence")(lambda world: world.where(
    lambda i, row: row["slices"]["domain"] == "licence", world.each(lambda z: z / np.float32(1.2))))
fault("every ninth sequence with weights moved by 15%", (SEQUENCES,))(lambda world: world.where(
    lambda i, row: i % 9 == 4, world.run(weights=world.moved(0.15))))

# Caches and precision: what a kernel is built to do is no fault where its size is that of rounding.
fault("KV cache in int8", (NOTHING, GROWS))(lambda world: world.run(
    cached=lambda k, v, layer: (to_integers(k, 8), to_integers(v, 8))))
fault("KV cache in int4", (NOTHING, GROWS, SOME))(lambda world: world.run(
    cached=lambda k, v, layer: (to_integers(k, 4), to_integers(v, 4))))
fault("bf16", (NOTHING,))(lambda world: world.kernel().rounded(to_bf16).run(world.sequences))
fault("fp8", (NOTHING,))(lambda world: world.kernel().rounded(to_fp8).run(world.sequences))
fault("int8", (NOTHING,))(lambda world: world.kernel().rounded(lambda x: to_integers(x, 8)).run(world.sequences))
fault("weights in int4", (NOTHING, SOME))(
    lambda world: world.run(weights=world.changed(lambda n, w: to_integers(w, 4))))
fault("logits in bf16", (NOTHING,))(lambda world: world.each(to_bf16))


@fault("one NaN", (NONFINITE,))
def one_nan(world):
    out = [z.copy() for z in world.right]
    out[7][20, 30] = np.nan
    return out
