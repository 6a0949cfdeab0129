"""The referee's worlds of tests/simulation/referee_worlds.cpp, written down a second time, and their figures by brute
force. referee_truths.py compares them with those of the program."""

import math
from fractions import Fraction as F
from statistics import NormalDist

CLIPS = (0.02, 0.1, 0.5)
PLAIN = ("share_average", "share_rows", "share_sequences", "mean_once", "mean_tokens")
NAMES = PLAIN + tuple(f"clip {clip}" for clip in CLIPS)


class Sums:
    """Expectations, gathered from sequences with weights. A sequence is a list of (count, value) of its rows."""

    def __init__(self, x, y):
        self.x, self.y = x, y
        self.parts = {}

    def add(self, weight, rows):
        length = sum(count for count, _ in rows)
        above = sum(count for count, value in rows if value > self.x)
        total = sum(count * value for count, value in rows)
        mean = total / length
        self.put(weight, {"one": 1, "length": length, "above": above, "total": total, "mean": mean,
                          "share": F(above, length), "over": 1 if mean > self.y else 0,
                          **{f"clip {clip}": min(mean, F(clip)) for clip in CLIPS}})

    def put(self, weight, figures):
        for name, value in figures.items():
            if isinstance(weight, float) and isinstance(value, F):
                value = float(value)
            self.parts.setdefault(name, []).append(weight * value)

    def figures(self):
        add = {name: sum(values) if isinstance(values[0], (F, int)) else math.fsum(values)
               for name, values in self.parts.items()}
        assert abs(add["one"] - 1) < 1e-11, f"weights add up to {float(add['one'])}"
        found = {"share_average": add["share"], "share_rows": add["above"] / add["length"],
                 "share_sequences": add["over"], "mean_once": add["mean"],
                 "mean_tokens": add["total"] / add["length"],
                 **{f"clip {clip}": add[f"clip {clip}"] for clip in CLIPS}}
        return {name: float(value) for name, value in found.items()}


def cases(x, y, *weighted):
    """Sequences as (chance, rows), where a chance and a value may be written as text: "0.04"."""
    sums = Sums(F(x), F(y))
    for chance, *rows in weighted:
        sums.add(F(chance), [(count, F(value)) for count, value in rows])
    return sums.figures()


def log_binomial(n, k, p):
    if p in (0, 1):
        return 0.0 if k == n * p else -math.inf
    return (math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * math.log(p)
            + (n - k) * math.log1p(-p))


def row_by_row(x, y, lengths, chance, value):
    sums = Sums(x, y)
    for length, weight in lengths.items():
        p = chance(length)
        terms = [math.exp(log_binomial(length, k, p)) for k in range(min(length, int(length * p * 3) + 60) + 1)]
        whole = math.fsum(terms)  # the logarithms of factorials err by 1e-12 or so; that of the sum is taken out
        assert abs(whole - 1) < 1e-9
        for k, term in enumerate(terms):
            mean = k * value / length
            sums.put(weight * term / whole,
                     {"one": 1, "length": length, "above": k, "total": k * value, "mean": mean, "share": k / length,
                      "over": 1 if mean > y else 0, **{f"clip {clip}": min(mean, clip) for clip in CLIPS}})
    return sums.figures()


def all_or_none(x, y, lengths, chance, value):
    sums = Sums(x, y)
    for length, weight in lengths.items():
        sums.add(float(weight * chance(length)), [(length, value)])
        sums.add(float(weight * (1 - chance(length))), [(length, 0.0)])
    return sums.figures()


def uniform(least, most):
    return {length: 1 / (most - least + 1) for length in range(least, most + 1)}


def pareto(least, exponent, cut):
    reach = [(least / length) ** exponent for length in range(least, cut + 1)] + [0.0]
    return {least + i: reach[i] - reach[i + 1] for i in range(cut - least + 1)}


# --- continuous worlds ---------------------------------------------------------------------------------------

GAUSS = ((0.0, 128 / 225), (0.5384693101056831, 0.47862867049936647), (-0.5384693101056831, 0.47862867049936647),
         (0.9061798459386640, 0.23692688505618909), (-0.9061798459386640, 0.23692688505618909))


def nodes(breaks, panels):
    points = sorted(set(breaks))
    for low, high in zip(points, points[1:]):
        half = (high - low) / panels / 2
        for panel in range(panels):
            middle = low + (2 * panel + 1) * half
            for node, weight in GAUSS:
                yield middle + half * node, half * weight


class LogNormal:
    def __init__(self, mean, variation):
        self.sigma = math.sqrt(math.log(1 + variation ** 2))
        self.mu = math.log(mean) - self.sigma ** 2 / 2

    def nodes(self, thresholds, panels):
        """(drift, weight) by which a function of the drift with jumps at the thresholds is integrated."""
        at = [(math.log(t) - self.mu) / self.sigma for t in thresholds if t > 0]
        breaks = [-9.0, 9.0] + [z for z in at if -9 < z < 9]
        for z, weight in nodes(breaks, panels):
            yield min(1.0, math.exp(self.mu + self.sigma * z)), weight * NormalDist().pdf(z)


