"""A stand-in for one step of verl's trainer, which imports its metric functions in the middle of the step."""


def step(batch, rollout_correction=None):
    metrics = {}
    if "rollout_log_probs" in batch.batch:
        from verl.utils.debug.metrics import calculate_debug_metrics

        metrics.update(calculate_debug_metrics(batch))
    if rollout_correction is not None:
        from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_and_add_to_batch

        batch, more = compute_rollout_correction_and_add_to_batch(batch, rollout_correction)
        metrics.update(more)
    return batch, metrics
