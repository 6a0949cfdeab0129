#!/usr/bin/env python3
"""Writes completions for bash, zsh and fish from the program's own table of commands: FOLDER/driftgate.bash,
FOLDER/_driftgate and FOLDER/driftgate.fish. Usage: scripts/completions.py PROGRAM FOLDER"""
import json
import pathlib
import re
import subprocess
import sys


def choices_of(option):
    found = re.search(r"\{([^}]*)\}", option["value"])
    return found.group(1).split(",") if found else []


def takes_path(option):
    """Whether a file or a folder is meant: the table says so in words."""
    return not option["flag"] and bool(re.search(r"\b(file|folder|captures? of|socket|bundle)\b", option["text"], re.I)) \
        and not choices_of(option)


def commands_of(table):
    """Every command with its words, the program itself first."""
    def walk(command, words):
        yield command, words
        for sub in command["commands"]:
            yield from walk(sub, words + [sub["name"]])
    yield from walk(table, ["driftgate"])


def named(command):
    return [option for option in command["options"] if not option["positional"]]


def shell_quoted(plain):
    return "'" + plain.replace("'", "'\\''") + "'"


def cases(keys_by_body):
    lines = []
    for body, keys in keys_by_body.items():
        lines += ["    " + " | \\\n        ".join(shell_quoted(key) for key in keys) + ")", f"        {body}", "        ;;"]
    return lines


def bash(table):
    every = list(commands_of(table))
    groups = [" ".join(words) for command, words in every if words != ["driftgate"]]
    words_of, values, valued = {}, {}, {}
    for command, words in every:
        path = " ".join(words)
        offered = [sub["name"] for sub in command["commands"]] + [n for option in named(command) for n in option["names"]]
        words_of.setdefault(f"words={shell_quoted(' '.join(offered))}", []).append(path)
        if any(option["positional"] and takes_path(option) for option in command["options"]):
            valued.setdefault("files=yes", []).append(path)
        for option in named(command):
            if option["flag"]:
                continue
            body = "words=" + shell_quoted(" ".join(choices_of(option))) + (" files=yes" if takes_path(option) else "")
            for name in option["names"]:
                values.setdefault(body, []).append(f"{path} {name}")
    return "\n".join([
        "# Completion of driftgate for bash, made by scripts/completions.py.",
        "_driftgate() {",
        "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}",
        "    local path=driftgate words= files= valued= word",
        "    for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do",
        "        case \"$path $word\" in", *cases({'path+=" $word"': groups}), "        esac", "    done",
        "    valued=yes",
        "    case \"$path $previous\" in", *cases(values), "    *) valued= ;;", "    esac",
        "    if [[ -z $valued ]]; then",
        "        case $path in", *cases(words_of), "        esac",
        "        case $path in", *(cases(valued) or ["    '') ;;"]), "        esac", "    fi",
        "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")",
        "    if [[ -n $files && $current != -* ]]; then",
        "        compopt -o filenames",
        "        mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY < <(compgen -f -- \"$current\")",
        "    fi", "}", "complete -F _driftgate driftgate", ""])


def zsh_text(plain):
    return re.sub(r"([\[\]:\\])", r"\\\1", plain)


def zsh_spec(option):
    choices = choices_of(option)
    action = f"({' '.join(choices)})" if choices else "_files" if takes_path(option) else " "
    said = zsh_text(option["text"])
    if option["positional"]:
        many = "*" if option["many"] else "" if option["required"] else ":"
        return [shell_quoted(f"{many}:{zsh_text(option['names'][0])}:{action}")]
    behind = "" if option["flag"] else f":{zsh_text(option['value'].split(':')[0].lower() or 'value')}:{action}"
    repeat = "*" if option["many"] else ""
    return [shell_quoted(f"{repeat}{name}[{said}]{behind}") for name in option["names"]]


def zsh(table):
    lines = ["#compdef driftgate", "# Completion of driftgate for zsh, made by scripts/completions.py.", ""]
    for command, words in commands_of(table):
        name = "_" + "_".join(words).replace("-", "_") if len(words) > 1 else "_driftgate_main"
        specs = [spec for option in command["options"] for spec in zsh_spec(option)]
        lines += [f"{name}() {{"]
        if command["commands"]:
            lines += ["    local curcontext=$curcontext state line", "    local -a commands=("]
            lines += ["        " + shell_quoted(zsh_text(s["name"]) + ":" + zsh_text(s["text"])) for s in command["commands"]]
            lines += ["    )", "    _arguments -C " + " \\\n        ".join(specs + ["'1: :->command'", "'*:: :->words'"]),
                      "    case $state in", "    command) _describe -t commands command commands ;;",
                      "    words)", "        case $words[1] in"]
            for sub in command["commands"]:
                function = "_" + "_".join(words + [sub["name"]]).replace("-", "_")
                lines.append(f"        {sub['name']}) {function} ;;")
            lines += ["        esac", "        ;;", "    esac"]
        else:
            lines.append("    _arguments -s " + " \\\n        ".join(specs))
        lines += ["}", ""]
    return "\n".join(lines + ["_driftgate_main \"$@\"", ""])


def fish(table):
    lines = ["# Completion of driftgate for fish, made by scripts/completions.py.",
             "function __driftgate_at", "    set -l path driftgate",
             "    for word in (commandline -opc)[2..-1]", "        switch \"$path $word\""]
    paths = [" ".join(words) for _, words in commands_of(table)][1:]
    lines += ["            case " + " ".join(shell_quoted(path) for path in paths), "                set path \"$path $word\"",
              "        end", "    end", "    test \"$path\" = \"$argv[1]\"", "end", "complete -c driftgate -f"]
    for command, words in commands_of(table):
        at = f"complete -c driftgate -n {shell_quoted('__driftgate_at ' + chr(34) + ' '.join(words) + chr(34))}"
        for sub in command["commands"]:
            lines.append(f"{at} -a {sub['name']} -d {fish_quoted(sub['text'])}")
        for option in command["options"]:
            if option["positional"]:
                lines += [f"{at} -F"] if takes_path(option) else []
                continue
            names = " ".join(f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option["names"])
            value = "" if option["flag"] else " -r -F" if takes_path(option) else \
                f" -x -a {fish_quoted(' '.join(choices_of(option)))}" if choices_of(option) else " -x"
            lines.append(f"{at} {names}{value} -d {fish_quoted(option['text'])}")
    return "\n".join(lines + [""])


def fish_quoted(plain):
    return "'" + plain.replace("\\", "\\\\").replace("'", "\\'") + "'"


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    table = json.loads(subprocess.run([program, "commands"], check=True, capture_output=True, text=True).stdout)
    folder.mkdir(parents=True, exist_ok=True)
    for name, made in (("driftgate.bash", bash(table)), ("_driftgate", zsh(table)), ("driftgate.fish", fish(table))):
        (folder / name).write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