class OfUniform:
    """`drift` of a uniform variable, `inverse` back from a drift."""

    def __init__(self, drift, inverse):
        self.drift, self.inverse = drift, inverse

    def nodes(self, thresholds, panels):
        breaks = [0.0, 1.0] + [u for u in map(self.inverse, thresholds) if 0 < u < 1]
        for u, weight in nodes(breaks, panels):
            yield self.drift(u), weight


def even_rows(x, y, *parts):
    """Parts are (share, law, lengths, limit, lengths beyond the limit)."""
    sums = Sums(x, y)
    for share, law, lengths, beyond, others in parts:
        for drift, weight in law.nodes((x, y, beyond, 1.0) + CLIPS, 100):
            # Lengths do not depend on the drift otherwise: those of one drift are taken together.
            length = sum(l * p for l, p in (others if drift > beyond else lengths).items())
            above = 1 if drift > x else 0
            sums.put(share * weight, {"one": 1, "length": length, "above": above * length, "total": drift * length,
                                      "mean": drift, "share": above, "over": 1 if drift > y else 0,
                                      **{f"clip {clip}": min(drift, clip) for clip in CLIPS}})
    return sums.figures()


def growing(x, y, law, lengths):
    sums = Sums(x, y)
    for length in lengths:
        jumps = tuple(x * (length + 1) / (2 * t) for t in range(1, length + 1))
        for drift, weight in law.nodes((y,) + CLIPS + jumps, 8):
            sums.add(weight / len(lengths), [(1, 2 * t / (length + 1) * drift) for t in range(1, length + 1)])
    return sums.figures()


def sticky(x, y, n, share, stay, value):
    """Counts the arrangements of k rows above and n - k others by their runs."""
    enter = (1 - stay) * share / (1 - share)
    sums = Sums(x, y)
    sums.add((1 - share) * (1 - enter) ** (n - 1), [(n, 0.0)])
    sums.add(share * stay ** (n - 1), [(n, value)])
    for k in range(1, n):
        terms = []
        for runs in range(1, k + 1):
            for gaps, first, up, down in ((runs - 1, share, runs - 1, runs - 1), (runs, share, runs - 1, runs),
                                          (runs, 1 - share, runs, runs - 1), (runs + 1, 1 - share, runs, runs)):
                if 1 <= gaps <= n - k:
                    ways = math.comb(k - 1, runs - 1) * math.comb(n - k - 1, gaps - 1)
                    terms.append(ways * first * enter ** up * (1 - stay) ** down * stay ** (k - runs)
                                 * (1 - enter) ** (n - k - gaps))
        sums.add(math.fsum(terms), [(k, value), (n - k, 0.0)])
    return sums.figures()


# --- the worlds ----------------------------------------------------------------------------------------------

def catastrophe(share, wrong, usual):
    return lambda: cases("0.5", "0.5", (share, (wrong, 1)), (1 - F(share), (usual, 0)))


def log_normal(variation, usual, beyond=2.0, others=None):
    return lambda: even_rows(0.05, 0.05, (1, LogNormal(0.02, variation), usual, beyond, others))


def power(scale, exponent):
    return OfUniform(lambda u: scale * u ** exponent, lambda d: (d / scale) ** (1 / exponent))


H = F(1, 2)
TENTH = F(0.1)  # the double nearest to a tenth, as the program has it
TINY = F(1, 10 ** 170)

