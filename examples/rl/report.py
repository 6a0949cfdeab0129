"""Tables and plots of docs/rl.md from results/steps.csv. No numpy, so that a test can repeat it anywhere.

  report.py           writes both
  report.py --check   says whether the page and the plots are those of the figures, and whether every bound stands
"""
import pathlib
import re
import statistics
import sys
import tempfile

import plots
import results

HERE = pathlib.Path(__file__).resolve().parent
CSV = HERE / "results" / "steps.csv"
PAGE = HERE.parent.parent / "docs" / "rl.md"
PLOTS = PAGE.parent / "plots"
ORDER = ("f32", "bf16", "int8", "int8-static", "stale", "top-p")
ALGORITHMS = {"reinforce": "REINFORCE", "ppo": "PPO"}


def number(x, digits=3):
    if x is None:
        return "–"
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.{digits}g}"


def table(head, lines):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + " --- |" * len(head),
                      *("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)])


class Runs:
    def __init__(self, rows):
        self.rows = rows

    def of(self, kernel=None, algorithm=None, gated=0, kind=None, own=True, seed=None):
        """Rows of the runs of a kernel; `own` leaves out those that the fallback sampled."""
        return [r for r in self.rows if (kernel is None or r["planned"] == kernel) and (algorithm is None or r["algorithm"] == algorithm)
                and r["gated"] == gated and (kind is None or r["kind"] == kind)
                and (seed is None or r["seed"] == seed) and not (own and r["kernel"] != r["planned"])]

    def pairs(self):
        return [(a, k) for a in ALGORITHMS for k in ORDER if self.of(k, a)]


def values(rows, column):
    return [r[column] for r in rows if r[column] is not None]


def least(rows, column):
    found = values(rows, column)
    return number(min(found)) if found else "refused"


def ratios(rows, bound, truth):
    return [r[bound] / r[truth] for r in rows if r[bound] is not None and r[truth] is not None and r[truth] > 1e-9]


def per_prefix(runs):
    lines = []
    for algorithm, kernel in runs.pairs():
        rows = runs.of(kernel, algorithm)
        medians = values(rows, "median_token")
        lines.append([ALGORITHMS[algorithm], kernel, number(sum(values(rows, "rows"))), least(rows, "least_worst"), least(rows, "least_token"),
                      least(rows, "least_response"), least(rows, "least_reward"), number(statistics.median(medians)) if medians else "refused"])
    return table(["", "K_inf", "prefixes", "any advantages", "the token's own reward", "the response's reward", "reward gap",
                  "the token's own reward, median"], lines)


def over_prefixes(runs):
    lines = []
    for algorithm, kernel in runs.pairs():
        rows = runs.of(kernel, algorithm)
        token, clipped = ratios(rows, "pg_bound", "pg_bias"), ratios(rows, "pg_clipped_exact", "pg_clipped_bias")
        limits = ratios(rows, "pg_clipped_limit", "pg_clipped_bias")
        share = [r["pg_bias"] / r["pg_gradient"] for r in rows if r["pg_gradient"]]
        full = [r["full_bias"] / r["full_gradient"] for r in rows if r["full_gradient"]]
        refused = any(r["refused"] for r in rows)
        show = lambda found: "refused" if refused else f"{number(min(found))} to {number(statistics.median(found))}" if found else "–"
        given = "refused" if refused else f"{len(values(rows, 'pg_bound'))} of {len(rows)}"
        lines.append([ALGORITHMS[algorithm], kernel, number(statistics.mean(values(rows, "tv"))), given, show(token), show(clipped),
                      f"{number(min(limits))} ({len(limits)})" if limits else "refused" if refused else "– (0)",
                      number(100 * statistics.median(share), 2) + "%", number(100 * statistics.median(full), 2) + "%" if full else "–"])
    return table(["", "K_inf", "mean tv", "looks with a bound", "policy_gradient", "clipped, enumerated", "clipped, the product's limit (steps)", "bias / gradient, head",
                  "bias / gradient, all weights"], lines)


def responses(runs):
    lines = []
    for algorithm, kernel in runs.pairs():
        rows = runs.of(kernel, algorithm)
        if any(r["refused"] for r in rows):
            lines.append([ALGORITHMS[algorithm], kernel, len(rows), *["refused"] * 7])
            continue
        cells = []
        for bound, truth in (("seq_reward_bound", "seq_gap"), ("seq_pg_bound", "seq_bias")):
            given = [r for r in rows if r[bound] is not None]
            seen = ratios([r for r in given if r[truth + "_low"] > 0], bound, truth)
            against_high = ratios(given, bound, truth + "_high")
            above = sum(r[bound] < r[truth + "_low"] for r in given)
            cells += [len(given)] if not cells else []
            cells += [f"{number(min(seen))} ({len(seen)})" if seen else "– (0)", number(min(against_high)) if against_high else "–", above]
        lines.append([ALGORITHMS[algorithm], kernel, len(rows), *cells])
    return table(["", "K_inf", "looks", "with a bound", "reward: ÷ estimate", "÷ upper end", "refuted", "gradient: ÷ estimate", "÷ upper end",
                  "refuted"], lines)


def filtered(runs):
    lines = []
    for algorithm in ALGORITHMS:
        for r in runs.of("top-p", algorithm, kind="step"):
            if r["step"] in (0, 3, 6, 10, 20):
                span = lambda name: f"{number(r[name])} ({number(r[name + '_low'])} to {number(r[name + '_high'])})"
                lines.append([ALGORITHMS[algorithm], f"{r['step']:.0f}", number(100 * r["p_outside"], 2) + "%",
                              number(100 * r["pg_bias"] / r["pg_gradient"], 2) + "%", number(r["reward_gap_token"]), span("seq_gap"),
                              "refused" if r["refused"] else "given"])
    return table(["", "step", "mass of p outside of what q takes", "bias / gradient over prefixes (exact)", "reward gap of a token (exact)",
                  "reward gap of a response", "bounds"], lines)


def collapsed_steps(reward):
    """Steps after the highest reward so far at which less than half of it is left, once it was at least 0.1."""
    top, count = 0.0, 0
    for value in reward:
        top = max(top, value)
        count += top >= 0.1 and value < top / 2
    return count


def learning(runs):
    lines = []
    for algorithm, kernel in runs.pairs():
        for gated in (0, 1):
            by_seed = {}
            for r in runs.of(kernel, algorithm, gated, kind="step", own=False):
                by_seed.setdefault(r["seed"], []).append(r)
            if not by_seed:
                continue
            last, highest, lost, first, passing, asked = [], [], [], [], 0, 0
            for rows in by_seed.values():
                own = [r for r in rows if r["kernel"] == r["planned"]]
                reward = [r["reward_train"] for r in {r["step"]: r for r in rows}.values()]
                last.append(number(statistics.mean(reward[-5:]), 2))
                highest.append(number(max(reward), 2))
                lost.append(str(collapsed_steps(reward)))
                first.append(next((f"{r['step']:.0f}" for r in own if r["verdict"] != "pass"), "–"))
                passing, asked = passing + sum(r["verdict"] == "pass" for r in own), asked + len(own)
            lines.append([ALGORITHMS[algorithm], kernel, "with the gate" if gated else "without", ", ".join(highest), ", ".join(last),
                          ", ".join(lost), ", ".join(first), f"{passing} of {asked}"])
    return table(["", "K_inf", "", "highest reward", "last 5 steps", "steps below half of the highest", "first step without pass",
                  "steps that pass"], lines)


TABLES = {"per-prefix": per_prefix, "over-prefixes": over_prefixes, "responses": responses, "filtered": filtered, "learning": learning}


def curve(rows, column):
    return [(r["step"], r[column]) for r in rows]


def draw(runs, folder):
    panels = []
    for algorithm, seed in (("reinforce", 1), ("reinforce", 2), ("reinforce", 3), ("ppo", 1)):
        panel = plots.Panel(f"{ALGORITHMS[algorithm]}, seed {seed}: reward of K_train's own policy", "step", "reward", y_range=(0, 1))
        for i, kernel in enumerate(ORDER):
            for gated in (0, 1):
                rows = runs.of(kernel, algorithm, gated, kind="step", own=False, seed=seed)
                if rows:
                    kept = {r["step"]: r for r in rows}.values()
                    panel.line(kernel + (", gated" if gated else ""), curve(kept, "reward_train"), i, dashed=bool(gated))
        panels.append(panel)
    plots.write(folder / "rl_learning.svg", [panel for panel in panels if panel.series])
    panels = []
    for title, bound, truth, label in (("policy gradient over prefixes", "pg_bound", "pg_bias", "norm"),
                                       ("reward of whole responses", "seq_reward_bound", "seq_gap_high", "reward")):
        panel = plots.Panel(f"REINFORCE, seed 1: {title}", "step", label, log=True)
        for i, kernel in enumerate(ORDER):
            rows = [r for r in runs.of(kernel, "reinforce", kind="step", seed=1) if kernel not in ("f32", "top-p")]
            if rows:
                panel.line(f"{kernel}: bound", curve(rows, bound), i, dashed=True)
                panel.line(f"{kernel}: truth", curve(rows, truth), i)
        panels.append(panel)
    plots.write(folder / "rl_bounds.svg", panels)


def fill(text, runs):
    for name, make in TABLES.items():
        pattern = re.compile(rf"(<!-- figures {name} -->\n).*?(<!-- end -->)", re.S)
        if not pattern.search(text):
            raise SystemExit(f"{PAGE} has no place for the figures {name}")
        text = pattern.sub(lambda match: match[1] + make(runs) + "\n" + match[2], text)
    return text


def main(check):
    rows = results.load(CSV)
    runs, text = Runs(rows), PAGE.read_text()
    faults = results.violations(rows)
    filled = fill(text, runs)
    if check:
        with tempfile.TemporaryDirectory() as folder:
            draw(runs, pathlib.Path(folder))
            for made in sorted(pathlib.Path(folder).iterdir()):
                if not (PLOTS / made.name).exists() or (PLOTS / made.name).read_text() != made.read_text():
                    faults.append(f"docs/plots/{made.name} is not the plot of {CSV.name}")
        if filled != text:
            faults.append(f"the tables of docs/rl.md are not those of {CSV.name}: run examples/rl/report.py")
    else:
        PAGE.write_text(filled)
        PLOTS.mkdir(exist_ok=True)
        draw(runs, PLOTS)
    print("\n".join(faults) or f"{len(rows)} looks: no bound is below its truth")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
