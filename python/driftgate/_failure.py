"""The words of a failed assertion, from what `driftgate drift --json` says. Needs nothing but the dictionary."""

import math
import re
from typing import Any, Dict, List, Mapping, Optional

GRAVITY = {"pass": 0, "inconclusive": 1, "error": 2, "violated": 3}
MAX_CLAUSES, MAX_ROWS = 4, 3
# What takes no visible room, as on the daemon's page: names come from files that others wrote.
UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
                    "\U000e0000-\U000e007f]")


def visible(text: Any) -> str:
    return UNSEEN.sub(lambda m: f"⟨U+{ord(m.group()):04X}⟩", str(text))


def place(where: Mapping[str, str]) -> str:
    return visible(";".join(f"{key}={where[key]}" for key in sorted(where))) if where else "corpus"


def blocks(verdict: Mapping[str, Any]) -> bool:
    """As the contract's verdict takes it: neither soft clauses nor weak findings on slices."""
    if verdict["severity"] == "soft" or verdict["role"] == "described":
        return False
    return not (verdict["verdict"] == "inconclusive" and verdict["role"] in ("monitored", "discovered"))


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else math.nan


def _mean_kl(part: Mapping[str, Any]) -> float:
    found = part.get("metrics", {}).get("kl_inf_train", {})
    return _number(found.get("mean", found.get("mean_lower")))


def _at_least(report: Mapping[str, Any]) -> str:
    """Before a figure of captures that hold a part of each distribution: a lower bound. Of two there is no ratio."""
    return "at least " if "partial" in report else ""


def _slice(report: Mapping[str, Any], verdict: Mapping[str, Any]) -> Optional[Mapping[str, Any]]:
    """The slice that the verdict is about, else the one with the most drift, if that is more than the corpus has."""
    slices = report["slices"]
    if verdict["where"]:
        return next((s for s in slices if s["where"] == verdict["where"]), None)
    drifting = sorted((s for s in slices if not math.isnan(_mean_kl(s))), key=_mean_kl, reverse=True)
    return drifting[0] if drifting and _mean_kl(drifting[0]) > _mean_kl(report) else None


def _rows(report: Mapping[str, Any], where: Mapping[str, str]) -> List[str]:
    least = _at_least(report)
    inside = [row for row in report["worst_rows"] if all(row.get("slices", {}).get(k) == v for k, v in where.items())]
    return [f"row {row['row']} (sequence {row['sequence']}" + (f", {visible(row['id'])}" if "id" in row else "") +
            f", position {row['position']}, kl_inf_train {least}{_number(row['metrics']['kl_inf_train']):.4g})"
            for row in inside[:MAX_ROWS]]


def message(report: Dict[str, Any], name: str = "drift") -> str:
    """The clauses that do not pass, the gravest first, each with its slice and rows; then the pattern."""
    failed = [v for v in report["verdicts"] if v["verdict"] != "pass"]
    failed.sort(key=lambda v: (not blocks(v), -GRAVITY[v["verdict"]]))
    lines = [f"{visible(name)}: contract {visible(report['contract']['name'])}: {report['verdict'].upper()} "
             f"({visible(report['inf']['kernel'] or 'inf')} against {visible(report['train']['kernel'] or 'train')}, "
             f"{report['rows']} rows of {report['sequences']} sequences)"]
    for verdict in failed[:MAX_CLAUSES]:
        on = f" on {place(verdict['where'])}" if verdict["where"] else ""
        aside = "" if blocks(verdict) else " (does not block)"
        lines.append(f"  {verdict['verdict'].upper()}{aside} {visible(verdict['clause'])}{on}: "
                     f"{visible(verdict['message'])}")
        worst = _slice(report, verdict)
        if worst is not None:
            least = _at_least(report)
            times = _mean_kl(worst) / _mean_kl(report) if not least and _mean_kl(report) > 0 else math.nan
            beside = "" if math.isnan(times) else f", {times:.3g} times the corpus"
            lines.append(f"    worst slice: {place(worst['where'])} ({worst['sequences']} sequences, {worst['rows']} "
                         f"rows, mean kl_inf_train {least}{_mean_kl(worst):.4g}{beside})")
        rows = _rows(report, worst["where"] if worst is not None else {})
        if rows:
            lines.append("    worst rows: " + "; ".join(rows))
    if len(failed) > MAX_CLAUSES:
        lines.append(f"  … and {len(failed) - MAX_CLAUSES} more verdicts that are no pass")
    lines += _diagnosis(report["diagnosis"])
    lines.append("  more: pytest --driftgate-report drift.html (or .md, .json, .xml); `except DriftError as error: "
                 "error.drift` has every figure")
    return "\n".join(lines)


def _diagnosis(diagnosis: Mapping[str, Any]) -> List[str]:
    found = diagnosis["suspicions"]
    if not found:
        return ["  pattern: " + visible(diagnosis["summary"])]
    first = found[0]
    return ["  pattern: " + "; ".join(f"{s['pattern']} ({visible(s['where'])})" for s in found),
            f"  looks like {visible(first['looks_like'])}, because {visible(first['because'])}",
            f"  next: {visible(first['next'])}"]
