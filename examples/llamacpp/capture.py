#!/usr/bin/env python3
"""Writes a driftgate capture of a GGUF model, evaluated by llama.cpp's own library.

    capture.py --model tinylm-q8_0.gguf --corpus corpus.jsonl --out q8_0.safetensors
    driftgate drift train.safetensors q8_0.safetensors --corpus corpus.jsonl

The corpus is JSON Lines: {"sequence": 0, "text": "…", "slices": {"language": "de"}}. `token_ids` in place of `text`
are taken as they are; `score_from` is the index of a sequence's first scored token, and without it --last decides.
Texts become tokens by the model's own tokenizer, without reading the names of special tokens in them.

--as prompt evaluates a sequence at once, as llama.cpp evaluates prompts; --as answer evaluates the scored tokens one
by one after the others, as it does when it generates them. With quantised weights the two differ as two kernels do.
--batch N evaluates N sequences at a time: the same kernel with other sums, whose drift from --batch 1 is its noise
floor.

Needs numpy, libllama, and liblogits.so beside this file: README.md says how to compile it."""
import argparse
import collections
import ctypes
import hashlib
import json
import os
import pathlib
import struct
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
CHECKPOINT_KEY = "driftgate.checkpoint.digest"  # written by convert_tinylm.py
DTYPES = {np.dtype(np.float32): "F32", np.dtype(np.int32): "I32"}
FLASH_ATTENTION = {"auto": -1, "off": 0, "on": 1}

Sequence = collections.namedtuple("Sequence", "number tokens first")  # first: index of the first scored token


def end(message):
    sys.exit(f"capture.py: {message}")


class Engine:
    """A model in llama.cpp."""

    def __init__(self, library, model):
        try:
            self.library = ctypes.CDLL(str(library))
        except OSError as fault:
            end(f"{library} cannot be loaded ({fault}); README.md says how to compile it")
        for name in ("version", "weights"):
            getattr(self.library, f"logits_{name}").restype = ctypes.c_char_p
        self.library.logits_open.restype = ctypes.c_void_p
        handle = self.library.logits_open(os.fsencode(model))
        if not handle:
            end(f"llama.cpp cannot load {model}")
        self.handle = ctypes.c_void_p(handle)
        self.vocabulary = self.library.logits_vocabulary(self.handle)
        self.longest = self.library.logits_longest(self.handle)
        weights = self.library.logits_weights(self.handle).decode()
        self.kernel = f"llamacpp-{self.library.logits_version().decode()}-{weights}".replace(" ", "-")

    def metadata(self, key):
        text = ctypes.create_string_buffer(1024)
        size = self.library.logits_metadata(self.handle, key.encode(), text, len(text))
        return text.value.decode() if size >= 0 else None

    def tokens_of(self, text):
        data = text.encode()
        room = len(data) + 8
        while True:
            tokens = np.empty(room, np.int32)
            count = self.library.logits_tokenize(self.handle, data, len(data), pointer(tokens), room)
            if count >= 0:
                return tokens[:count].tolist()
            room = -count

    def prepare(self, sequences, tokens, args):
        if not self.library.logits_prepare(self.handle, sequences, tokens, args.threads, args.cache_bits,
                                           FLASH_ATTENTION[args.flash_attention]):
            end(f"llama.cpp cannot make a context of {sequences} sequences of {tokens} tokens")

    def evaluate(self, batch, one_by_one):
        """Logits of the scored tokens of each sequence, row by row. A sequence's last token predicts nothing here."""
        tokens = np.concatenate([np.array(s.tokens[:-1], np.int32) for s in batch])
        lengths = np.array([len(s.tokens) - 1 for s in batch], np.int32)
        first = np.array([s.first - 1 for s in batch], np.int32)
        out = np.empty((int((lengths - first).sum()), self.vocabulary), np.float32)
        failed = self.library.logits_evaluate(self.handle, pointer(tokens), pointer(lengths), pointer(first),
                                              len(batch), one_by_one, pointer(out))
        if failed:
            end(f"llama_decode returned {failed} for the sequences {batch[0].number} to {batch[-1].number}")
        return out


def pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)


def tokens_in(entry, engine):
    if "token_ids" not in entry:
        return engine.tokens_of(entry["text"])
    tokens = [int(token) for token in entry["token_ids"]]
    if not all(0 <= token < engine.vocabulary for token in tokens):
        raise ValueError(f"a token id is not one of the model's {engine.vocabulary}")
    return tokens


