#!/usr/bin/env python3
"""Computes again, from docs and papers and with nothing but Python's standard library, what driftgate's
statistics say of the same data, and compares. Reads the lines of `driftgate_simulation --cases`.

    driftgate_simulation --cases | tests/simulation/independent_check.py
"""
import fractions
import json
import math
import sys

TOLERANCE = 1e-6  # relative; limits that are searched by halving are good to about 1e-7 of the range


def log_beta(a, b):
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def beta_cdf(x, a, b):
    """Regularised incomplete beta by Lentz's continued fraction (Press et al., Numerical Recipes, 6.4)."""
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - beta_cdf(1 - x, b, a)
    front = math.exp(a * math.log(x) + b * math.log1p(-x) - log_beta(a, b)) / a
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > 1e-300 else 1e-300)
    h = d
    for m in range(1, 5000):
        for numerator in (m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                          -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))):
            d = 1 + numerator * d
            d = 1 / (d if abs(d) > 1e-300 else 1e-300)
            c = 1 + numerator / c
            c = c if abs(c) > 1e-300 else 1e-300
            h *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return front * h


def solve(function, target, low, high, halvings=200):
    """function rises from low to high."""
    for _ in range(halvings):
        middle = (low + high) / 2
        if function(middle) < target:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def normal_cdf(z):
    return math.erfc(-z / math.sqrt(2)) / 2


def normal_quantile(p):
    return solve(normal_cdf, p, -40, 40)


def clopper(k, n, alpha):
    lower = 0.0 if k == 0 else solve(lambda x: beta_cdf(x, k, n - k + 1), alpha, 0, 1)
    upper = 1.0 if k == n else solve(lambda x: beta_cdf(x, k + 1, n - k), 1 - alpha, 0, 1)
    return lower, upper


# The seeded order of clusters: SplitMix64 fills the state of xoshiro256**, Fisher-Yates from the end.
MASK = (1 << 64) - 1


