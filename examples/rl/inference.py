"""K_inf: rollouts by a kernel of tinylm, as a rollout engine beside a trainer makes them. numpy only."""
import dataclasses
import json
import pathlib
import subprocess
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tinylm"))
from tensors import load_safetensors  # noqa: E402

TINYLM = pathlib.Path(__file__).resolve().parent.parent / "tinylm"
PROMPT_BYTES = 15
BATCH = 64  # sequences that the rollout engine continues together
SCALES = TINYLM / "int8-static" / "activation_scales.safetensors"


@dataclasses.dataclass(frozen=True)
class Kernel:
    """What samples: a kernel of tinylm, how many steps its weights are behind, and its sampler's top-p."""
    name: str
    program: str
    lag: int = 0
    top_p: float = 1.0

    @property
    def ref(self):
        """Its name in captures and contracts."""
        return "tinylm-" + self.name


@dataclasses.dataclass
class Rollouts:
    """n responses and one row for each sampled token, response by response; `logits` are those that were sampled from."""
    sequences: list        # the corpus's lines
    prompt_length: int
    tokens: np.ndarray     # [n, prompt + max_tokens], prompt and response, padded with 0
    owner: np.ndarray      # [rows] which response
    position: np.ndarray   # [rows] index of the token that the row was computed at
    token: np.ndarray      # [rows] the sampled token
    logits: np.ndarray     # [rows, vocabulary]
    starts: np.ndarray     # [n + 1] first row of each response
    sampling_filter: str

    @property
    def before(self):
        return self.tokens[self.owner, self.position]

    def sums(self, of_rows):
        return np.bincount(self.owner, of_rows, len(self.sequences))


def prompt_pool(path=TINYLM / "data" / "prompts.jsonl"):
    """Prompts cut to one length, so that a batch needs no padding ahead of its responses."""
    pool = []
    for line in pathlib.Path(path).read_text().splitlines():
        row = json.loads(line)
        text = row["prompt"].encode()[:PROMPT_BYTES]
        if len(text) == PROMPT_BYTES:
            pool.append({"token_ids": [256, *text], "slices": {"language": row["slices"]["language"]}})
    return pool


def write_prompts(path, prompts):
    with open(path, "w") as out:
        for number, prompt in enumerate(prompts):
            out.write(json.dumps({"sequence": number, **prompt}) + "\n")


def rollout(tinylm, kernel, model, prompts, work, seed, max_tokens):
    """Samples one response to each prompt of the file. Prompts are equally long; equal seeds share random numbers."""
    work = pathlib.Path(work)
    command = [tinylm, "rollout", "--model", model, "--kernel", kernel.program, "--scales", SCALES, "--prompts", prompts,
               "--out", work / "rollouts.jsonl", "--capture", work / "sampled.safetensors", "--max-tokens", str(max_tokens),
               "--seed", str(seed), "--batch", str(BATCH), "--top-p", str(kernel.top_p)]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"tinylm rollout ended with {done.returncode}: {done.stderr.strip()}")
    return read_rollouts(work / "rollouts.jsonl", work / "sampled.safetensors", max_tokens)


def read_rollouts(corpus, capture, max_tokens):
    lines = [json.loads(line) for line in pathlib.Path(corpus).read_text().splitlines()]
    kept, meta = load_safetensors(capture)
    prompt = lines[0]["score_from"]
    assert all(line["score_from"] == prompt for line in lines), "prompts of different lengths"
    tokens = np.zeros((len(lines), prompt + max_tokens), np.int64)
    for i, line in enumerate(lines):
        tokens[i, :len(line["token_ids"])] = line["token_ids"]
    lengths = np.array([len(line["token_ids"]) - prompt for line in lines])
    owner = np.repeat(np.arange(len(lines)), lengths)
    assert (kept["sequence_ids"] == np.array([line["sequence"] for line in lines])[owner]).all()
    return Rollouts(lines, prompt, tokens, owner, kept["positions"].astype(np.int64), kept["token_ids"].astype(np.int64),
                    kept["logits"], np.concatenate(([0], np.cumsum(lengths))), meta["sampling_filter"])
