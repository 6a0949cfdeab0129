"""slime: figures by its function paths, without a change to slime.

    --custom-rollout-log-function-path driftgate.integrations.slime.log_rollout_data
    --rollout-data-postprocess-path    driftgate.integrations.slime.postprocess
    --get-mismatch-metrics --custom-tis-function-path driftgate.integrations.slime.mismatch

The first logs what the rollouts alone say and keeps them as captures; either of the others compares them with the
trainer's log-probabilities. Each function has slime's documented signature. docs/integrations/slime.md.
"""

import logging
import os
from typing import Any, Dict, List, Optional, Tuple

from . import captures, figures, monitor

_log = logging.getLogger(__name__)


def _flat(samples: Any) -> List[Any]:
    out: List[Any] = []
    for sample in samples:
        out.extend(_flat(sample) if isinstance(sample, (list, tuple)) else [sample])
    return out


def _responses(samples: List[Any]) -> Tuple[List[Any], int, int]:
    """(sample number, tokens, log-probabilities) of the sampled tokens; samples without log-probabilities; tokens
    whose log-probability is not finite."""
    import math

    rows, without, bad = [], 0, 0
    for number, sample in enumerate(samples):
        values = getattr(sample, "rollout_log_probs", None)
        length = int(getattr(sample, "response_length", 0))
        if not values or len(values) != length:
            without += 1
            continue
        mask = getattr(sample, "loss_mask", None) or [1] * length
        kept = [(token, value) for token, value, counted in zip(sample.tokens[-length:], values, mask) if counted]
        bad += sum(not math.isfinite(value) for _, value in kept)
        if kept:
            rows.append((number, [t for t, _ in kept], [v for _, v in kept]))
    return rows, without, bad


def log_rollout_data(rollout_id: int, args: Any, samples: Any, rollout_extra_metrics: Optional[Dict[str, Any]],
                     rollout_time: float) -> bool:
    """For --custom-rollout-log-function-path. Adds to slime's own metrics and returns False, so that slime logs them.

    driftgate/rollout_log_ppl, driftgate/rollout_tokens, driftgate/rollout_nonfinite, and
    driftgate/rollout_without_logprobs: the share of samples without log-probabilities. With DRIFTGATE_CAPTURES=FOLDER the
    rollouts are kept as FOLDER/rollout_N, captures of target tokens that K_inf sampled.
    """
    flat = _flat(samples)
    rows, without, bad = _responses(flat)
    tokens = sum(len(values) for _, _, values in rows)
    figures_now: Dict[str, float] = {"driftgate/rollout_tokens": float(tokens), "driftgate/rollout_nonfinite": float(bad),
                                     "driftgate/rollout_without_logprobs": without / max(1, len(flat))}
    if rows:
        figures_now["driftgate/rollout_log_ppl"] = -sum(sum(v) / len(v) for _, _, v in rows) / len(rows)
    folder = os.environ.get("DRIFTGATE_CAPTURES", "")
    if folder and rows:
        os.makedirs(folder, exist_ok=True)
        write_rollouts(os.path.join(folder, f"rollout_{rollout_id}"), rows, args)
    if rollout_extra_metrics is None:  # slime gives a dictionary or nothing; without one there is nothing to add to
        _log.info("rollout %d: %s", rollout_id, figures_now)
    else:
        rollout_extra_metrics.update(figures_now)
    return False


def write_rollouts(path: str, rows: List[Any], args: Any = None) -> int:
    """Sampled tokens and their log-probabilities as a capture, which names the filters that slime's sampling used."""
    top_p, top_k = getattr(args, "rollout_top_p", 1.0), getattr(args, "rollout_top_k", -1)
    filters = [f"top-p {top_p}"] if top_p not in (None, 1, 1.0) else []
    filters += [f"top-k {top_k}"] if top_k not in (None, -1, 0) else []
    kernel = os.environ.get("DRIFTGATE_INF_KERNEL", "rollout")
    return captures.write_rows(
        path, [captures.Row(number, position, token, value) for number, tokens, values in rows
               for position, (token, value) in enumerate(zip(tokens, values))],
        kernel, token_source=kernel, sampling_filter=", ".join(filters) or "none",
        checkpoint=os.environ.get("DRIFTGATE_CHECKPOINT", ""),
        temperature=float(getattr(args, "rollout_temperature", None) or 1.0))


