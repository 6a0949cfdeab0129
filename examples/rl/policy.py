"""K_train: tinylm in PyTorch, float32, and the two ways of learning from rollouts."""
import pathlib
import shutil
import sys

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tinylm"))
from model import load_model  # noqa: E402
from tensors import checkpoint_digest, save_safetensors  # noqa: E402

MODEL = pathlib.Path(__file__).resolve().parent.parent / "tinylm" / "model"


class Scores:
    """K_train on a batch of rollouts, one row for each sampled token."""

    def __init__(self, logits, hidden, token):
        self.logits, self.hidden = logits, hidden
        self.logprob = torch.log_softmax(logits, -1).gather(1, token[:, None])[:, 0]


class Policy:
    """Every matrix is trained. Norms stay as they are, so that the score norm of the head is bounded by the same number
    throughout."""

    def __init__(self, rate):
        torch.set_num_threads(1)
        self.model = load_model(MODEL)
        self.config = MODEL / "config.json"
        self.norm_weight = self.model.model.norm.weight.detach().numpy()
        for weight in self.model.parameters():
            weight.requires_grad_(weight.dim() == 2)
        self.parameters = [w for w in self.model.parameters() if w.requires_grad]
        self.optimizer = torch.optim.Adam(self.parameters, lr=rate)
        self.model.model.norm.register_forward_hook(self._keep)

    def _keep(self, module, inputs, output):
        self.hidden = output

    def publish(self, folder):
        """Writes the weights as float32 for the rollout engine; returns the checkpoint's digest."""
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.config, folder / "config.json")
        weights = {name: w.detach().numpy() for name, w in sorted(self.model.state_dict().items())}
        save_safetensors(folder / "model.safetensors", weights, {"format": "pt"})
        return checkpoint_digest(folder)

    def score(self, rollouts, responses=None):
        """Scores of all responses, or of the rows of some (their numbers)."""
        chosen = np.arange(len(rollouts.sequences)) if responses is None else np.asarray(responses)
        place = np.full(len(rollouts.sequences), -1)
        place[chosen] = np.arange(len(chosen))
        rows = np.flatnonzero(place[rollouts.owner] >= 0)
        logits = self.model(torch.from_numpy(rollouts.tokens[chosen, :-1]))
        where = (torch.from_numpy(place[rollouts.owner[rows]]), torch.from_numpy(rollouts.position[rows]))
        return Scores(logits[where], self.hidden[where], torch.from_numpy(rollouts.token[rows])), rows

    def evaluate(self, rollouts, batch=256):
        """(logits, hidden) of every row as numpy arrays, without gradients."""
        logits, hidden = [], []
        with torch.no_grad():
            for begin in range(0, len(rollouts.sequences), batch):
                scores, _ = self.score(rollouts, range(begin, min(begin + batch, len(rollouts.sequences))))
                logits.append(scores.logits.numpy())
                hidden.append(scores.hidden.numpy())
        return np.concatenate(logits), np.concatenate(hidden)

    def mean_gradient_norm(self, rollouts, row_coefficients):
        """|mean over rows of sum_v c_v d logit_v| with respect to everything that is trained; a figure for each [rows, V]."""
        scores, _ = self.score(rollouts)
        norms = []
        for c in row_coefficients:
            loss = (scores.logits * torch.from_numpy(c.astype(np.float32))).sum() / len(c)
            gradient = torch.autograd.grad(loss, self.parameters, retain_graph=True)
            norms.append(float(torch.sqrt(sum((g.double() ** 2).sum() for g in gradient))))
        return norms

    def step(self, loss):
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()


def reinforce(policy, rollouts, advantages, _rng):
    """One step along the plain estimator: advantage times the score of every sampled token, uncorrected."""
    scores, _ = policy.score(rollouts)
    weight = torch.from_numpy(advantages[rollouts.owner].astype(np.float32))
    policy.step(-(weight * scores.logprob).sum() / len(rollouts.sequences))


def ppo(policy, rollouts, advantages, rng, epochs=2, minibatches=2, clip=0.2, is_clip=1.0):
    """Clipped PPO against K_train's own probabilities before the step, each token weighted by the importance ratio
    K_train / K_inf within [1 - is_clip, 1 + is_clip], as trainers correct for their rollout engine."""
    old_logits, _ = policy.evaluate(rollouts)
    token = torch.from_numpy(rollouts.token)
    log_prob = lambda logits: torch.log_softmax(torch.from_numpy(logits), -1).gather(1, token[:, None])[:, 0]
    old, sampled = log_prob(old_logits), log_prob(rollouts.logits)
    weight = torch.exp(old - sampled).clamp(1 - is_clip, 1 + is_clip)
    advantage = torch.from_numpy(advantages[rollouts.owner].astype(np.float32))
    for _ in range(epochs):
        order = rng.permutation(len(rollouts.sequences))
        for part in np.array_split(order, minibatches):
            scores, rows = policy.score(rollouts, np.sort(part))
            ratio = torch.exp(scores.logprob - old[rows])
            gain = torch.minimum(ratio * advantage[rows], ratio.clamp(1 - clip, 1 + clip) * advantage[rows])
            policy.step(-(weight[rows] * gain).sum() / len(part))


ALGORITHMS = {"reinforce": reinforce, "ppo": ppo}
