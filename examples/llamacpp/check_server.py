#!/usr/bin/env python3
"""Says whether capture.py computes what a llama-server serves.

    check_server.py --url http://127.0.0.1:8080 --model tinylm-q8_0.gguf --corpus corpus.jsonl

The server continues the beginnings of some sequences of the corpus, one at a time and without its prompt cache, and
states the probabilities of all tokens at each step. The same tokens are then evaluated as capture.py does it, and the
total variation distance between the two is printed. Ends with 1 when its mean is over --limit. Answers in which the
server leaves a token out, as it does where one character takes several tokens, are not compared."""
import argparse
import json
import pathlib
import sys
import urllib.request

import numpy as np

from capture import Engine, Sequence, add_engine_options, read_corpus


def continuation(url, prompt, count, vocabulary):
    """The tokens that the server generates, and the probabilities of all tokens at each of them; nothing where the
    server lists other tokens than it generated."""
    body = {"prompt": prompt, "n_predict": count, "temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0, "seed": 1,
            "n_probs": vocabulary, "cache_prompt": False, "return_tokens": True, "ignore_eos": True}
    request = urllib.request.Request(url.rstrip("/") + "/completion", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        answer = json.load(response)
    steps = answer.get("completion_probabilities") or []
    if not steps or [step["id"] for step in steps] != answer["tokens"]:
        return None
    probabilities = np.zeros((len(steps), vocabulary))
    for row, step in zip(probabilities, steps):
        for token in step["top_logprobs"]:
            row[token["id"]] = np.exp(token["logprob"])
    return answer["tokens"], probabilities


def softmax(logits):
    shifted = np.exp(logits.astype(np.float64) - logits.max(1, keepdims=True))
    return shifted / shifted.sum(1, keepdims=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_engine_options(parser)
    parser.add_argument("--url", required=True, help="base URL of the server")
    parser.add_argument("--corpus", required=True, help="JSON Lines, as capture.py reads it")
    parser.add_argument("--sequences", type=int, default=40, help="of the corpus, from its beginning")
    parser.add_argument("--tokens", type=int, default=16, help="to generate for each")
    parser.add_argument("--limit", type=float, default=1e-5, help="of the mean tv")
    args = parser.parse_args()
    engine = Engine(args.library, args.model)
    corpus, _ = read_corpus(args.corpus, pathlib.Path(args.corpus).read_bytes(), engine, args.tokens)
    engine.prepare(1, max(len(s.tokens) for s in corpus), args)
    served, answers, prompts = [], [], []
    for sequence in corpus[:args.sequences]:
        prompt = sequence.tokens[:sequence.first]
        found = continuation(args.url, prompt, len(sequence.tokens) - sequence.first, engine.vocabulary)
        if found is None:
            continue
        same = Sequence(sequence.number, prompt + found[0], len(prompt))
        served.append(found[1])
        answers.append(softmax(engine.evaluate([same], True)))
        prompts.append(softmax(engine.evaluate([same], False)))
    if not served:
        sys.exit("check_server.py: the server left tokens out of every answer, so that nothing could be compared")
    tv = [np.abs(np.concatenate(served) - np.concatenate(own)).sum(1) / 2 for own in (answers, prompts)]
    print(f"{engine.kernel}: {len(tv[0])} tokens of {len(served)} answers; mean tv from the server {tv[0].mean():.2g} "
          f"(largest {tv[0].max():.2g}) as an answer, {tv[1].mean():.2g} ({tv[1].max():.2g}) as a prompt")
    return int(not tv[0].mean() <= args.limit)


if __name__ == "__main__":
    sys.exit(main())
