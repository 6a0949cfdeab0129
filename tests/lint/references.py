"""Every document, section, path and script that a page or a comment names exists: references.py ROOT."""
import fnmatch
import os
import re
import sys

import sources

SLASHED = sources.CODE + (".inl", ".c")  # languages whose comments begin with // or /*
CODE = SLASHED + (".py", ".sh", ".sql", ".cmake", ".yaml", ".yml", "CMakeLists.txt")
# Migrations are checksummed in every database, so that their comments stay as they were.
LEFT_OUT = ("migrations/", "tests/lint/lints_fire.py")  # the second holds broken samples
ROOMS = "bench|cmake|configs|daemon|docs|examples|gpu|migrations|schema|scripts|stages|tests"
FENCE = re.compile(r"^```.*?^```", re.M | re.S)
LINK = re.compile(r"\]\(([^)\s]+)\)")
# A page, and the sections named behind it, as in docs/drift.md, "Masked tokens" and "Diagnosis".
PAGE = re.compile(r"(?<![\w./-])((?:\.\./)*(?:[\w-]+/)*[\w-]+\.md)\b(?![\w/-])")
SECTIONS = re.compile(r"`?,? \(?(?:[Ss]ections? )?((?:\"[^\"]+\"(?:, | and |, and )?)+)")
NUMBERED = re.compile(r"`?,? \(?[Ss]ections? \d")
PATH = re.compile(r"(?<![\w./~<$}-])((?:%s)/[\w./{},*-]*[\w}*])/?(?![\w/<{(-])" % ROOMS)
# OUT.md, rules_N.jsonl: a word in capitals stands for some name.
PLACEHOLDER = re.compile(r"(?<![A-Za-z0-9])(?!README\b|CMakeLists\b)[A-Z]+(?![A-Za-z0-9])")
ROOTED = re.compile(r"(?<![\w./-])docs/[\w/-]+\.md\b")  # in strings as well
ELSEWHERE = re.compile(r"https?://\S+")


class Tree:
    """What exists: files and their folders, and the headings of pages."""

    def __init__(self, names, read):
        self.names, self.read, self.headings = set(names), read, {}
        self.folders = {os.path.dirname(n) for n in names}
        self.folders |= {f[:i] for f in self.folders for i, c in enumerate(f) if c == "/"}

    def has(self, path):
        return path in self.names or path.rstrip("/") in self.folders

    def matches(self, path):
        """`path` may hold {a,b}, * and no suffix: what several files of one unit are called."""
        choice = re.search(r"\{([^{}]*)\}", path)
        if choice:
            return all(self.matches(path[:choice.start()] + c.strip() + path[choice.end():])
                       for c in choice[1].split(","))
        if "*" in path:
            return any(fnmatch.fnmatchcase(n, path) for n in self.names | self.folders)
        return self.has(path) or any(self.has(path + s) for s in (".hpp", ".h", ".cpp", ".py"))

    def page(self, name, page):
        """The page that `page` means in the file `name`, or nothing."""
        beside = os.path.normpath(os.path.join(os.path.dirname(name), page))
        return next((p for p in (page, beside, "docs/" + page, "docs/design/" + page) if p in self.names), None)

    def sections(self, page):
        if page not in self.headings:
            text = FENCE.sub("", self.read(page))
            self.headings[page] = {re.sub(r"[`*]", "", h).strip() for h in re.findall(r"^#+ (.*)$", text, re.M)}
        return self.headings[page]

    def anchors(self, page):
        return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in self.sections(page)}


def prose(name, text):
    """One line for each paragraph or comment, with the number of the line where it begins."""
    if name.endswith(".md"):
        blank = lambda m: "\n" * m.group().count("\n")
        parts = ((m.start(), m.group()) for m in re.finditer(r"(?:^.*\S.*\n?)+", FENCE.sub(blank, text), re.M))
    else:
        first, next_ = (r"//|/\*", r"//|\*") if name.endswith(SLASHED) else (r"(?<!\S)(?:#|--)", r"#|--")
        comment = rf"(?:^[^\n\"]*?(?:{first})[^\n]*\n)(?:^[ \t]*(?:{next_})[^\n]*\n)*"
        strings = r"\"\"\".*?\"\"\"" if name.endswith(".py") else r"(?!)"
        parts = ((m.start(), m.group()) for m in re.finditer(f"{strings}|{comment}", text + "\n", re.M | re.S))
    for start, part in parts:
        yield text.count("\n", 0, start) + 1, re.sub(r"\s*\n[ \t]*(?:///?<?|#+|--|\*(?!/))?[ \t]*", " ", part)


def faults_of(name, text, tree):
    found = [f"{name}: there is no {p}" for p in ROOTED.findall(text) if p not in tree.names]
    page_text = name.endswith(".md")
    for line, words in prose(name, text):
        where = f"{name}:{line}"
        words = ELSEWHERE.sub("", words)
        for target in LINK.findall(words) if page_text else ():
            path, _, anchor = target.partition("#")
            path = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
            if not tree.has(path):
                found.append(f"{where}: the link to {target} leads nowhere")
            elif anchor and path.endswith(".md") and anchor not in tree.anchors(path):
                found.append(f"{where}: {path} has no heading #{anchor}")
        words = LINK.sub("]", words) if page_text else words
        for mention in PAGE.finditer(words):
            page = tree.page(name, mention[1])
            if page is None and PLACEHOLDER.search(mention[1]):
                continue
            if page is None:
                found.append(f"{where}: there is no page {mention[1]}")
                continue
            sections = SECTIONS.match(words, mention.end())
            for section in re.findall(r"\"([^\"]+)\"", sections[1]) if sections else ():
                if section not in tree.sections(page):
                    found.append(f'{where}: {page} has no section "{section}"')
            if NUMBERED.match(words, mention.end()):
                found.append(f"{where}: name the section of {page} by its heading")
        for path in PATH.findall(words):
            if not (path.endswith(".md") or tree.matches(path) or PLACEHOLDER.search(path)):
                found.append(f"{where}: there is no {path}")
    return found


if __name__ == "__main__":
    root = sys.argv[1]
    every = sources.files(root, "")
    tree = Tree(every, lambda name: sources.read(root, name))
    names = [n for n in every if n.endswith(CODE + (".md",)) or n.startswith(("scripts/", ".ci/"))]
    names = [n for n in names if not n.startswith(LEFT_OUT)]
    faults = sorted({f for n in names for f in faults_of(n, sources.read(root, n), tree)})
    sys.exit(sources.report("references", faults))