def postprocess(args: Any, rollout_id: Any = None, rollout_data: Optional[Dict[str, Any]] = None) -> None:
    """For --rollout-data-postprocess-path, which runs on each training actor once it has its log-probabilities.

    Adds one value for each sample under driftgate/… and the names of `figures.slime`; slime logs their means over all
    ranks as rollout/driftgate/…, weighing each sample alike. Nothing is added on ranks that have no log-probabilities
    (pipeline stages before the last). Context parallelism splits a sample among ranks: there use `mismatch`.
    """
    data = rollout_data if rollout_data is not None else rollout_id
    if not isinstance(data, dict):
        raise TypeError("slime gave this hook no rollout_data: this version of slime calls it before there are "
                        "log-probabilities; use --custom-tis-function-path driftgate.integrations.slime.mismatch")
    train, inf = data.get("log_probs"), data.get("rollout_log_probs")
    if not train or not inf:
        return
    masks = data["loss_masks"]
    if any(len(a) != len(m) for a, m in zip(train, masks)):
        raise ValueError("log_probs are shorter than loss_masks: the samples are split by context parallelism, where "
                         "--custom-tis-function-path driftgate.integrations.slime.mismatch works")
    pairs = figures.pairs(list(train), list(inf), list(masks))
    for name, values in {**_sample_figures(pairs), **figures.slime_sequences(pairs)}.items():
        data[name if "/" in name else f"driftgate/{name}"] = [float(value) for value in values]
    tokens = [sample[-len(mask):] for sample, mask in zip(data["tokens"], masks)] if "tokens" in data else None
    watch = monitor.current()
    if watch.contract is not None:
        step = watch.step(list(train), list(inf), list(masks), tokens)
        if "driftgate/verdict" in step:
            data["driftgate/verdict"] = [step["driftgate/verdict"]] * len(masks)


def _sample_figures(p: figures.Pairs) -> Dict[str, Any]:
    """driftgate's figures of each sample, whose mean over samples is meaningful."""
    import numpy as np

    with np.errstate(over="ignore", invalid="ignore"):
        log_w = p.train - p.inf
        excess = np.expm1(log_w)
        owners = np.repeat(np.arange(p.sequences), np.diff(p.offsets))
        counted = np.maximum(np.diff(p.offsets), 1)

        def means(values):
            return np.bincount(owners, weights=values, minlength=p.sequences) / counted

        whole = np.expm1(np.bincount(owners, weights=log_w, minlength=p.sequences))
        return {"driftgate/ratio_mean": means(1 + excess), "driftgate/tv_sampled": means(np.abs(excess)) / 2,
                "driftgate/kl_inf_train_sampled": means(excess - log_w), "driftgate/abs_log_ratio": means(np.abs(log_w)),
                "driftgate/tv_sequence": np.maximum(0.0, -whole), "driftgate/chi2_sequence": whole * whole}


def mismatch(args: Any, *, pg_loss: Any, train_log_probs: List[Any], rollout_log_probs: List[Any], loss_masks: List[Any],
             **more: Any) -> Tuple[Any, List[Any], Dict[str, Any]]:
    """For --custom-tis-function-path: (pg_loss, masks, metrics), the first two unchanged, so that training is the same.

    The metrics are one value for each token, which slime averages over samples, ranks and slices of context
    parallelism. With DRIFTGATE_TIS=module.function that function corrects the loss, and these metrics are added to its own.
    """
    from . import need

    torch = need("torch", "PyTorch", "slime's mismatch hook")
    with torch.no_grad():
        train, inf = torch.cat(list(train_log_probs)).float(), torch.cat(list(rollout_log_probs)).float()
        log_w = train - inf.to(train.device)
        excess = torch.expm1(log_w)
        k3 = excess - log_w
        metrics = {"driftgate_ratio_mean": 1 + excess, "driftgate_tv_sampled": excess.abs() / 2,
                   "driftgate_kl_inf_train_sampled": k3, "driftgate_abs_log_ratio": log_w.abs(),
                   "driftgate_mult_prob_error": log_w.abs().exp(), "mis_kl": -log_w, "mis_k3_kl": k3}
    inner = os.environ.get("DRIFTGATE_TIS", "")
    if not inner:
        return pg_loss, loss_masks, metrics
    import importlib

    module, _, name = inner.rpartition(".")
    pg_loss, masks, theirs = getattr(importlib.import_module(module), name)(
        args, pg_loss=pg_loss, train_log_probs=train_log_probs, rollout_log_probs=rollout_log_probs, loss_masks=loss_masks,
        **more)
    return pg_loss, masks, {**metrics, **theirs}
