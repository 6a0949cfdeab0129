"""Says which sources of a target are compiled together, and writes the files that include them.

    unity_groups.py MOST FOLDER PREFIX FILE...

writes FOLDER/PREFIX_N.cpp for each group of at most MOST sources, where a file is not there with these contents already,
and prints their paths, separated by ';' as CMake lists are. A source that stands alone is printed as it is.

Each source must mean what it means alone. What one of them declares for itself (in an unnamed namespace, or static) must
not be seen by another that uses the same name. Where it would be, its own name is another one while it is read: the
preprocessor replaces it, after all headers of the group were read. Where that could change something else (the name
also follows '.', '->' or '::', a header is read on a condition, something is overridden), the two stay apart. A file that
defines a macro, or is generated later, stands alone.
"""

import functools
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COMMENT_OR_STRING = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z_])\'(?:\\.|[^\'\\\n])+\'',
    re.S)
INCLUDED_HERE = r'^#include\s+("[^"]+")'
NAME = r"[A-Za-z_]\w*"
TYPE = re.compile(rf"\b(?:struct|class|union|enum(?:\s+class)?|concept)\s+({NAME})")


def declared(statement):
    """The name that a declaration at the level of a namespace introduces."""
    statement = re.sub(r"\[\[.*?\]\]|^\s*template\s*<[^{;]*?>\s*(?=\w)|^\s*#[^\n]*$", " ", statement, flags=re.M | re.S)
    if kind := TYPE.match(re.sub(r"^\s*(?:template\s*<.*?>)?\s*", "", statement, flags=re.S)):
        return kind[1]
    if alias := re.match(rf"\s*using\s+({NAME})\s*=", statement):
        return alias[1]
    if re.match(r"\s*(?:using|namespace|static_assert)\b", statement):
        return None
    before = re.split(r"\(|=|\{|\[", statement, maxsplit=1)[0]
    words = re.findall(NAME, before)
    return words[-1] if words else None


def names_of(text, own):
    """Names declared in unnamed namespaces and static ones (`own`), or all that are declared in any namespace."""
    names, scopes, begin = set(), [], 0
    for at, mark in ((m.start(), m[0]) for m in re.finditer(r"[{};]", text)):
        inside = all(scope != "body" for scope in scopes)
        statement = text[begin:at]
        if inside and mark != "}" and not re.search(r"\bnamespace\b[^;]*$", statement):
            if not own or "unnamed" in scopes or re.search(r"\bstatic\b", statement):
                if name := declared(statement):
                    names.add(name)
        if mark == "{":
            space = re.search(r"\bnamespace\b([^;{}]*)$", statement)
            scopes.append("body" if not space else "named" if space[1].strip() else "unnamed")
        elif mark == "}" and scopes:
            scopes.pop()
        begin = at + 1
    return {name for name in names if not re.fullmatch(r"[A-Z][A-Z0-9_]+", name)}  # those are macros


class Source:
    """A file, what it declares for itself, and every word in it."""

    def __init__(self, path):
        self.path = path
        raw = open(path, encoding="utf-8").read() if os.path.exists(path) else ""
        text = COMMENT_OR_STRING.sub(" ", raw)
        self.alone = not text or bool(re.search(r"^\s*#\s*define\b", text, re.M))
        self.includes = re.findall(r'^#include\s+([<"][^>"]+[>"])', raw, re.M)
        plain = all(re.search(r'\.h(pp)?"$|>$', include) for include in self.includes)
        self.renames = plain and not re.search(r"^\s*#\s*if", text, re.M)
        text = re.sub(r"^\s*#.*$", " ", text, flags=re.M)
        self.text = text
        self.spaces = set(re.findall(r"^using namespace ([\w:]+);", text, re.M))
        self.own = names_of(text, True)
        self.headers = set().union(*(reached(header(path, include)) for include in self.includes if include[0] == '"'))
        self.words = set(re.findall(rf"(?<![\w.:>]){NAME}", text))

    def may_rename(self, name):
        return self.renames and not re.search(rf"(?:\.|->|::|~)\s*{name}\b|\b{name}\b[^;{{}}]*\boverride\b", self.text)


def header(path, include):
    """What names the header from anywhere; in quotes it may lie beside the source."""
    beside = os.path.join(os.path.dirname(os.path.abspath(path)), include[1:-1])
    return f'"{beside}"' if include[0] == '"' and os.path.exists(beside) else include


@functools.cache
def read_header(name):
    """(what a header of this project declares for everybody, the headers that it reads)"""
    for path in (name[1:-1], os.path.join(ROOT, name[1:-1])):
        if os.path.exists(path):
            text = open(path, encoding="utf-8").read()
            return frozenset(names_of(COMMENT_OR_STRING.sub(" ", text), False)), frozenset(re.findall(INCLUDED_HERE, text, re.M))
    return frozenset(), frozenset()


@functools.cache
def reached(name):
    """The header, and what is read with it."""
    found, new = set(), {name}
    while new:
        found |= new
        new = set().union(*(read_header(one)[1] for one in new)) - found
    return frozenset(found)


class Group:
    def __init__(self, first):
        self.sources, self.renamed = [first], [set()]

    def seen(self, kind):
        """The own names, or all words, of the sources of the group, as they are after what is renamed."""
        return set().union(*(getattr(source, kind) - names for source, names in zip(self.sources, self.renamed)))

    def seen_in_headers(self, one, source):
        """Own names of `one` that a header declares which only others of the group read."""
        others = set().union(source.headers, *(each.headers for each in self.sources)) - one.headers
        return one.own & set().union(*(read_header(name)[0] for name in others))

    def take(self, source, most):
        """Whether the source could be added."""
        first = self.sources[0]
        if first.alone or source.alone or len(self.sources) >= most or source.spaces != first.spaces:
            return False
        if os.path.isabs(source.path) and os.path.dirname(source.path) != os.path.dirname(first.path):
            return False  # of another target, whose headers may declare overloads
        clash = source.own & self.seen("words")
        others = self.seen("own") & (source.words - clash)  # of sources before it
        again = [names | (other.own & others) for other, names in zip(self.sources, self.renamed)]
        everything = [(one, names | self.seen_in_headers(one, source))
                      for one, names in [(source, clash), *zip(self.sources, again)]]
        if not all(one.may_rename(name) for one, names in everything for name in names):
            return False
        clash, *again = (names for _, names in everything)
        self.renamed = [*again, clash]
        self.sources.append(source)
        return True

    def text(self):
        headers = dict.fromkeys(header(source.path, include) for source in self.sources for include in source.includes)
        lines = [f"#include {header}" for header in headers] if any(self.renamed) else []
        for number, (source, names) in enumerate(zip(self.sources, self.renamed)):
            lines += [f"#define {name} {name}_of_{number}" for name in sorted(names)]
            lines.append(f'#include "{os.path.abspath(source.path)}"')
            lines += [f"#undef {name}" for name in sorted(names)]
        return "\n".join(lines) + "\n"


def main():
    most, folder, prefix, files = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]
    groups = []
    for source in map(Source, files):
        if not any(group.take(source, most) for group in groups):
            groups.append(Group(source))
    os.makedirs(folder, exist_ok=True)
    printed = []
    for number, group in enumerate(groups):
        path = os.path.join(folder, f"{prefix}_{number}.cpp")
        if len(group.sources) == 1:
            printed.append(os.path.abspath(group.sources[0].path))
            continue
        if not os.path.exists(path) or open(path, encoding="utf-8").read() != group.text():
            with open(path, "w", encoding="utf-8") as file:
                file.write(group.text())
        printed.append(path)
    print(";".join(printed), end="")


main()