def mix64(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


class Random:
    def __init__(self, seed):
        self.state = [mix64((seed + i) & MASK) for i in range(4)]

    def next(self):
        s = self.state
        rotate = lambda v, k: ((v << k) | (v >> (64 - k))) & MASK
        result = (rotate((s[1] * 5) & MASK, 7) * 9) & MASK
        t = (s[1] << 17) & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotate(s[3], 45)
        return result

    def below(self, bound):
        reject = (-bound) % (1 << 64) % bound
        draw = self.next()
        while draw < reject:
            draw = self.next()
        return draw % bound


def shuffled(values, seed):
    values, random = list(values), Random(seed)
    for i in range(len(values), 1, -1):
        j = random.below(i)
        values[i - 1], values[j] = values[j], values[i - 1]
    return values


def betting_p(order, tau, low, most, cap=0.99):
    """Capital against the mean tau; the bet is the share of the cap that would have earned most so far."""
    shares = [0.0] + [2.0 ** -k for k in range(10, 0, -1)] + [0.75, 1.0]
    ruin = 1 - tau if low else tau
    score = [0.0] * len(shares)

    def earn(gain):
        for j in range(1, len(shares)):
            score[j] += math.log1p(shares[j] * cap / ruin * gain)

    earn(tau)
    if not low:
        earn(-tau / 2)
    wealth = best = 0.0
    for m, s in order:
        bet = shares[score.index(max(score))]
        gain = (-1 if low else 1) * (s - tau * m) / most
        wealth += math.log1p(bet * cap / ruin * gain)
        best = max(best, wealth)
        earn(gain)
    return math.exp(-best)


def betting_mean(case):
    order = shuffled(case["clusters"], int(case["seed"]))
    most = case["most"]
    return {"p_low": betting_p(order, case["tau"], True, most), "p_high": betting_p(order, case["tau"], False, most)}


def gaffke_p(values, added, tau, above):
    """P(Σ E_i·(x_i − tau) < 0 if above, else ≥ 0) with exponential E_i: partial fractions, whose terms cancel beyond any
    float, as fractions. Equal values are set apart by multiples of 2^−400."""
    apart = fractions.Fraction(1, 2 ** 400)
    terms = [fractions.Fraction(x) - fractions.Fraction(tau) + i * apart for i, x in enumerate(values + [added])]
    reached = fractions.Fraction(0)
    for j, x in enumerate(terms):
        if x > 0:
            reached += math.prod(x / (x - y) for i, y in enumerate(terms) if i != j)
    return float(1 - reached if above else reached)


def gaffke(case):
    values, tau, alpha = case["values"], case["tau"], case["alpha"]
    low, high = lambda at: gaffke_p(values, 1.0, at, False), lambda at: gaffke_p(values, 0.0, at, True)
    return {"p_low": low(tau), "p_high": high(tau),
            "upper": solve(lambda at: -low(at), -alpha, min(values), 1.0, 34),
            "lower": solve(high, alpha, 0.0, max(values), 34)}


def paired(case):
    b, c, n, alpha = case["b"], case["c"], case["n"], case["alpha"]
    if b + c < 25:
        (lb, ub), (lc, uc) = clopper(b, n, alpha / 2), clopper(c, n, alpha / 2)
        return {"lower": lc - ub, "upper": uc - lb}
    n, b, c = n + 2, b + 0.5, c + 0.5
    delta = (c - b) / n
    reach = normal_quantile(1 - alpha) * math.sqrt(b + c - (c - b) ** 2 / n) / n
    return {"lower": delta - reach, "upper": delta + reach}


def label(case):
    """E = mean over r_k = r_0·16^(k/16) of the likelihood ratios of the labels, each to its power."""
    r0, total = case["ratio"], 0.0
    for k in range(1, 17):
        log_e, r = 0.0, r0 * 16 ** (k / 16)
        for candidate, share, weight in case["failures"]:
            f = lambda ratio: share * ratio / (share * ratio + 1 - share)
            log_e += weight * (math.log(f(r) / f(r0)) if candidate else math.log((1 - f(r)) / (1 - f(r0))))
        total += math.exp(log_e) / 16
    return {"e": total}


def failure_rate(case):
    """Kelly's bet at the rate seen so far (proof) or feared (harm), under the caps 1/2 and 0.99."""
    p, variance = case["max"], case["max"] * (1 - case["max"])
    proof = harm = 0.0
    for cap in (0.5, 0.99):
        up = down = 0.0
        failed = 0
        for n, x in enumerate(case["keys"]):
            seen = failed / n if n else 0.0
            feared = (2 + failed) / (1 / p + n)
            down += math.log1p(min(max(0, (p - seen) / variance), cap / (1 - p)) * (p - x))
            up += math.log1p(min(max(0, (feared - p) / variance), cap / p) * (x - p))
            failed += x
        proof += math.exp(down) / 2
        harm += math.exp(up) / 2
    return {"e_proof": proof, "e_harm": harm}


def split_guard(case):
    log_e = 0.0
    for bp, ones, total in case["counts"]:
        share = bp / 10_000
        log_e += log_beta(ones + 0.5, total - ones + 0.5) - log_beta(0.5, 0.5)
        log_e -= ones * math.log(share) + (total - ones) * math.log1p(-share)
    return {"e": math.exp(log_e)}


def betting_martingale(case):
    m, alpha, capital, total, squares = case["m"], case["alpha"], 0.0, 0.5, 0.25
    for t, x in enumerate(case["x"], 1):
        variance = squares / t
        bet = min(math.sqrt(2 * math.log(1 / alpha) / (variance * t * math.log(1 + t))), 0.5 / m)
        capital += math.log1p(bet * (x - m))
        total += x
        squares += (x - total / (t + 1)) ** 2
    return {"e": math.exp(capital)}


def log_mean(case):
    logs, alpha = [math.log(v) for v in case["values"]], case["alpha"]
    t = len(logs)
    mean = sum(logs) / t
    deviation = math.sqrt(sum((x - mean) ** 2 for x in logs) / t)
    rho2 = (2 * math.log(1 / alpha) + math.log(1 + 2 * math.log(1 / alpha))) / case["planned"]
    reach = deviation * math.sqrt(2 * (t * rho2 + 1) / (t * t * rho2) * math.log(1 + math.sqrt(t * rho2 + 1) / (2 * alpha)))
    return {"estimate": math.exp(mean), "lower": math.exp(mean - reach), "upper": math.exp(mean + reach)}


def blocks(case):
    """The two-sided normal mixture kept to one side, over the blocks in which both arms had a request."""
    r, rho2 = case["ratio"], 0.16
    both = [b for b in case["blocks"] if b[0] and b[1]]
    differences = [(n_i * f_c - r * n_c * f_i) / (r * n_c + n_i) for n_c, n_i, f_c, f_i in both]
    seen = sum(n_i * f_c / (n_c + n_i) for n_c, n_i, f_c, f_i in both) / sum(
        n_c * f_i / (n_c + n_i) for n_c, n_i, f_c, f_i in both)
    t = len(both)
    if t < 30:
        return {"e": 1.0, "seen": seen}
    mean = math.fsum(differences) / t
    own = math.fsum((x - mean) ** 2 for x in differences) / (t - 1)
    q = [r * n_c / (r * n_c + n_i) for n_c, n_i, f_c, f_i in both]
    floor = math.fsum((b[2] + b[3]) * x * (1 - x) * (1 + 2 * x * (1 - x) * case["excess"]) for b, x in zip(both, q)) / t
    z = math.fsum(differences) / math.sqrt(max(own, floor))
    spread = t * rho2 + 1
    mixture = 2 / math.sqrt(spread) * math.exp(rho2 * z * z / (2 * spread))
    return {"e": mixture * normal_cdf(z * math.sqrt(rho2 / spread)), "seen": seen}


def windows_of(units, level):
    """Sums over windows of 2^level units that overlap by half."""
    length = 2 ** level
    step = max(1, length // 2)
    return [sum(units[i:i + length]) for i in range(0, len(units) - length + 1, step)]


def longest_level(units):
    level = 0
    while level < 13 and 2 ** level <= len(units) / 8:
        level += 1
    return level


def long_run(units, allowance):
    """The largest excess of a variance ratio that is more than its noise."""
    mean = sum(units) / len(units) if units else 0
    def variance(level):
        windows = windows_of(units, level)
        apart = len(units) / 2 ** level
        return sum((w - mean * 2 ** level) ** 2 for w in windows) / len(windows) / (1 - 1 / apart)
    largest = 0.0
    for level in range(1, longest_level(units)):
        excess = variance(level) / (2 ** level * variance(0)) - 1
        if excess > allowance * math.sqrt(1.5 / (len(units) / 2 ** level)):
            largest = max(largest, excess)
    return largest


def binomial_pmf(k, n, p):
    return math.comb(n, k) * p ** k * (1 - p) ** (n - k)


def signs(case):
    """Which arm fails more in a block, the larger one thinned; a flat mixture over (1/2, 1) by Simpson's rule."""
    up = down = counted_up = counted_down = 0.0
    series = []
    for n_c, n_i, f_c, f_i in case["blocks"]:
        if not n_c or not n_i:
            continue
        more = less = 0.0  # probabilities that the candidate has more, and fewer
        thinned, fixed, kept = (f_i, f_c, n_c / n_i) if n_i >= n_c else (f_c, f_i, n_i / n_c)
        for k in range(thinned + 1):
            p = binomial_pmf(k, thinned, kept)
            candidate, incumbent = (fixed, k) if n_i >= n_c else (k, fixed)
            more += p if candidate > incumbent else 0
            less += p if candidate < incumbent else 0
        up, down = up + more, down + less
        counts = 1 / (1 + min(n_c, n_i) / (n_c + n_i) * case["inflation"])
        counted_up, counted_down = counted_up + counts * more, counted_down + counts * less
        series.append(more - less)
    own = long_run(series, 2)
    if len(series) < 100:
        return {"e": 1.0, "up": up, "down": down, "own": own}
    carried = min(1, (up + down) / (1 + own) / (counted_up + counted_down))
    a, b, steps = counted_up * carried, counted_down * carried, 2_000
    # At p = 1 − u³/2, where the integrand is smooth at both ends.
    value = lambda u: 3 * u * u * math.exp((a + b) * math.log(2) + a * math.log1p(-u ** 3 / 2) + b * math.log(u ** 3 / 2)) if u else 0.0
    total = sum(value(i / steps) * (1 if i in (0, steps) else 4 if i % 2 else 2) for i in range(steps + 1))
    return {"e": total / 3 / steps, "up": up, "down": down, "own": own}


def in_units(requests, width):
    """Σ value/share, Σ 1/share, Σ 1/share², failures and requests of each unit of time that has ended."""
    first = requests[0][0] // width
    units = []
    for at, failed, share in requests:
        while len(units) <= at // width - first:
            units.append([0.0, 0.0, 0.0, 0, 0])
        for i, add in enumerate((failed / share, 1 / share, 1 / share ** 2, failed, 1)):
            units[-1][i] += add
    return units[:-1]


def wander(case):
    """Variances of sums over windows of 4 s·2^k against those of independent requests."""
    units = in_units(case["requests"], 4_000_000)
    rate = sum(u[0] for u in units) / sum(u[1] for u in units)
    one = rate - rate * rate
    excess, window, deviations = 0.0, 0.0, 0.0
    for level in range(longest_level(units)):
        apart = len(units) / 2 ** level
        value, size, noise = (windows_of([u[j] for u in units], level) for j in (0, 1, 2))
        variance = sum((v - rate * s) ** 2 for v, s in zip(value, size)) / len(value) / (1 - 1 / apart)
        expected, independent = one * sum(size) / len(size), one * sum(noise) / len(noise)
        here = (variance - independent) / expected
        spread = math.sqrt((2 if level == 0 else 1.5) / apart) * independent / expected * math.sqrt(1 + 0.5 / expected)
        deviations = max(deviations, here / spread)
        if here > excess:
            excess, window = here, 4.0 * 2 ** level
    return {"excess": excess, "window_s": window, "deviations": deviations, "covered_s": 4.0 * len(units)}


def scores(case):
    """Places of the counts of 12 s in their Poisson distributions at the rate so far."""
    made, seen = [], [0.0, 0.0]
    for unit in in_units(case["requests"], 12_000_000):
        k, n = unit[3], unit[4]
        seen = [seen[0] + k, seen[1] + n]
        if seen[0] < 30:
            continue
        mean = n * seen[0] / seen[1]
        pmf = [math.exp(j * math.log(mean) - mean - math.lgamma(j + 1)) for j in range(k + 1)]
        made.append(math.fsum(pmf[:-1]) + pmf[-1] / 2 - 0.5)
    return {"inflation": long_run(made, 3)}


def clustered_ratio(bins):
    """Dirichlet-multinomial over multivariate hypergeometric, by their definitions, of one group of bins."""
    n, k = sum(b[0] for b in bins), sum(b[1] for b in bins)
    if k < 2:
        return 1.0
    log_choose = lambda a, b: math.lgamma(a + 1) - math.lgamma(b + 1) - math.lgamma(a - b + 1)
    independent = sum(log_choose(a, b) for a, b in bins) - log_choose(n, k)
    ratio = 0.0
    for concentration in (1, 4, 16):
        log_p = math.lgamma(k + 1) + math.lgamma(concentration) - math.lgamma(k + concentration)
        for a, b in bins:
            if a:
                part = concentration * a / n
                log_p += math.lgamma(b + part) - math.lgamma(part) - math.lgamma(b + 1)
        ratio += math.exp(log_p - independent) / 3
    return ratio


def dispersion(case):
    """Per width and stake a detector that restarts whenever it lost, over groups of 16 bins in order of time."""
    total = 0.0
    for width in (1_000_000, 4_000_000, 16_000_000):
        groups = {}
        for at, failed in case["requests"]:
            b = groups.setdefault(at // width // 16, {}).setdefault(at // width % 16, [0, 0])
            b[0] += 1
            b[1] += failed
        ratios = [clustered_ratio(list(groups[g].values())) for g in sorted(groups)]
        for stake in (0.3, 0.05, 0.01):
            wealth = 1.0
            for i, ratio in enumerate(ratios):
                wealth *= 1 + stake * (ratio - 1)
                if i + 1 < len(ratios):
                    wealth = max(wealth, 1.0)
            total += wealth / 9
    return {"e": total}


def e_detector(case):
    """Sum and largest of the products of factors over all starts, for each bet, and their means over the bets."""
    p, bets = case["limit"], []
    if case["events"]:
        k = 0
        while 1.25 * math.sqrt(2) ** k * p < 1:
            bets.append((min((1.25 * math.sqrt(2) ** k - 1) * p / (1 - p), 0.99), 0.5 ** abs(k - 1)))
            k += 1
    else:
        bets = [(0.95 / 2 ** k, 1.0) for k in range(9)]
    whole = sum(weight for _, weight in bets)
    total = largest = 0.0
    for stake, weight in bets:
        products, sums = [], 0.0
        for value, start in case["values"]:
            products = [(product * (1 + stake * (value / p - 1)), begun) for product, begun in products + [(1.0, start)]]
        sums = math.fsum(product * begun for product, begun in products)
        total += weight / whole * sums
        # The largest over the starts that were never behind a later one: a process that lost begins anew.
        most = 0.0
        for value, _ in case["values"]:
            most = max(most, 1.0) * (1 + stake * (value / p - 1))
        assert abs(most - max(product for product, _ in products)) <= 1e-9 * most
        largest += weight / whole * most
    return {"sum": total, "largest": largest}


def binomial_cdf(k, n, p):
    return 1.0 if k >= n else 0.0 if k < 0 else 1 - beta_cdf(p, k + 1, n - k)


def order_statistics(case):
    values, p, alpha = case["sorted"], case["p"], case["alpha"]
    n = len(values)
    lower = [r for r in range(1, n + 1) if binomial_cdf(r - 1, n, p) <= alpha]
    upper = [r for r in range(1, n + 1) if 1 - binomial_cdf(r - 1, n, p) <= alpha]
    return {"lower": values[max(lower) - 1] if lower else None, "upper": values[min(upper) - 1] if upper else None}


def holm(values, alpha, smaller_is_stronger):
    order = sorted(range(len(values)), key=lambda i: values[i] if smaller_is_stronger else -values[i])
    rejected = [False] * len(values)
    for rank, i in enumerate(order):
        level = alpha / (len(values) - rank)
        if (values[i] > level) if smaller_is_stronger else (values[i] < 1 / level):
            break
        rejected[i] = True
    return {"rejected": rejected}


def e_bh(case):
    e, alpha, count = case["e"], case["alpha"], len(case["e"])
    best = max((k for k in range(1, count + 1) if sorted(e, reverse=True)[k - 1] >= count / (alpha * k)), default=0)
    return {"rejected": [best > 0 and x >= count / (alpha * best) for x in e]}


def greedy(case):
    """The figures of greedy answers by their definitions, and both p-values of the mean of what each key loses."""
    horizon, metric, limit = 32, case["metric"], case["limit"]
    high = float(horizon) if metric == "first_divergence" else 1.0
    share, tau, keys = metric == "divergence_rate" or case["median"], limit, {}
    for key, equal, longest in case["prompts"]:
        same = equal == longest
        if metric == "prefix_agreement":
            value = 1.0 if same else equal / longest
        elif metric == "first_divergence":
            value = float(horizon if same else equal)
        else:
            value = 0.0 if same else 1.0
        if case["median"]:
            value = float(value < limit)
        keys.setdefault(key, []).append(value if share else high - value)
    if case["median"]:
        tau = 0.5
    losses = [sum(values) / len(values) for values in keys.values()]
    mean = sum(losses) / len(losses)
    if share and all(len(values) == 1 for values in keys.values()):
        k, n = round(sum(losses)), len(losses)
        return {"estimate": mean, "p_proof": binomial_cdf(k, n, tau), "p_harm": 1 - binomial_cdf(k - 1, n, tau)}
    high, tau = (1.0, tau) if share else (high, high - tau)
    order = shuffled([[1, loss / high] for loss in losses], int(case["seed"]))
    return {"estimate": mean if share else high - mean, "p_proof": betting_p(order, tau / high, True, 1),
            "p_harm": betting_p(order, tau / high, False, 1)}


METHODS = {"betting_mean": betting_mean, "betting_once": betting_mean,
           "gaffke": gaffke,
           "clopper_pearson": lambda c: dict(zip(("lower", "upper"), clopper(c["k"], c["n"], c["alpha"]))),
           "paired": paired, "label": label, "failure_rate": failure_rate, "split_guard": split_guard,
           "betting_martingale": betting_martingale, "log_mean": log_mean, "order_statistics": order_statistics,
           "holm": lambda c: holm(c["p"], c["alpha"], True), "e_holm": lambda c: holm(c["e"], c["alpha"], False),
           "e_bh": e_bh, "blocks": blocks, "signs": signs, "wander": wander, "scores": scores, "dispersion": dispersion, "e_detector": e_detector,
           "greedy": greedy}


def agrees(mine, theirs):
    if isinstance(mine, float) and isinstance(theirs, (int, float)):
        return abs(mine - theirs) <= TOLERANCE * max(1e-9, abs(mine), abs(theirs)) + 1e-12
    return mine == theirs


def main():
    counts, wrong = {}, 0
    for line in sys.stdin:
        case = json.loads(line)
        mine = METHODS[case["method"]](case["in"])
        counts[case["method"]] = counts.get(case["method"], 0) + 1
        for name, value in mine.items():
            if not agrees(value, case["out"][name]):
                wrong += 1
                print(f"{case['method']} {name}: {case['out'][name]!r}, computed here {value!r}", file=sys.stderr)
    missing = sorted(set(METHODS) - set(counts))
    if missing:
        print("no case of: " + ", ".join(missing), file=sys.stderr)
    for method in sorted(counts):
        print(f"{method}: {counts[method]} cases")
    print("all agree" if not wrong and not missing else f"{wrong} figures differ")
    return 1 if wrong or missing else 0


if __name__ == "__main__":
    sys.exit(main())
