"""TRL: driftgate's figures in the logs of a GRPO trainer, and a verdict over many steps.

    trainer = GRPOTrainer(…)
    driftgate.integrations.trl.attach(trainer, contract="drift.yaml")
    trainer.train()

The trainer's own batches carry the log-probabilities that vLLM sampled with (`sampling_per_token_logps`) and those of the
policy (`old_per_token_logps`); nothing is computed again. docs/integrations/trl.md.
"""

import weakref
from typing import Any, Dict, Optional

from . import figures, monitor

TRAIN, INF = "old_per_token_logps", "sampling_per_token_logps"


def metrics_of(inputs: Dict[str, Any], watch: monitor.Monitor) -> Optional[Dict[str, float]]:
    """Figures of one batch of a TRL trainer, or None where it lacks one of the two log-probabilities.

    Tokens of the completion count that completion_mask keeps, and tool_mask where there is one.
    """
    train, inf = inputs.get(TRAIN), inputs.get(INF)
    if train is None or inf is None:
        return None
    mask = inputs["completion_mask"]
    if inputs.get("tool_mask") is not None:
        mask = mask * inputs["tool_mask"]
    return watch.step(train, inf, mask, inputs.get("completion_ids"))


class _Means:
    """Figures of the batches since the last log, averaged with the tokens of each; counts are added, and of verdicts the
    worst stays."""

    ADDED = ("driftgate/tokens", "driftgate/sequences", "driftgate/nonfinite")
    LARGEST = ("sampling/sampling_logp_difference/max", "training/rollout_probs_diff_max", "rollout_corr/log_ppl_diff_max")

    def __init__(self) -> None:
        self.batches = self.without = 0
        self.sums: Dict[str, float] = {}
        self.weights: Dict[str, float] = {}

    def add(self, step: Optional[Dict[str, float]]) -> None:
        self.batches += 1
        if step is None:
            self.without += 1
            return
        tokens = max(1.0, step.get("driftgate/tokens", 1.0))
        for name, value in step.items():
            if name == "driftgate/verdict":
                self.sums[name] = monitor.worst(self.sums.get(name, value), value)
            elif name in self.LARGEST:
                self.sums[name] = max(self.sums.get(name, value), value)
            else:
                weight = 1.0 if name in self.ADDED else tokens
                self.sums[name] = self.sums.get(name, 0.0) + weight * value
                self.weights[name] = self.weights.get(name, 0.0) + (0.0 if name in self.ADDED else weight)

    def take(self) -> Dict[str, float]:
        out = {name: total / self.weights[name] if self.weights.get(name) else total for name, total in self.sums.items()}
        if self.batches:
            out["driftgate/batches_without_logprobs"] = float(self.without)
        self.__init__()
        return out


class _Batches:
    """Counts batches. One that a trainer uses again (num_iterations above 1) is the same rollouts and counts once."""

    def __init__(self) -> None:
        self.count = 0
        self._seen: Dict[int, Any] = {}

    def new(self, inputs: Dict[str, Any]) -> bool:
        tensor = inputs.get(INF)
        tensor = inputs.get("completion_ids") if tensor is None else tensor
        held = self._seen.get(id(tensor))
        if tensor is None or (held is not None and held() is tensor):
            return False
        self._seen = {key: kept for key, kept in self._seen.items() if kept() is not None}
        self._seen[id(tensor)] = weakref.ref(tensor)
        self.count += 1
        return True


def callback(means: "_Means") -> Any:
    """A transformers TrainerCallback that adds what `means` has to each log. MissingProject without transformers."""
    from . import need

    base = need("transformers", "transformers", "a TRL callback").TrainerCallback

    class DriftgateCallback(base):  # type: ignore[misc, valid-type]
        """Adds driftgate's figures to the trainer's logs."""

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
            if logs is None or not any(name in logs for name in ("loss", "reward")):
                return  # an evaluation's log, or the summary at the end
            figures_now = means.take()
            logs.update(figures_now)
            if state.log_history and state.log_history[-1].get("step") == state.global_step:
                state.log_history[-1].update(figures_now)  # written before the callbacks run

    return DriftgateCallback()


def attach(trainer: Any, contract: Any = None, *, every: int = 1, watch: Optional[monitor.Monitor] = None,
           **options: Any) -> monitor.Monitor:
    """Watches `trainer`, whose logs then have driftgate/… beside TRL's own, and returns the monitor.

    trainer.compute_loss is wrapped, which sees each batch with its log-probabilities, and a callback is put before the
    others, so that those who report to a service see the figures. `every`: batches from one that is looked at to the
    next. `options` are those of monitor.Monitor. With on_violation="stop", the first violated window ends the training.
    """
    watch = monitor.Monitor(contract, **options) if watch is None else watch
    if every < 1:
        raise ValueError(f"every {every} is no number of batches")
    means, inner, batches = _Means(), trainer.compute_loss, _Batches()
    hook = callback(means)

    def compute_loss(model: Any, inputs: Any, *arguments: Any, **keywords: Any) -> Any:
        if model.training and batches.new(inputs) and (batches.count - 1) % every == 0:
            means.add(metrics_of(inputs, watch))
        return inner(model, inputs, *arguments, **keywords)

    trainer.compute_loss = compute_loss
    trainer.add_callback(hook)
    order = trainer.callback_handler.callbacks  # reporters of services are before a caller's own callbacks
    order.insert(0, order.pop(order.index(hook)))
    return watch


def reward(watch: monitor.Monitor) -> Any:
    """A reward function of weight 0 that reports the monitor's latest verdict by TRL's `log_metric`; give it to
    `reward_funcs` with `reward_weights` 0 where a trainer's logs are made of rewards alone."""

    def driftgate_verdict(completions: Any, log_metric: Any = None, **kwargs: Any) -> Any:
        if log_metric is not None and watch.last is not None:
            log_metric("driftgate/verdict", float(watch.last.exit_code))
        return [0.0] * len(completions)

    return driftgate_verdict


FAMILIES = tuple(figures.FAMILIES)