def read_corpus(name, data, engine, last):
    """The sequences of two tokens or more, and what sampled their tokens."""
    sequences, source = [], "corpus"
    for number, line in enumerate(data.decode().split("\n"), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            tokens = tokens_in(entry, engine)
            first = int(entry.get("score_from") or max(1, len(tokens) - last if last else 1))
            source = entry.get("token_source", source)
            sequence = Sequence(int(entry["sequence"]), tokens, first)
        except (ValueError, TypeError, KeyError) as fault:
            end(f"{name}, line {number}: wants a JSON object with \"sequence\", and \"text\" or \"token_ids\" "
                f"({fault!r})")
        if len(tokens) > engine.longest:
            end(f"{name}, line {number}: {len(tokens)} tokens are more than the model's context of {engine.longest}; "
                "shorten the text")
        if len(tokens) > first:
            sequences.append(sequence)
    if not sequences:
        end(f"{name}: none of its sequences has a token to score")
    return sequences, source


class Capture:
    """A safetensors file of known size whose logits are written as they come, complete once it has its name."""

    def __init__(self, path, tensors, rows, vocabulary, metadata):
        self.path = path
        header, offset = {"__metadata__": metadata}, 0
        shapes = {name: (array.dtype, array.shape) for name, array in tensors.items()}
        for name, (dtype, shape) in {**shapes, "logits": (np.dtype(np.float32), (rows, vocabulary))}.items():
            size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            header[name] = {"dtype": DTYPES[dtype], "shape": list(shape), "data_offsets": [offset, offset + size]}
            offset += size
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        self.file = open(path + ".partial", "wb")
        self.file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            self.file.write(array.tobytes())

    def add(self, logits):
        self.file.write(logits.tobytes())

    def finish(self):
        self.file.close()
        os.replace(self.path + ".partial", self.path)


def target_tensors(sequences):
    """What says which row is which: the target token, the sequence, and the position that the row was computed at."""
    i32 = lambda values: np.array(values, np.int32)  # noqa: E731
    return {"token_ids": i32([t for s in sequences for t in s.tokens[s.first:]]),
            "sequence_ids": i32([s.number for s in sequences for _ in s.tokens[s.first:]]),
            "positions": i32([p for s in sequences for p in range(s.first - 1, len(s.tokens) - 1)])}


def add_engine_options(parser):
    """What decides how llama.cpp computes, by llama-server's defaults."""
    parser.add_argument("--model", required=True, help="GGUF file")
    parser.add_argument("--cache-bits", type=int, default=16, choices=(16, 32),
                        help="of a number in the key-value cache; llama-server's default is 16")
    parser.add_argument("--flash-attention", default="auto", choices=sorted(FLASH_ATTENTION))
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--library", default=HERE / "liblogits.so", help="what logits.c was compiled to")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_engine_options(parser)
    for name, text in (("corpus", "JSON Lines"), ("out", "capture to write")):
        parser.add_argument(f"--{name}", required=True, help=text)
    parser.add_argument("--kernel", help="name of this kernel (default: llama.cpp's version and the weights' type)")
    parser.add_argument("--checkpoint-digest", help=f"sha256:… (default: {CHECKPOINT_KEY} of the GGUF file)")
    parser.add_argument("--last", type=int, default=0, help="score the last N tokens of each sequence (0 = all)")
    parser.add_argument("--as", dest="way", default="answer", choices=("answer", "prompt"),
                        help="how the scored tokens are evaluated (default: answer)")
    parser.add_argument("--batch", type=int, default=1, help="sequences that are evaluated together")
    args = parser.parse_args()
    if args.batch < 1 or args.threads < 1 or args.last < 0:
        parser.error("--batch and --threads are at least 1, --last at least 0")
    return args


def main():
    args = arguments()
    engine = Engine(args.library, args.model)
    data = pathlib.Path(args.corpus).read_bytes()
    sequences, source = read_corpus(args.corpus, data, engine, args.last)
    tensors = target_tensors(sequences)
    rows = len(tensors["token_ids"])
    engine.prepare(args.batch, max(len(s.tokens) for s in sequences), args)
    capture = Capture(args.out, tensors, rows, engine.vocabulary, {
        "capture.version": "1", "kernel": args.kernel or engine.kernel,
        "checkpoint.digest": args.checkpoint_digest or engine.metadata(CHECKPOINT_KEY) or "",
        "corpus.digest": "sha256:" + hashlib.sha256(data).hexdigest(), "temperature": "1.0", "token_source": source,
        "sampling_filter": "none"})
    for begin in range(0, len(sequences), args.batch):
        capture.add(engine.evaluate(sequences[begin:begin + args.batch], args.way == "answer"))
    capture.finish()
    print(f"{args.out}: {rows} rows of {len(sequences)} sequences, by {args.kernel or engine.kernel}")


if __name__ == "__main__":
    main()
