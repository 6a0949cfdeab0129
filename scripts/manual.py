#!/usr/bin/env python3
"""Writes the manual pages from the program's own tables: driftgate(1), a page for each of its commands, and
driftgate.yaml(5). Usage: scripts/manual.py PROGRAM FOLDER"""
import json
import pathlib
import re
import subprocess
import sys

ENVIRONMENT = [
    ("DRIFTGATE_URL", "The daemon's URL, where --url is not given."),
    ("DRIFTGATE_TOKEN", "The token, where --token-file is not given."),
    ("DRIFTGATE_CA", "The CA file, where --ca is not given."),
    ("DRIFTGATE_SHARE", "Folder of the shipped examples and contracts, in place of the one of the installation."),
]
FILES = [
    ("/etc/driftgate/driftgate.yaml", "Settings of the daemon, driftgate.yaml(5)."),
    ("/var/lib/driftgate", "The data folder of the service: the record, its keys and the first admin's token."),
    ("~/.config/driftgate/token", "The token of who calls."),
    ("/usr/share/driftgate", "Contracts and the tinylm example."),
]


def text(plain):
    """Running text: what roff would take for its own is written so that it does not. Quotation marks of code get
    their ASCII form."""
    plain = plain.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("^", "\\(ha").replace("~", "\\(ti")
    plain = plain.replace("`", "\\(ga").replace("…", "\\&...")
    return "\n".join("\\&" + line if line.startswith((".", "'")) else line for line in plain.splitlines())


def sentence(plain):
    plain = plain.strip()
    return plain if plain.endswith((".", ")", "?")) else plain + "."


def value_of(option):
    """What stands behind an option's name, and the values that it takes."""
    if option["flag"]:
        return "", ""
    value, _, choices = option["value"].partition(":")
    return value.split(" ")[0] or "TEXT", choices


def synopsis(command, words):
    parts = ["\\fB" + text(" ".join(words)) + "\\fR"]
    if any(not option["positional"] for option in command["options"]):
        parts.append("[\\fIOPTIONS\\fR]")
    for option in command["options"]:
        if option["positional"]:
            name = "\\fI" + text(option["names"][0]) + "\\fR" + ("\\&..." if option["many"] else "")
            parts.append(name if option["required"] else f"[{name}]")
    if command["commands"]:
        parts.append("\\fICOMMAND\\fR")
    return " ".join(parts)


def tagged(tag, body):
    return [".TP", tag, body]


def option_lines(command):
    lines = []
    for option in sorted(command["options"], key=lambda option: not option["positional"]):
        value, choices = value_of(option)
        names = option["names"]
        shown = ", ".join(("\\fI" if option["positional"] else "\\fB") + text(name) + "\\fR" for name in names)
        if value and not option["positional"]:
            shown += " \\fI" + text(value) + "\\fR" + ("\\&..." if option["many"] else "")
        body = sentence(option["text"])
        if choices.startswith("{"):
            body += " One of " + ", ".join(choices.strip("{}").split(",")) + "."
        elif choices:
            body += " (" + choices.replace("INT in ", "whole number in ") + ")"
        if option["required"] and not option["positional"]:
            body += " Required."
        lines += tagged(shown, text(body))
    return lines


def head(name, section, version):
    return [f'.TH {text(name.upper())} {section} "" "driftgate {version}" "driftgate"', ".nh", ".ad l"]


def exit_lines(table):
    listed = re.sub(r"\s+", " ", table["exit_codes"]).removeprefix("Exit codes: ").rstrip(".")
    lines = [".SH EXIT STATUS"]
    for item in re.findall(r"(\d+) ([^,]*(?:, (?!\d)[^,]*)*)", listed):
        lines += tagged(f"\\fB{item[0]}\\fR", text(sentence(item[1])))
    return lines


