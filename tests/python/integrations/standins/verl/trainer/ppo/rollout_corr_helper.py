"""A stand-in for verl's rollout correction: (batch, config) -> (batch, metrics), which may change response_mask."""


def compute_rollout_correction_and_add_to_batch(batch, rollout_corr_config):
    mask = batch.batch["response_mask"].clone()
    mask[0] = 0  # a rejected sequence
    batch.batch["response_mask"] = mask
    return batch, {"rollout_corr/kl": 42.0}
