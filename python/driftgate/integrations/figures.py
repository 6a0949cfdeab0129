"""Figures of realised tokens: of each token its log-probability under the training kernel and under the inference kernel.

No logits are needed. Each function returns the figures under the names of one project, with that project's definition;
`driftgate` returns driftgate's own (docs/drift.md, "All metrics"). Sums are in float64, so that a figure agrees with the
project's own float32 sum to float32 rounding. Sequences without a counted token are kept, because some definitions
count them.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

BANDS = (("0_1pct", 0.001), ("1pct", 0.01), ("5pct", 0.05))
_SAFETY = 20.0  # verl clamps log-ratios to this before it squares their exponentials
_NAN = float("nan")


def _numpy():
    from . import need

    return need("numpy", "numpy", "computing figures of log-probabilities")


def as_array(values: Any):
    """A float64 array of a tensor on any device, an array or nested lists."""
    np = _numpy()
    if hasattr(values, "detach"):  # torch: numpy knows no bfloat16
        values = values.detach().cpu().double().numpy()
    return np.asarray(values, dtype=np.float64)


def _rows(values: Any, what: str) -> List[Any]:
    """One array for each sequence: of a matrix its rows, of a list its items, of one vector itself."""
    np = _numpy()
    ragged = isinstance(values, (list, tuple)) and len(values) > 0 and (
        hasattr(values[0], "__len__") or getattr(values[0], "ndim", 0) == 1)
    if ragged:
        return [as_array(row).reshape(-1) for row in values]
    array = as_array(values)
    if array.ndim > 2:
        raise ValueError(f"{what} has {array.ndim} dimensions; wants [sequences, tokens] or a list of sequences")
    return list(array) if array.ndim == 2 else [np.atleast_1d(array)]


class Pairs(NamedTuple):
    """The counted tokens of all sequences in a row: `offsets[i]` to `offsets[i + 1]` are those of sequence i."""

    train: Any
    inf: Any
    offsets: Any

    @property
    def tokens(self) -> int:
        return int(self.train.size)

    @property
    def sequences(self) -> int:
        return len(self.offsets) - 1


def pairs(train: Any, inf: Any, mask: Any = None) -> Pairs:
    """Log-probabilities under the training and the inference kernel, [sequences, tokens] or a list of sequences.

    A token counts where `mask` is not zero. ValueError where the shapes differ.
    """
    np = _numpy()
    left, right = _rows(train, "train"), _rows(inf, "inf")
    chosen = [np.ones(row.shape) for row in left] if mask is None else _rows(mask, "mask")
    if not len(left) == len(right) == len(chosen):
        raise ValueError(f"{len(left)} sequences of the training kernel, {len(right)} of the inference kernel and "
                         f"{len(chosen)} of the mask: one of each wanted")
    for number, (a, b, m) in enumerate(zip(left, right, chosen)):
        if not a.shape == b.shape == m.shape:
            raise ValueError(f"sequence {number}: {a.size} tokens of the training kernel, {b.size} of the inference "
                             f"kernel, {m.size} of the mask")
    counted = [m != 0 for m in chosen]
    offsets = np.concatenate(([0], np.cumsum([int(c.sum()) for c in counted]))).astype(np.int64)
    empty = np.zeros(0)
    return Pairs(np.concatenate([a[c] for a, c in zip(left, counted)] or [empty]),
                 np.concatenate([b[c] for b, c in zip(right, counted)] or [empty]), offsets)


def _sums(p: Pairs, values: Any):
    """Sum of each sequence; 0 where it has no token."""
    np = _numpy()
    owners = np.repeat(np.arange(p.sequences), np.diff(p.offsets))
    return np.bincount(owners, weights=values, minlength=p.sequences)


def _means(p: Pairs, values: Any):
    """Mean of each sequence; 0 where it has no token, as verl's and slime's masked means have it."""
    np = _numpy()
    return _sums(p, values) / np.maximum(np.diff(p.offsets), 1)


def _finite(p: Pairs) -> Pairs:
    """The tokens with two finite log-probabilities, of the sequences that have any."""
    np = _numpy()
    good = np.isfinite(p.train) & np.isfinite(p.inf)
    kept = np.concatenate(([0], np.cumsum(good)))[p.offsets]
    return Pairs(p.train[good], p.inf[good], np.unique(kept))


def driftgate(p: Pairs, clip: float = 0.2) -> Dict[str, float]:
    """driftgate's figures of the realised tokens. Tokens with a log-probability that is not finite are only counted."""
    np = _numpy()
    good = _finite(p)
    out = {"driftgate/tokens": float(good.tokens), "driftgate/sequences": float(good.sequences),
           "driftgate/nonfinite": float(p.tokens - good.tokens)}
    if good.tokens == 0:
        return out
    with np.errstate(over="ignore", invalid="ignore"):
        log_w = good.train - good.inf
        excess = np.expm1(log_w)
        w = 1 + excess
        sequence = _sums(good, log_w)
        whole = np.expm1(sequence)
        figures = {
            "ratio_mean": w.mean(), "tv_sampled": np.abs(excess).mean() / 2,
            "kl_inf_train_sampled": (excess - log_w).mean(), "abs_log_ratio": np.abs(log_w).mean(),
            "mult_prob_error": np.exp(np.abs(log_w)).mean(), "ess_fraction": w.sum() ** 2 / (w.size * (w * w).sum()),
            "clip_budget_used": ((w < 1 - clip) | (w > 1 + clip)).mean(), "chi2_sequence": (whole * whole).mean(),
            "tv_sequence": np.maximum(0.0, -whole).mean(), "log_ppl_diff": -_means(good, log_w).mean(),
            "sequence_log_ratio": sequence.mean(), "prob_pearson": _pearson(np.exp(good.train), np.exp(good.inf))}
        for name, band in BANDS:
            figures[f"band_retention/tokens/{name}"] = (np.abs(excess) <= band).mean()
            figures[f"band_retention/sequences/{name}"] = (np.abs(whole) <= band).mean()
    out.update((f"driftgate/{name}", float(value)) for name, value in figures.items())
    return out


