"""No source file over 600 lines, no C++ function over 60, no folder with over 40 sources (docs/architecture.md, "Rules that a machine checks")."""
import collections
import os
import re
import sys

import sources

LIMIT_LINES = 600
LIMIT_FILES = 40
LIMIT_FUNCTION_LINES = 60  # from the line of its opening brace to that of its closing one
CPP = sources.CODE + (".inl",)

# What has braces of its own or could be taken for one: comments, raw strings, strings, characters.
QUOTED = re.compile(r'//[^\n]*|/\*.*?\*/|R"([^()\s\\]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
                    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])*'", re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
SCOPE = re.compile(r"\s*(?:template\s*<.*>\s*|inline\s+|export\s+|typedef\s+|static\s+|const(?:expr)?\s+)*"
                   r'(?:namespace|class|struct|union|enum|extern\s*(?:""\s*)?(?=$))\b', re.S)


def blank(match):
    """The same lines with nothing in them."""
    return re.sub(r"[^\n]", " ", match.group())


def functions(text):
    """(name, first line, lines) of each function body. A test case is one; a lambda belongs to what it is in."""
    text = DIRECTIVE.sub(blank, QUOTED.sub(blank, text))
    found, depth, begin, line = [], 0, 0, 1
    scopes = []  # of each open brace outside functions: whether declarations stand in it
    head, opened, name = "", 0, ""
    for match in re.finditer(r"[{};\n]|[^{};\n]+", text):
        token = match.group()
        if token == "\n":
            line += 1
            head += " "
        elif depth:  # inside a function
            depth += (token == "{") - (token == "}")
            if not depth:
                found.append((name, opened, line - opened + 1))
                head = ""
        elif token == "{":
            is_scope = bool(SCOPE.match(head)) and not re.search(r"\)\s*(?:const|noexcept|\s)*$", head)
            initializer = head.rstrip().endswith(("=", ",", "(")) or (scopes and not scopes[-1])
            if not is_scope and not initializer and ("(" in head or not head.strip()):
                depth, opened = 1, line
                called = re.search(r"([~\w:]+)\s*\(", head)
                name = called.group(1) if called else name
            else:
                scopes.append(is_scope)
            head = ""
        elif token == "}":
            if scopes:
                scopes.pop()
            head = ""
        elif token == ";":
            head = ""
        else:
            head += token
    return found


def faults_of(name, text):
    lines = text.count("\n")
    found = [f"{name}: {lines} lines; split it, the limit is {LIMIT_LINES}"] if lines > LIMIT_LINES else []
    if name.endswith(CPP):
        found += [f"{name}:{first}: {called} has {size} lines; cut it, the limit is {LIMIT_FUNCTION_LINES}"
                  for called, first, size in functions(text) if size > LIMIT_FUNCTION_LINES]
    return found


def folder_faults(names):
    count = collections.Counter(os.path.dirname(name) for name in names)
    return [f"{folder}: {files} source files; cut it into folders, the limit is {LIMIT_FILES}"
            for folder, files in sorted(count.items()) if files > LIMIT_FILES]


if __name__ == "__main__":
    root = sys.argv[1]
    names = sources.files(root, CPP + (".py", ".ts", ".tsx", ".sh"))
    faults = [f for n in names for f in faults_of(n, sources.read(root, n))]
    sys.exit(sources.report("sizes", faults + folder_faults(n for n in names if n.endswith(CPP))))
