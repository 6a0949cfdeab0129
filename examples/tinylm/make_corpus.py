#!/usr/bin/python3
"""Builds the training text and the corpora of tinylm from text that Debian packages ship.

  make_corpus.py --text-root DIR --train-out train.json.gz --data data/

Every twelfth block of each document is held out; corpora are cut from the held-out blocks only.
"""
import argparse
import gzip
import json
import pathlib
import random

from text_sources import documents, fetch

SEED = 20260721
BLOCK_BYTES = 3000
SHORT_BYTES, LONG_BYTES = (40, 72), (112, 160)
PROMPT_BYTES = {"short": (16, 32), "long": (64, 96)}
# Share of each (language, domain) in the slice corpus; about 80% English.
SLICE_PLAN = {("en", "manual"): 280, ("en", "licence"): 240, ("en", "code"): 290, ("de", "manual"): 110, ("fr", "manual"): 110}
NUMERIC_PLAN = {("en", "manual"): 70, ("en", "licence"): 50, ("en", "code"): 50, ("de", "manual"): 20, ("fr", "manual"): 20}
# Sequences after those of the plan, drawn on their own so that the first ones stay what they were: 130 of each language
# that a contract may hold as critical (a p97 of sequences takes 116), and 260 in the numeric corpus.
MORE = {"slice": {("de", "manual"): 20, ("fr", "manual"): 20},
        "numeric": {("en", "manual"): 14, ("en", "licence"): 13, ("en", "code"): 13, ("de", "manual"): 5, ("fr", "manual"): 5}}
CALIBRATION_PLAN = {("en", "manual"): 56, ("en", "licence"): 36, ("en", "code"): 36}
PROMPT_PLAN = {("en", "manual"): 140, ("en", "licence"): 100, ("en", "code"): 120, ("de", "manual"): 45, ("fr", "manual"): 45}
ROLLOUT_PLAN = {("en", "manual"): 36, ("en", "licence"): 28, ("en", "code"): 28, ("de", "manual"): 18, ("fr", "manual"): 18}


def split(root):
    """(train, held): text blocks by (language, domain)."""
    train, held, counter = {}, {}, 0
    for language, domain, _, text in documents(root):
        blocks = [text[i:i + BLOCK_BYTES] for i in range(0, len(text), BLOCK_BYTES)]
        for block in blocks:
            counter += 1
            target = held if counter % (5 if domain == "licence" else 12) == 0 else train
            target.setdefault((language, domain), []).append(block)
    return train, held


def cut(rng, blocks, low, high):
    """A window that begins at a line with text in it and ends at a character boundary, at most `high` bytes."""
    while True:
        block = rng.choice(blocks)
        starts = [i + 1 for i, c in enumerate(block[:-high]) if c == "\n" and block[i + 1].strip()]
        if not starts:
            continue
        start = rng.choice(starts)
        window = block[start:start + high].encode()[:rng.randint(low, high)].decode("utf-8", "ignore")
        if len(window.encode()) >= low:
            return window


def corpus(rng, held, plan, lengths, prefix, seen):
    """Sequences of a plan, shuffled, without repeats and without the texts in `seen`, which grows."""
    items = []
    for (language, domain), count in plan.items():
        made = 0
        while made < count:
            length = "short" if made % 2 == 0 else "long"
            text = cut(rng, held[language, domain], *lengths[length])
            if text in seen or (prefix == "calibration" and not text.isascii()):
                continue
            seen.add(text)
            items.append({"slices": {"language": language, "domain": domain, "prompt_length": length}, "text": text})
            made += 1
    rng.shuffle(items)
    return items


def numbered(items, prefix):
    return [{"sequence": i, "id": f"{prefix}-{i:04d}", **item} for i, item in enumerate(items)]


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    print(f"{path}: {len(rows)} sequences")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text-root", help="folder with unpacked packages; downloaded when absent")
    parser.add_argument("--train-out", default="train.json.gz")
    parser.add_argument("--data", default=str(pathlib.Path(__file__).parent / "data"))
    args = parser.parse_args()
    train, held = split(fetch(args.text_root))
    streams = {f"{language}/{domain}": "\n".join(blocks) for (language, domain), blocks in train.items()}
    with gzip.open(args.train_out, "wt", encoding="utf-8", compresslevel=4) as out:
        json.dump(streams, out, ensure_ascii=False)
    for name, text in streams.items():
        print(f"{name}: {len(text.encode())} bytes to train on, {sum(len(b.encode()) for b in held[tuple(name.split('/'))])} held out")
    data = pathlib.Path(args.data)
    data.mkdir(parents=True, exist_ok=True)
    lengths = {"short": SHORT_BYTES, "long": LONG_BYTES}
    for name, plan, spec in (("slice", SLICE_PLAN, lengths), ("numeric", NUMERIC_PLAN, lengths),
                             ("calibration", CALIBRATION_PLAN, lengths), ("prompts", PROMPT_PLAN, PROMPT_BYTES),
                             ("rollout_prompts", ROLLOUT_PLAN, PROMPT_BYTES)):
        seen = set()
        items = corpus(random.Random(f"{SEED}/{name}"), held, plan, spec, name, seen)
        items += corpus(random.Random(f"{SEED}/{name}/more"), held, MORE.get(name, {}), spec, name, seen)
        rows = numbered(items, name)
        if name.endswith("prompts"):
            rows = [{**{k: v for k, v in row.items() if k != "text"}, "prompt": row["text"]} for row in rows]
        write_jsonl(data / f"{name}.jsonl", rows)


if __name__ == "__main__":
    main()