def _pearson(a: Any, b: Any) -> float:
    np = _numpy()
    a, b = a - a.mean(), b - b.mean()
    spread = float((a * a).sum() * (b * b).sum())
    return float(np.clip((a * b).sum() / spread ** 0.5, -1, 1)) if spread > 0 else _NAN


def verl(p: Pairs) -> Dict[str, float]:
    """verl's off-policy metrics: `rollout_corr/…` of its trainer's rollout correction."""
    np = _numpy()
    if p.tokens == 0:
        raise ValueError("the response mask has no valid token")
    with np.errstate(over="ignore", invalid="ignore"):
        log_w = p.train - p.inf
        train, inf = _means(p, p.train), _means(p, p.inf)
        ppl = inf - train
        bounded = np.clip(log_w, -_SAFETY, _SAFETY)
        whole = np.clip(_sums(p, log_w), -_SAFETY, _SAFETY)
        figures = {
            "training_ppl": np.exp(-train).mean(), "training_log_ppl": -train.mean(), "kl": -log_w.mean(),
            "k3_kl": (np.expm1(log_w) - log_w).mean(), "rollout_ppl": np.exp(-inf).mean(), "rollout_log_ppl": -inf.mean(),
            "log_ppl_diff": ppl.mean(), "log_ppl_abs_diff": np.abs(ppl).mean(), "log_ppl_diff_max": ppl.max(),
            "log_ppl_diff_min": ppl.min(), "ppl_ratio": np.exp(ppl).mean(), "chi2_token": np.expm1(2 * bounded).mean(),
            "chi2_seq": np.expm1(2 * whole).mean()}
    return {f"rollout_corr/{name}": float(value) for name, value in figures.items()}