def main_page(table, version):
    lines = head("driftgate", 1, version)
    lines += [".SH NAME", "driftgate \\- decide which version of a model users are served", ".SH SYNOPSIS",
              "\\fBdriftgate\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]", ".SH DESCRIPTION", text(table["text"]), ".PP",
              text("driftgate measures the drift between a model as it was trained and as it is served, decides by a "
                   "contract whether a version may replace another one, routes users' requests meanwhile, and keeps a "
                   "signed record of every measurement and decision. Its first page is "
                   "/usr/share/doc/driftgate/quickstart.md."), ".SH COMMANDS"]
    for command in table["commands"]:
        lines += tagged(f"\\fBdriftgate\\-{text(command['name'])}\\fR(1)", text(sentence(command["text"])))
    lines += exit_lines(table) + [".SH ENVIRONMENT"]
    for name, meaning in ENVIRONMENT:
        lines += tagged(f"\\fB{name}\\fR", text(meaning))
    lines.append(".SH FILES")
    for name, meaning in FILES:
        lines += tagged(f"\\fI{text(name)}\\fR", text(meaning))
    return lines + [".SH SEE ALSO", "\\fBdriftgate\\-serve\\fR(1), \\fBdriftgate\\-drift\\fR(1), "
                    "\\fBdriftgate.yaml\\fR(5)"]


def leaves(command, words):
    if not command["commands"]:
        return [(command, words)]
    return [leaf for sub in command["commands"] for leaf in leaves(sub, words + [sub["name"]])]


def command_page(table, command, version):
    words = ["driftgate", command["name"]]
    title = "-".join(words)
    said = command["text"]
    lines = head(title, 1, version) + [".SH NAME", f"{text(title)} \\- {text(said[:1].lower() + said[1:])}", ".SH SYNOPSIS"]
    found = leaves(command, words)
    for number, (leaf, path) in enumerate(found):
        lines += ([".br"] if number else []) + [synopsis(leaf, path)]
    if command["commands"]:
        lines += [".SH DESCRIPTION", text(sentence(said)), ".SH COMMANDS"]
        for leaf, path in found:
            lines += [".SS " + text(" ".join(path)), text(sentence(leaf["text"]))] + option_lines(leaf)
    else:
        lines += [".SH DESCRIPTION", text(sentence(said)), ".SH OPTIONS"] + option_lines(command)
    see = ["\\fBdriftgate\\fR(1)"] + (["\\fBdriftgate.yaml\\fR(5)"] if command["name"] in ("serve", "settings") else [])
    return lines + exit_lines(table) + [".SH SEE ALSO", ", ".join(see)]


def settings_page(yaml, version):
    """The documented settings as the program prints them, each key under its comment."""
    lines = head("driftgate.yaml", 5, version)
    lines += [".SH NAME", "driftgate.yaml \\- settings of the driftgate daemon", ".SH DESCRIPTION",
              text("The daemon reads the file that driftgate serve --config names; the service reads "
                   "/etc/driftgate/driftgate.yaml. What is not named has its default. A file that cannot be used is "
                   "refused with the line and the reason: driftgate serve --check."), ".SH SETTINGS"]
    section, comment = "", []
    for line in yaml.splitlines():
        stripped = line.strip()
        if stripped.startswith("#"):
            comment.append(stripped.lstrip("# "))
        elif not stripped:
            if not line and comment and not section:
                comment = []
        elif stripped.endswith(":") and not line.startswith(" "):
            section, comment = stripped, []
        else:
            if not line.startswith(" "):
                section = ""
            key, _, value = stripped.partition(":")
            lines += tagged(f"\\fB{text(section[:-1] + '.' if section else '')}{text(key)}:\\fR {text(value.strip())}",
                            text(" ".join(comment)))
            comment = []
    return lines + [".SH SEE ALSO", "\\fBdriftgate\\-serve\\fR(1), \\fBdriftgate\\-settings\\fR(1)"]


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    printed = lambda *words: subprocess.run([program, *words], check=True, capture_output=True, text=True).stdout
    table, version = json.loads(printed("commands")), printed("version").split()[1]
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("driftgate*.[15]"):
        old.unlink()
    pages = {"driftgate.1": main_page(table, version), "driftgate.yaml.5": settings_page(printed("settings"), version)}
    for command in table["commands"]:
        pages[f"driftgate-{command['name']}.1"] = command_page(table, command, version)
    for name, lines in pages.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
