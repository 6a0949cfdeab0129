"""A stand-in for verl's comparison of probabilities: (batch) -> metrics."""


def calculate_debug_metrics(data):
    gap = (data.batch["old_log_probs"].exp() - data.batch["rollout_log_probs"].exp()).abs()
    mask = data.batch["response_mask"].bool()
    return {"training/rollout_probs_diff_mean": gap[mask].mean().item(), "training/rollout_probs_diff_valid": 1}