def verl_probs(p: Pairs) -> Dict[str, float]:
    """verl's comparison of probabilities: `training/rollout_probs_diff_…` (std with n − 1) and Pearson's correlation."""
    np = _numpy()
    if p.tokens == 0:
        return {"training/rollout_probs_diff_valid": 0.0}
    a, b = np.exp(p.train), np.exp(p.inf)
    gap = np.abs(a - b)
    return {"training/rollout_probs_diff_valid": 1.0, "training/rollout_probs_diff_max": float(gap.max()),
            "training/rollout_probs_diff_mean": float(gap.mean()),
            "training/rollout_probs_diff_std": float(gap.std(ddof=1)) if gap.size > 1 else _NAN,
            "training/rollout_actor_probs_pearson_corr": _pearson(a, b)}


def nemo_rl(p: Pairs, kl_type: str = "k3") -> Dict[str, float]:
    """NeMo RL's errors between generation and training; `kl_type` is its `reference_policy_kl_type`."""
    np = _numpy()
    if p.tokens == 0:
        return {}
    estimators = {"k1": lambda r: -r, "k2": lambda r: r * r / 2, "k3": lambda r: np.expm1(r) - r}
    if kl_type not in estimators:
        raise ValueError(f"kl_type {kl_type!r} is none of k1, k2, k3")
    kl = estimators[kl_type]
    with np.errstate(over="ignore", invalid="ignore"):
        log_w = p.train - p.inf
        mixture = np.logaddexp(p.train, p.inf) - np.log(2)
        js = sum(np.expm1(side - mixture) - (side - mixture) for side in (p.train, p.inf)) / 2
        return {"token_mult_prob_error": float(np.exp(np.abs(log_w)).mean()), "gen_kl_error": float(kl(log_w).mean()),
                "policy_kl_error": float(kl(-log_w).mean()), "js_divergence_error": float(js.mean())}


def slime(p: Pairs) -> Dict[str, float]:
    """slime's means over sequences of each one's mean: `train_rollout_logprob_abs_diff`, and its mismatch helper's `mis_…`."""
    return {name: float(values.mean()) for name, values in slime_sequences(p).items()}


def slime_sequences(p: Pairs) -> Dict[str, Any]:
    """The figures of `slime` before their mean over sequences: one value for each sequence."""
    np = _numpy()
    with np.errstate(over="ignore", invalid="ignore"):
        log_w = p.train - p.inf
        train, inf = _means(p, p.train), _means(p, p.inf)
        ppl = inf - train
        return {"train_rollout_logprob_abs_diff": _means(p, np.abs(log_w)), "mis_kl": _means(p, -log_w),
                "mis_k3_kl": _means(p, np.expm1(log_w) - log_w), "mis_training_log_ppl": -train,
                "mis_training_ppl": np.exp(-train), "mis_rollout_log_ppl": -inf, "mis_rollout_ppl": np.exp(-inf),
                "mis_log_ppl_diff": ppl, "mis_log_ppl_abs_diff": np.abs(ppl), "mis_ppl_ratio": np.exp(ppl)}


def trl(p: Pairs) -> Dict[str, float]:
    """TRL's `sampling/sampling_logp_difference/…`; 0 without a token, as TRL has it."""
    np = _numpy()
    gap = np.abs(p.train - p.inf)
    return {"sampling/sampling_logp_difference/mean": float(gap.mean()) if gap.size else 0.0,
            "sampling/sampling_logp_difference/max": float(gap.max()) if gap.size else 0.0}


FAMILIES = {"driftgate": driftgate, "verl": verl, "verl_probs": verl_probs, "nemo_rl": nemo_rl, "slime": slime, "trl": trl}


def all_of(p: Pairs, families: Optional[Sequence[str]] = None, clip: float = 0.2) -> Dict[str, float]:
    """The figures of the named families, of all of them by default; of no token only driftgate's. `clip` is PPO's c."""
    chosen = list(FAMILIES) if families is None else list(families)
    unknown = [name for name in chosen if name not in FAMILIES]
    if unknown:
        raise ValueError(f"families {', '.join(unknown)} are none of {', '.join(FAMILIES)}")
    out: Dict[str, float] = {}
    for name in chosen:
        if name == "driftgate":
            out.update(driftgate(p, clip))
        elif p.tokens > 0:
            out.update(FAMILIES[name](p))
    return out