WORLDS = {
    "long_hold_it": lambda: cases("0.1", "0.1", ("0.04", (200, "0.3")), ("0.96", (8, 0))),
    "short_hold_it": lambda: cases("0.1", "0.1", ("0.04", (2, "0.3")), ("0.96", (200, 0))),
    "longer_is_worse": lambda: row_by_row(0.25, 0.02, uniform(1, 400), lambda n: 0.1 * n * n / 160000, 0.5),
    "shorter_is_worse": lambda: row_by_row(0.25, 0.05, uniform(1, 400), lambda n: 1 / (n + 1), 0.5),
    "step_at_64": lambda: row_by_row(0.25, 0.02, uniform(16, 127), lambda n: 0.05 if n >= 64 else 0.005, 0.5),
    "one_row_each": lambda: cases("0.25", "0.025", *[(F(1, 56), (1, H), (n - 1, 0)) for n in range(5, 61)]),
    "equal_shares": lambda: cases("0.25", "0.024", ("0.9", (1, H), (19, 0)), ("0.09", (10, H), (190, 0)),
                                  ("0.01", (100, H), (1900, 0))),
    "pareto_lengths": lambda: row_by_row(0.25, 0.03, pareto(8, 1.1, 2048), lambda n: 0.02, 0.5),
    "pareto_all_or_none": lambda: all_or_none(0.25, 0.1, pareto(8, 1.1, 2048), lambda n: 0.05, 0.5),
    "pareto_wrong_at_cut": lambda: all_or_none(0.25, 0.1, pareto(8, 1.1, 2048), lambda n: int(n == 2048), 0.5),
    "all_longest": lambda: row_by_row(0.25, 0.01, {256: 1.0}, lambda n: 0.02, 0.5),
    "far_below_longest": lambda: cases("0.25", "0.2", ("0.05", (4, H), (4, 0)), ("0.05", (8, H), (8, 0)),
                                       ("0.45", (8, 0)), ("0.45", (16, 0))),
    "rare_longest": lambda: cases("0.25", "0.05", ("0.0001", (4096, 1)), ("0.05", (2, H), (14, 0)), ("0.9499", (16, 0))),
    "thousandfold_bad": lambda: cases("0.25", "0.1", ("0.001", (2400, H), (5600, 0)), ("0.999", (8, 0))),
    "thousandfold_clean": lambda: cases("0.25", "0.1", ("0.001", (8000, 0)), ("0.0999", (4, H), (4, 0)),
                                        ("0.8991", (8, 0))),
    "thousandfold_either": lambda: cases("0.5", "0.5", ("0.001", (8000, 1)), ("0.001", (8000, 0)), ("0.998", (8, 0))),
    "catastrophe_1_in_1000": catastrophe("0.001", 32, 32),
    "catastrophe_1_in_200": catastrophe("0.005", 32, 32),
    "catastrophe_1_in_50": catastrophe("0.02", 32, 32),
    "catastrophe_runs_to_longest": catastrophe("0.005", 1024, 16),
    "catastrophe_stops_at_once": catastrophe("0.02", 1, 64),
    "hidden_catastrophe": lambda: cases("0.25", "0.1", ("0.005", (16, 1)), ("0.995", (1, H), (15, 0))),
    "few_are_clean": lambda: cases("0.1", "0.1", ("0.98", (16, "0.125")), ("0.02", (16, 0))),
    "nearly_all_wrong": lambda: cases("0.5", "0.5", ("0.99", (16, 1)), ("0.01", (16, 0))),
    "single_rows": lambda: cases("0.5", "0.5", ("0.05", (1, 1)), ("0.95", (1, 0))),
    "coin": lambda: cases("0.5", "0.5", (H, (16, 1)), (H, (16, 0))),
    "two_near_values": lambda: cases("0.125", "0.125", (H, (16, "0.125")), (H, (16, F(1, 8) + F(1, 1024)))),
    "all_equal": lambda: cases("0.1", "0.02", (1, (2, "0.25"), (14, 0))),
    "nothing_drifts": lambda: cases("0.1", "0.1", (H, (8, 0)), (H, (16, 0))),
    "all_wrong": lambda: cases("0.5", "0.5", (H, (8, 1)), (H, (16, 1))),
    "ties": lambda: cases("0.125", "0.125", ("0.3", (16, "0.125")), ("0.04", (16, F(1, 8) + F(1, 2 ** 40))),
                          ("0.66", (16, "0.0625"))),
    "decimal_ties": lambda: cases(TENTH, TENTH, *[case for n in (3, 6, 7, 10, 12, 19) for case in
                                                  (("0.16", (n, TENTH)), (F("0.04") / 6, (n, "0.2")))]),
    "within_1e-12": lambda: cases("0.1", "0.1", ("0.03", (16, F("0.1") + F(1, 10 ** 12))),
                                  ("0.97", (16, F("0.1") - F(1, 10 ** 12)))),
    "tiny_values": lambda: cases(2 * TINY, 2 * TINY, ("0.25", (16, 3 * TINY)), ("0.75", (16, TINY))),
    "all_or_none": lambda: cases("0.25", "0.1", ("0.03", (256, H)), ("0.97", (256, 0))),
    "sticky_rows": lambda: sticky(0.25, 0.05, 128, 0.03, 0.9, 0.5),
    "growing": lambda: growing(0.3, 0.2, power(0.5, 4), (10, 40)),
    "last_twentieth": lambda: cases("0.25", "0.03", *[case for n in range(10, 201) for case in (
        (F("0.3") / 191, (-(-n // 20), H), (n - -(-n // 20), 0)), (F("0.7") / 191, (n, 0)))]),
    "log_normal_0.5": log_normal(0.5, uniform(5, 60)),
    "log_normal_1.3": log_normal(1.3, uniform(5, 60)),
    "log_normal_2": log_normal(2, uniform(5, 60)),
    "log_normal_long_tail": log_normal(2, uniform(10, 20), 0.05, {500: 1.0}),
    "log_normal_short_tail": log_normal(2, {200: 1.0}, 0.05, {4: 1.0}),
    "two_languages": lambda: even_rows(0.05, 0.05, (0.97, LogNormal(0.01, 0.5), uniform(20, 60), 2.0, None),
                                       (0.03, LogNormal(0.1, 0.5), uniform(60, 180), 2.0, None)),
    "nearly_zero": lambda: even_rows(0.1, 0.1, (1, power(1, 200), uniform(5, 60), 2.0, None)),
    "pareto_drift": lambda: even_rows(0.02, 0.02, (1, OfUniform(lambda u: min(1.0, 0.001 * u ** (-1 / 1.2)),
                                                                lambda d: (0.001 / d) ** 1.2),
                                                   uniform(5, 60), 2.0, None)),
}
