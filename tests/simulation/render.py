#!/usr/bin/env python3
"""Writes the tables and plots of docs/statistics.md from the figures of driftgate_simulation.

    render.py FIGURES.jsonl docs/statistics.md

The tables and plots of experiments that FIGURES does not hold are left as they are.
"""
import json
import pathlib
import re
import sys

INK, GRID, OURS, RIVAL = "#222", "#ddd", "#1763a6", "#c2571a"


def percent(x):
    return f"{100 * x:.1f}%"


def is_share(figure):
    return not figure["quantity"].startswith(("keys", "requests exposed", "decisions", "probes", "answers"))


def value_text(figure):
    return percent(figure["value"]) if is_share(figure) else f"{figure['value']:,.0f}"


def table(figures, columns):
    """One row for each (method, scenario, quantity)."""
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    for figure in figures:
        level = figure.get("ceiling") if figure["claim"] == "approximate" else None
        level = figure.get("nominal") if level is None else level
        nominal = "" if level is None else percent(level) if is_share(figure) else f"{level:,.0f}"
        claim = {"exact": "at most", "at_least": "at least", "approximate": "approximate, at most",
                 "figure": ""}[figure["claim"]]
        row = {"method": figure["method"], "scenario": figure["scenario"], "what": figure["quantity"],
               "found": value_text(figure), "claimed": f"{claim} {nominal}".strip() if claim else "",
               "runs": f"{figure['runs']:,}", "reference": figure["reference"]}
        lines.append("| " + " | ".join(row[c] for c in columns) + " |")
    return "\n".join(lines)


def svg(width, height, parts):
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'font-family="sans-serif" font-size="12" fill="{INK}">')
    return "\n".join([head, f'<rect width="{width}" height="{height}" fill="#fff"/>', *parts, "</svg>"]) + "\n"


def error_plot(figures, title):
    """Horizontal bars of error rates with the claimed level as a line."""
    left, step, width = 330, 22, 760
    most = max(0.1, *(f["value"] for f in figures))
    scale = (width - left - 70) / most
    parts = [f'<text x="10" y="22" font-size="14" font-weight="bold">{title}</text>']
    y = 40
    for f in figures:
        ours = f["claim"] != "figure"
        label = f"{f['method']}: {f['scenario']}"
        label = label if len(label) < 58 else label[:56] + "…"
        parts.append(f'<text x="{left - 8}" y="{y + 14}" text-anchor="end" font-size="11">{label}</text>')
        parts.append(f'<rect x="{left}" y="{y + 3}" width="{max(1, f["value"] * scale):.1f}" height="15" '
                     f'fill="{OURS if ours else RIVAL}"/>')
        parts.append(f'<text x="{left + f["value"] * scale + 5:.1f}" y="{y + 15}">{percent(f["value"])}</text>')
        y += step
    level = figures[0]["nominal"]
    x = left + level * scale
    parts.append(f'<line x1="{x:.1f}" y1="36" x2="{x:.1f}" y2="{y}" stroke="{INK}" stroke-dasharray="4 3"/>')
    parts.append(f'<text x="{x:.1f}" y="{y + 14}" text-anchor="middle">α = {percent(level)}</text>')
    return svg(width, y + 26, parts)


def exposure_plot(figures):
    """Requests exposed until the stop against the ratio of failure rates, both logarithmic enough to read."""
    import math
    left, bottom, width, height = 80, 300, 640, 340
    by_method = {}
    for f in figures:
        if f["quantity"].startswith("requests exposed") and f["value"] > 0:
            by_method.setdefault(f["method"], []).append((float(f["scenario"].split()[1]), f["value"]))
    low, high = 10, 30_000
    sx = lambda r: left + (r - 1) / 4.2 * (width - left - 20)
    sy = lambda v: bottom - (math.log10(v) - math.log10(low)) / (math.log10(high) - math.log10(low)) * (bottom - 40)
    parts = ['<text x="10" y="22" font-size="14" font-weight="bold">Requests that a worse candidate served before it was stopped (median)</text>']
    for v in (10, 100, 1_000, 10_000):
        parts.append(f'<line x1="{left}" y1="{sy(v):.1f}" x2="{width - 20}" y2="{sy(v):.1f}" stroke="{GRID}"/>')
        parts.append(f'<text x="{left - 6}" y="{sy(v) + 4:.1f}" text-anchor="end">{v:,}</text>')
    for r in (1.5, 2, 3, 5):
        parts.append(f'<text x="{sx(r):.1f}" y="{bottom + 18}" text-anchor="middle">{r:g}×</text>')
    colours = [OURS, RIVAL, "#7a8b1f", "#8a3f8f", "#4aa3df"]
    for i, (method, points) in enumerate(by_method.items()):
        points.sort()
        path = " ".join(f"{sx(r):.1f},{sy(v):.1f}" for r, v in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colours[i % 5]}" stroke-width="2"/>')
        parts.append(f'<rect x="{width - 250}" y="{46 + 18 * i}" width="12" height="12" fill="{colours[i % 5]}"/>')
        parts.append(f'<text x="{width - 232}" y="{56 + 18 * i}">{method}</text>')
    parts.append(f'<text x="{(left + width) / 2}" y="{bottom + 36}" text-anchor="middle">failure rate as a multiple of the incumbent\'s</text>')
    return svg(width, height, parts)


PLOTTED = ("130 sequences", "150 sequences", "200 sequences")
COLUMNS = ["method", "scenario", "what", "found", "claimed", "runs"]


def main():
    figures = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
    page = pathlib.Path(sys.argv[2])
    plots = page.parent / "plots"
    plots.mkdir(exist_ok=True)
    by_experiment = {}
    for figure in figures:
        by_experiment.setdefault(figure["experiment"], []).append(figure)
    text = page.read_text(encoding="utf-8")
    for experiment, items in by_experiment.items():
        columns = COLUMNS + (["reference"] if any(f["reference"] for f in items) else [])
        mark = experiment.replace(" ", "-")
        body = f"<!-- figures {mark} -->\n{table(items, columns)}\n<!-- end {mark} -->"
        pattern = re.compile(rf"<!-- figures {mark} -->.*?<!-- end {mark} -->", re.S)
        if not pattern.search(text):
            sys.exit(f"{page} has no place for '{experiment}': add <!-- figures {mark} --><!-- end {mark} -->")
        text = pattern.sub(lambda _: body, text)
    harm = by_experiment.get("harm against the incumbent", [])
    if harm:
        (plots / "false_rollbacks.svg").write_text(
            error_plot([f for f in harm if f["quantity"] == "false rollbacks"], "False rollbacks of a harmless candidate"))
        (plots / "exposure.svg").write_text(exposure_plot(harm))
    means = [f for name in ("means of fixed data", "approximate means") for f in by_experiment.get(name, [])
             if f["quantity"].startswith("false passes") and f["scenario"].split(", ")[-1] in PLOTTED]
    if means:
        (plots / "false_passes.svg").write_text(error_plot(means, "False passes of a mean that is at its limit"))
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
