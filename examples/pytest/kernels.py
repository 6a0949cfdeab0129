"""Stand-ins for your own kernels: a head in float32 and the same head with weights in int8, one scale for each row.

EXAMPLE_FAULT=scale multiplies the logits of German sequences by 1.5, as a wrong dequantisation scale does.
"""

import os

import numpy

VOCABULARY, WIDTH, SEQUENCES, ROWS = 400, 48, 120, 12
LANGUAGES = ["de" if i % 4 == 0 else "en" for i in range(SEQUENCES)]


def hidden_states():
    return numpy.random.default_rng(7).normal(size=(SEQUENCES, ROWS, WIDTH)).astype(numpy.float32)


def weights():
    return (numpy.random.default_rng(8).normal(size=(VOCABULARY, WIDTH)) * 0.35).astype(numpy.float32)


def train_logits():
    return hidden_states() @ weights().T


def int8_logits():
    w = weights()
    scale = numpy.abs(w).max(axis=1, keepdims=True) / 127
    logits = hidden_states() @ (numpy.round(w / scale) * scale).astype(numpy.float32).T
    if os.environ.get("EXAMPLE_FAULT") == "scale":
        logits[[language == "de" for language in LANGUAGES]] *= 1.5
    return numpy.ascontiguousarray(logits, dtype=numpy.float32)
