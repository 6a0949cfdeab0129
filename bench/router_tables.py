"""The tables that bench/router.py prints: medians over the rounds, with minimum and maximum."""
import statistics

TITLES = {"driftgate": "driftgate", "haproxy": "HAProxy", "nginx": "nginx"}


def spread(values, digits=1):
    """"median (minimum to maximum)"."""
    low, middle, high = (f"{v:,.{digits}f}" for v in (min(values), statistics.median(values), max(values)))
    return f"{middle} ({low} to {high})"


def ratios(figures, key, peer):
    """driftgate's figure over the peer's in each round."""
    return [own[key] / other[key] for own, other in zip(figures["driftgate"], figures[peer])]


def added(figures, key, target):
    """What the target adds to the direct way in each round."""
    return [own[key] - direct[key] for own, direct in zip(figures[target], figures["direct"])]


def share_of_added(figures, peer):
    """What driftgate adds to the 99th percentile over what the peer adds, by the medians: a single round may add nothing."""
    own, other = (statistics.median(added(figures, "p99_us", name)) for name in ("driftgate", peer))
    return f"{own / other:.2f}" if other > 0 else "–"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def of_peers(peers):
    return [TITLES[peer] for peer in peers], [peer for peer in peers if peer != "driftgate"]


def processor_time(cases, figures, peers):
    """Processor time of a request or event in µs, and driftgate's share of each peer's."""
    titles, others = of_peers(peers)
    rows = [[case.text] + [spread([f["cpu_us"] for f in figures[case.name][peer]]) for peer in peers]
            + [spread(ratios(figures[case.name], "cpu_us", peer), 2) for peer in others] for case in cases]
    return table(["processor time, µs"] + titles + [f"over {TITLES[peer]}" for peer in others], rows)


def latency(cases, figures, peers):
    """Latency of the direct way, and what each proxy adds to it, in µs: median · 99th percentile."""
    titles, others = of_peers(peers)
    rows = []
    for case in cases:
        of_case = figures[case.name]
        direct = [" · ".join(f"{statistics.median(f[key] for f in of_case['direct']):,.0f}" for key in ("p50_us", "p99_us"))]
        each = [" · ".join(spread(added(of_case, key, peer), 0) for key in ("p50_us", "p99_us")) for peer in peers]
        shares = [share_of_added(of_case, peer) for peer in others]
        rows.append([case.text] + direct + each + shares)
    return table(["latency, µs, p50 · p99", "direct"] + [f"{title} adds" for title in titles]
                 + [f"added p99 over {TITLES[peer]}" for peer in others], rows)


def throughput(cases, figures, peers):
    """Requests a second of closed loops, where the proxy, or what drives it, is the limit."""
    titles, others = of_peers(peers)
    rows = [[case.text, f"{statistics.median(f['per_second'] for f in figures[case.name]['direct']):,.0f}"]
            + [spread([f["per_second"] for f in figures[case.name][peer]], 0) for peer in peers]
            + [spread(ratios(figures[case.name], "per_second", peer), 2) for peer in others]
            for case in cases if case.shape != "stream" and not case.rate]
    return table(["requests a second", "direct"] + titles + [f"over {TITLES[peer]}" for peer in others], rows)


def memory(figures):
    """Resident memory for each idle connection, in bytes."""
    rows = [[TITLES[peer], f"{rounds[0]['connections']:,}", spread([r["before_kb"] / 1024 for r in rounds]),
             spread([r["fresh_bytes_each"] for r in rounds], 0), spread([r["used_bytes_each"] for r in rounds], 0),
             f"{max(r['closed'] for r in rounds):,}"] for peer, rounds in figures.items()]
    return table(["memory", "connections", "without them, MiB", "bytes for each, before its first request",
                  "bytes for each, after a request", "closed by the proxy"], rows)
