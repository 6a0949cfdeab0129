"""What may rightly be said of a fault. A diagnosis is right when its first pattern is one of `right`, and each
further one is in `right` or `also`; where `right` holds NOTHING, silence is right too."""
import dataclasses
import typing

NOTHING = "nothing"
GROWS, ATTENTION, START = "grows_with_position", "attention_scores", "sequence_start"
WRONG, SOME = "wrong_weights", "some_weights"
SCALED, FILTERED, SHIFTED, PERMUTED = "scaled_logits", "truncated_support", "off_by_one", "permuted_columns"
SLICE, SEQUENCES, NONFINITE = "one_slice", "some_sequences", "nonfinite"
COLUMNS, PENALTY, LEAKS = "column_range", "penalty", "leaks_target"
# From position 8 on a fault of attention cannot be told from one of the weights by its place. What is said
# must then name both.
BLIND_ATTENTION = (ATTENTION, GROWS, WRONG, SOME)


@dataclasses.dataclass
class Fault:
    name: str
    right: tuple          # of captures from position 0 on
    make: typing.Callable  # world -> logits [T, V] of each sequence
    right8: tuple = None  # of captures from position 8 on, where that differs
    also: tuple = ()
    where: str = ""       # what the first suspicion's `where` must begin with

    def names(self, first):
        return self.right if first == 0 or self.right8 is None else self.right8


def judge(fault, first, suspicions):
    """Why what was said is not right; empty when it is."""
    patterns = [s["pattern"] for s in suspicions]
    right = fault.names(first)
    if not patterns:
        return "" if NOTHING in right else "nothing was said"
    if patterns[0] not in right:
        return f"{patterns[0]} is wrong"
    for pattern in patterns[1:]:
        if pattern not in right and pattern not in fault.also:
            return f"{pattern} beside it is wrong"
    if fault.where and not any(s["where"].startswith(fault.where) for s in suspicions):
        return f"no suspicion is of {fault.where}"
    return ""
