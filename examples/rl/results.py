"""Figures of the runs as one CSV, and what must hold of them. No numpy."""
import csv

FIELDS = (  # column, path into a record
    ("kind", "kind"), ("step", "step"), ("kernel", "kernel"), ("n", "n"), ("baseline", "baseline"), ("verdict", "verdict"),
    ("reward_inf", "sequence.reward_inf"), ("reward_train", "sequence.reward_train"), ("tv", "token.tv_mean"),
    ("kl_inf_train", "kl_inf_train"), ("refused", "bounds.refused"), ("rows", "token.rows"),
    ("least_token", "token.row_least_token"), ("median_token", "token.row_median_token"),
    ("least_response", "token.row_least_response"), ("least_worst", "token.row_least_worst"),
    ("median_worst", "token.row_median_worst"), ("least_reward", "token.row_least_reward"),
    ("median_reward", "token.row_median_reward"), ("tv_difference", "token.tv_largest_difference"),
    ("pg_bound", "bounds.policy_gradient.value"), ("pg_limit", "bounds.policy_gradient.upper"), ("pg_bias", "token.bias"),
    ("pg_gradient", "token.gradient"), ("pg_clipped_limit", "bounds.policy_gradient_clipped.upper"),
    ("pg_clipped_exact", "token.clip_excess_exact"), ("pg_clipped_bias", "token.bias_clipped"),
    ("reward_bound", "bounds.reward.value"), ("reward_gap_token", "token.reward_gap"), ("p_outside", "token.p_mass_outside_q"),
    ("seq_tv_bound", "bounds.sequence_best.value"), ("seq_reward_bound", "bounds.reward_sequence.value"),
    ("seq_reward_limit", "bounds.reward_sequence.upper"), ("seq_gap", "sequence.reward_gap.value"),
    ("seq_gap_low", "sequence.reward_gap.low"), ("seq_gap_high", "sequence.reward_gap.high"),
    ("seq_pg_bound", "bounds.policy_gradient_sequence.value"), ("seq_pg_limit", "bounds.policy_gradient_sequence.upper"),
    ("seq_bias", "sequence.bias.value"), ("seq_bias_low", "sequence.bias.low"), ("seq_bias_high", "sequence.bias.high"),
    ("seq_bias_corrected", "sequence.bias_corrected.value"), ("seq_gradient", "sequence.gradient.value"),
    ("different", "sequence.different"), ("weight_furthest", "sequence.weight_furthest_from_1"),
    ("full_bias", "full.bias"), ("full_gradient", "full.gradient"),
)
COLUMNS = ("run", "algorithm", "planned", "gated", "seed", *(name for name, _ in FIELDS))
TEXTS = {"run", "algorithm", "planned", "kind", "kernel", "verdict", "refused"}


def _at(record, path):
    for part in path.split("."):
        record = record.get(part) if isinstance(record, dict) else None
    return record


def rows_of(runs):
    for name, (settings, records) in runs.items():
        head = {"run": name, "algorithm": settings["algorithm"], "planned": settings["kernel"],
                "gated": int(settings["gate"]), "seed": settings["seed"]}
        for record in records:
            yield head | {column: _at(record, path) for column, path in FIELDS}


def write(path, rows):
    show = lambda v: "" if v is None else f"{v:.5g}" if isinstance(v, float) else v
    with open(path, "w", newline="") as out:
        table = csv.writer(out, lineterminator="\n")
        table.writerow(COLUMNS)
        table.writerows([show(row[column]) for column in COLUMNS] for row in rows)


def load(path):
    with open(path, newline="") as file:
        return [{k: v if k in TEXTS else None if v == "" else float(v) for k, v in row.items()} for row in csv.DictReader(file)]


ACCURACY = 1e-5  # the product's tv is accurate to 1e-6 of itself, and a reward of 0 and 1 can make it the gap itself


def violations(rows):
    """Every place where a bound that stands is below what it bounds; none may be."""
    out = []
    for row in rows:
        if row["refused"]:
            continue
        where = f"{row['run']}, {row['kind']} {row['step']:.0f}: "
        for name in ("token", "response", "worst", "reward"):
            least = row[f"least_{name}"]
            if least is not None and least < 1 - ACCURACY:
                out.append(f"{where}a prefix's bound is {least} times its {name} truth")
        for bound, truth, what in (("pg_bound", "pg_bias", "bias of the policy gradient over the prefixes"),
                                   ("reward_bound", "reward_gap_token", "gap of the reward over the prefixes"),
                                   ("pg_clipped_limit", "pg_clipped_bias", "bias with clipped ratios over the prefixes"),
                                   ("pg_clipped_exact", "pg_clipped_bias", "bias with clipped ratios, where the excess is enumerated"),
                                   ("seq_reward_bound", "seq_gap_low", "lower end of the reward gap of whole responses"),
                                   ("seq_pg_bound", "seq_bias_low", "lower end of the bias over whole responses")):
            if row[bound] is not None and row[truth] is not None and row[bound] < row[truth] * (1 - ACCURACY):
                out.append(f"{where}the bound {row[bound]:.5g} is below the {what}, {row[truth]:.5g}")
    return out
