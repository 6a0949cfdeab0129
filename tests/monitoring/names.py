#!/usr/bin/env python3
"""Rules, dashboard and docs/monitoring.md name metrics that the program has, every alert leads to a section that is there, and
the page names every metric and alert. Usage: names.py ROOT"""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])
METRIC = r"\bdriftgate_[a-z0-9_]*[a-z0-9]\b"
PARTS = ("_bucket", "_sum", "_count")


def metrics_of_the_program():
    """Names that stand in quotes in what writes /metrics."""
    names = set()
    for file in [*ROOT.glob("daemon/api/*metrics*.cpp"), ROOT / "daemon/app/metrics.cpp"]:
        names |= set(re.findall(rf'"({METRIC})"', file.read_text(encoding="utf-8")))
    return names


def base_of(name, known):
    for part in PARTS:
        if name.endswith(part) and name.removesuffix(part) in known:
            return name.removesuffix(part)
    return name


def anchors_of(page):
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def faults_of_the_dashboard(text):
    """What a dashboard of Grafana must have, as its importer reads it."""
    dashboard = json.loads(text)
    for member in ("uid", "title", "schemaVersion", "panels", "templating", "time", "annotations"):
        if member not in dashboard:
            yield f"it has no {member}"
    ids = [panel["id"] for panel in dashboard["panels"]]
    if len(ids) != len(set(ids)):
        yield "two panels have one id"
    taken = set()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        if at["x"] + at["w"] > 24 or cells & taken:
            yield f"{panel['title']}: it is not on the grid, or on another panel"
        taken |= cells
        if panel["type"] != "row" and not panel["targets"]:
            yield f"{panel['title']}: it asks nothing"
        refs = [target["refId"] for target in panel.get("targets", [])]
        if len(refs) != len(set(refs)):
            yield f"{panel['title']}: two queries have one name"
        for target in panel.get("targets", []):
            if target["datasource"]["uid"] != "${datasource}":
                yield f"{panel['title']}: its data source is fixed"


def main():
    known = metrics_of_the_program()
    faults = [] if len(known) > 50 else [f"only {len(known)} metrics were found in the sources"]
    rules = (ROOT / "configs/prometheus/driftgate.rules.yaml").read_text(encoding="utf-8")
    dashboard = (ROOT / "configs/grafana/driftgate.json").read_text(encoding="utf-8")
    page = (ROOT / "docs/monitoring.md").read_text(encoding="utf-8")
    for file, text in (("the rules", rules), ("the dashboard", dashboard), ("docs/monitoring.md", page)):
        for name in sorted(set(re.findall(METRIC, text))):
            if base_of(name, known) not in known:
                faults.append(f"{file}: there is no metric {name}")
    faults += [f"docs/monitoring.md does not explain {name}" for name in sorted(known - set(re.findall(METRIC, page)))]
    alerts = re.findall(r"alert: (\w+)", rules)
    faults += [f"docs/monitoring.md does not name the alert {name}" for name in alerts if f"`{name}`" not in page]
    runbooks = re.findall(r"runbook: (\S+)", rules)
    if len(runbooks) != len(alerts):
        faults.append(f"{len(alerts)} alerts have {len(runbooks)} runbooks")
    for link in sorted(set(runbooks)):
        file, _, anchor = link.partition("#")
        if not (ROOT / file).is_file() or (anchor and anchor not in anchors_of(file)):
            faults.append(f"the rules: {link} leads nowhere")
    faults += [f"the dashboard: {fault}" for fault in faults_of_the_dashboard(dashboard)]
    print("\n".join(faults) or f"{len(known)} metrics, {len(alerts)} alerts: ok")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
