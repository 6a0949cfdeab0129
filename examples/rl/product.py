"""driftgate beside a training loop: captures written as safetensors, its bounds and its verdict read back. numpy only."""
import dataclasses
import hashlib
import json
import math
import pathlib
import subprocess

import numpy as np

from inference import load_safetensors
from tensors import save_safetensors

HERE = pathlib.Path(__file__).resolve().parent
TRAIN = "tinylm-train"
EXIT = {0: "pass", 1: "violated", 3: "inconclusive", 4: "error"}


@dataclasses.dataclass
class Report:
    """What `driftgate drift --json --rows-out` said."""
    verdict: str
    links: dict      # name -> link of the whole corpus
    refused: str     # why there is no bound at all, or empty
    document: dict
    row_tv: np.ndarray

    def bound(self, name, field="value"):
        """A link's value or upper limit; None where the link is absent, without one, or broken."""
        link = self.links.get(name)
        if link is None or link["status"] == "broken" or not isinstance(link[field], (int, float)):
            return None
        return link[field]

    def mean(self, metric):
        value = self.document["metrics"].get(metric, {}).get("mean")
        return value if isinstance(value, (int, float)) else None

    def failing(self):
        """Clauses that did not pass, with their verdicts."""
        return [f"{v['clause']}: {v['verdict']}" for v in self.document["verdicts"] if v["verdict"] != "pass"]


def contract_text(kernel_ref, score_norm_max, max_tokens, template=HERE / "contract.yaml"):
    text = pathlib.Path(template).read_text()
    rounded_up = math.ceil(score_norm_max * 1000) / 1000
    for mark, value in (("@KERNEL@", kernel_ref), ("@SCORE_NORM_MAX@", rounded_up), ("@MAX_TOKENS@", max_tokens)):
        text = text.replace(mark, str(value))
    return text


class Product:
    def __init__(self, driftgate, work, score_norm_max, max_tokens):
        self.driftgate, self.work = str(driftgate), pathlib.Path(work)
        self.score_norm_max, self.max_tokens = score_norm_max, max_tokens
        self.work.mkdir(parents=True, exist_ok=True)

    def measure(self, rollouts, train_logits, kernel_ref, checkpoint_digest, rewards=None, advantages=None):
        """Writes the corpus, both captures and the contract, and runs the command."""
        w = self.work
        corpus = []
        for i, line in enumerate(rollouts.sequences):
            more = {"token_source": kernel_ref}
            if rewards is not None:
                more |= {"reward": float(rewards[i]), "advantage": float(advantages[i])}
            corpus.append(json.dumps(line | more) + "\n")
        text = "".join(corpus).encode()
        (w / "corpus.jsonl").write_bytes(text)
        (w / "contract.yaml").write_text(contract_text(kernel_ref, self.score_norm_max, self.max_tokens))
        meta = {"capture.version": "1", "token_source": kernel_ref, "checkpoint.digest": checkpoint_digest,
                "corpus.digest": "sha256:" + hashlib.sha256(text).hexdigest(), "temperature": "1.0",
                "sampling_filter": rollouts.sampling_filter}
        rows = {"token_ids": rollouts.token.astype(np.int32), "positions": rollouts.position.astype(np.int32),
                "sequence_ids": np.array([line["sequence"] for line in rollouts.sequences], np.int32)[rollouts.owner]}
        for name, kernel, logits in (("train", TRAIN, train_logits), ("inf", kernel_ref, rollouts.logits)):
            save_safetensors(w / f"{name}.safetensors", {"logits": logits.astype(np.float32), **rows}, {**meta, "kernel": kernel})
        for stale in ("drift.json", "rows.safetensors"):
            (w / stale).unlink(missing_ok=True)
        command = [self.driftgate, "drift", w / "train.safetensors", w / "inf.safetensors", "--corpus", w / "corpus.jsonl",
                   "--contract", w / "contract.yaml", "--json", w / "drift.json", "--rows-out", w / "rows.safetensors",
                   "--threads", "1"]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if done.returncode not in EXIT or not (w / "drift.json").exists():
            raise RuntimeError(f"driftgate drift ended with {done.returncode}: {done.stderr.strip()}")
        document = json.loads((w / "drift.json").read_text())
        whole = [link for link in document["bounds"] if not link["where"]]
        refused = next((link["refused"] for link in whole if link.get("refused")), "")
        row_tv = load_safetensors(w / "rows.safetensors")[0]["tv"]
        return Report(EXIT[done.returncode], {link["name"]: link for link in whole if "name" in link}, refused, document, row_tv)
