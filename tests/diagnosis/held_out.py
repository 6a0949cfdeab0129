"""The held-out faults: written down, with the names that are right, before the rules were fitted to the battery.
They tell how well the rules do on faults that nobody had in view."""
import numpy as np

from battery import dropped_heads, kept_mass
from kernel import BOS, LAYERS, name_of, to_integers
from names import (ATTENTION, BLIND_ATTENTION, FILTERED, GROWS, NOTHING, PERMUTED, SCALED, SEQUENCES, SLICE, SOME,
                   START, WRONG, Fault)

FAULTS = [
    Fault("rope on half of a head's dimensions", (ATTENTION, GROWS), lambda world: world.run(rope_dims=16),
          BLIND_ATTENTION),
    Fault("rope base 5000 for 10000", (ATTENTION, GROWS), lambda world: world.run(rope_base=5000.0), BLIND_ATTENTION),
    Fault("query and key projections swapped in layer 1", (ATTENTION, GROWS), lambda world: world.run(weights={
        **world.weights, name_of(1, "self_attn.q_proj"): world.weights[name_of(1, "self_attn.k_proj")],
        name_of(1, "self_attn.k_proj"): world.weights[name_of(1, "self_attn.q_proj")]}), BLIND_ATTENTION),
    Fault("window of 24 positions in layers 0 and 2", (GROWS,), lambda world: world.run(
        visible=lambda q, k, layer: k > q - (24 if layer % 2 == 0 else 1000))),
    Fault("layers one place too early", (WRONG,), lambda world: world.run(
        layers=[(i + 1) % LAYERS for i in range(LAYERS)])),
    Fault("layer 0 missing", (WRONG,), lambda world: world.run(layers=[1, 2, 3])),
    Fault("head 3 of layers 0 and 3 missing", (SOME, WRONG), lambda world: world.run(
        heads=lambda mixed, place: dropped_heads(place, [3])(mixed, place) if place in (0, 3) else mixed)),
    Fault("norm weights of the attention read as 1", (WRONG, SOME), lambda world: world.run(weights={
        n: np.ones_like(w) if "input_layernorm" in n else w for n, w in world.weights.items()})),
    Fault("mlps of layers 1 and 3 moved by 30%", (SOME, WRONG), lambda world: world.run(weights=world.moved(
        0.3, seed=11, chosen=lambda n: "mlp" in n and (".1." in n or ".3." in n)))),
    Fault("temperature 1.03", (SCALED,), lambda world: world.each(lambda z: z / np.float32(1.03))),
    Fault("top-p 0.8 then temperature 0.9", (FILTERED,), lambda world: world.each(
        lambda z: kept_mass(z, 0.8) / np.float32(0.9)), also=(SCALED,)),
    Fault("long prompts with a KV cache in 3 bits", (SLICE,), lambda world: world.where(
        lambda i, row: row["slices"]["prompt_length"] == "long",
        world.run(cached=lambda k, v, layer: (to_integers(k, 3), to_integers(v, 3)))),
          also=(GROWS, SEQUENCES), where="prompt_length=long"),
    Fault("the token that begins a text given twice", (START,), lambda world: world.run(prefix=[BOS]),
          (START, NOTHING)),
    Fault("the prefix of another sequence in the cache of a seventh", (SEQUENCES,), lambda world: world.where(
        lambda i, row: i % 7 == 2, world.run(inputs=lambda ids: [*world.sequences[0][:6], *ids[6:]])),
          also=(START,)),
    Fault("rows of the head rotated by three", (PERMUTED,), lambda world: world.run(weights={
        **world.weights, "lm_head.weight": np.roll(world.weights["lm_head.weight"], 3, 0)})),
]
