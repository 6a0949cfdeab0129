"""Says which sources of a target may be compiled together.

    unity_groups.py MOST FILE...

prints the number of a group for each file, separated by ';' as CMake lists are. Two files share a group only if
no name that one of them declares for itself (in an unnamed namespace) occurs in the other: then neither can
see the other's declarations, and means what it means alone. A file that
defines a macro, or is generated later, stands alone.
"""

import os
import re
import sys

COMMENT_OR_STRING = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z_])\'(?:\\.|[^\'\\\n])+\'',
    re.S)
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


def own_names(text):
    """Names declared in unnamed namespaces, and static ones."""
    names, scopes, begin = set(), [], 0
    for at, mark in ((m.start(), m[0]) for m in re.finditer(r"[{};]", text)):
        inside = all(scope != "body" for scope in scopes)
        statement = text[begin:at]
        if inside and mark != "}" and not re.search(r"\bnamespace\b[^;]*$", statement):
            if "unnamed" in scopes or re.search(r"\bstatic\b", statement):
                if name := declared(statement):
                    names.add(name)
        if mark == "{":
            space = re.search(r"\bnamespace\b([^;{}]*)$", statement)
            scopes.append("body" if not space else "named" if space[1].strip() else "unnamed")
        elif mark == "}" and scopes:
            scopes.pop()
        begin = at + 1
    return names - {"TEST_CASE", "TEST_CASE_TEMPLATE", "TEST_SUITE"}


def main():
    most, files = int(sys.argv[1]), sys.argv[2:]
    groups = []  # of [count, own names, all words, opened namespaces]
    numbers = []
    for path in files:
        text = COMMENT_OR_STRING.sub(" ", open(path, encoding="utf-8").read()) if os.path.exists(path) else ""
        alone = not text or re.search(r"^\s*#\s*define\b", text, re.M)
        text = re.sub(r"^\s*#.*$", " ", text, flags=re.M)
        opened = set(re.findall(r"^using namespace ([\w:]+);", text, re.M))
        own, words = own_names(text), set(re.findall(rf"(?<![\w.:>]){NAME}", text))
        fits = next((i for i, (count, names, used, spaces) in enumerate(groups)
                     if not alone and count < most and spaces == opened and not own & used and not names & words),
                    None)
        if fits is None:
            fits = len(groups)
            groups.append([most if alone else 0, set(), set(), opened])
        groups[fits][0] += 1
        groups[fits][1] |= own
        groups[fits][2] |= words
        numbers.append(fits)
    print(";".join(map(str, numbers)), end="")


main()
