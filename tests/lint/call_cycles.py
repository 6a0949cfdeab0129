"""No function of daemon/pipeline is in a call cycle: a function that commits a change must not be entered again while
it runs, so what follows from a COMMIT goes through the queue of effects (docs/architecture.md, "How a promotion advances").

The call graph is read from the text. Overloads are one node. A qualified call is matched by its qualifiers and an
unqualified one within its class and namespaces. A call on an object is matched in the classes that a variable of its
name is declared with, their bases and what derives from them, and in every class when the text does not tell. Lambdas
belong to the function that writes them, except those that are given a name (`.name = [...]`), which are functions of
that name. A function whose name is handed over as an argument counts as called.
"""
import re
import sys

import sources

FOLDER = "daemon/pipeline/"
# Functions that may call themselves, and why they end.
ALLOWED = {
    "driftgate::pipeline::entry_value": "goes down a JSON document, whose depth the parser bounds",
}
# What is handed to these runs later, from the queue of a thread, and never inside the call.
DEFERRED = {
    "post": "Loop::post queues a function for its thread",
    "on_done": "JobRunner::on_done stores a callback, which the runner calls on a thread of its own",
}
KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof", "alignof", "decltype", "catch", "co_await", "co_return",
            "static_assert", "noexcept", "requires", "new", "delete", "throw", "constexpr", "operator", "alignas",
            "static_cast", "const_cast", "reinterpret_cast", "dynamic_cast", "defined", "explicit"}
TOKEN = re.compile(r"[A-Za-z_]\w*|::|->|\[\[|\]\]|&&|\|\||[^\s\w]|\d[\w.']*")
NAME = re.compile(r"[A-Za-z_]\w*$")
ANY_CLASS = "*"  # owner of a lambda with a name: a member of whatever is filled with it


def tokens_of(text):
    text = re.sub(r'R"(\w*)\(.*?\)\1"', '""', text, flags=re.S)
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    text = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)
    text = re.sub(r"'(?:\\.|[^'\\\n])'", "0", text)
    text = re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", " ", text, flags=re.M)
    return TOKEN.findall(text)


def closing(tokens, at, pair):
    """The index of the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(tokens)):
        depth += (tokens[i] == pair[0]) - (tokens[i] == pair[1])
        if depth == 0:
            return i
    return len(tokens) - 1


def qualified_before(tokens, at):
    """The qualifiers of the name at `at`, with templates' arguments left out, and where they begin."""
    parts, i = [], at
    while i >= 2 and tokens[i - 1] == "::" and NAME.match(tokens[i - 2]):
        parts.insert(0, tokens[i - 2])
        i -= 2
    return parts, i


def body_after(tokens, at):
    """The index of the brace that begins the body of a function whose parameters end at `at`; None: no definition."""
    i = at + 1
    while i < len(tokens) and tokens[i] in ("const", "noexcept", "override", "final", "mutable", "&", "&&", "(", "->"):
        if tokens[i] == "(":
            i = closing(tokens, i, "()")
        if tokens[i] == "->":
            while i < len(tokens) and tokens[i] not in ("{", ";"):
                i += 1
            break
        i += 1
    if i < len(tokens) and tokens[i] == ":":  # members' initialisers
        i += 1
        while i < len(tokens):
            while i < len(tokens) and tokens[i] not in ("(", "{"):
                i += 1
            i = closing(tokens, i, "()" if tokens[i] == "(" else "{}") + 1
            if i >= len(tokens) or tokens[i] != ",":
                break
            i += 1
    return i if i < len(tokens) and tokens[i] == "{" else None


def definitions(tokens):
    """(qualified name, class it belongs to or "", tokens of its parameters and body) of each function."""
    found, scopes, i = [], [], 0  # scopes: (index where it closes, name, is a class)
    while i < len(tokens):
        while scopes and i >= scopes[-1][0]:
            scopes.pop()
        token = tokens[i]
        if token in ("namespace", "class", "struct", "union", "enum"):
            j, names = i + 1, []
            while j < len(tokens) and tokens[j] not in ("{", ";", ":", "=", "(", ")", ">", ","):
                if NAME.match(tokens[j]) and tokens[j] not in ("class", "final"):
                    names.append(tokens[j])
                j += 1
            while j < len(tokens) and tokens[j] not in ("{", ";", "(", ")", ">", ",", "="):
                j += 1
            if j < len(tokens) and tokens[j] == "{":
                end = closing(tokens, j, "{}")
                if token == "enum":
                    i = end + 1
                    continue
                name = "::".join(names) if token == "namespace" else (names[0] if names else "")
                scopes.append((end, name, token != "namespace"))
            i = j + 1
            continue
        if NAME.match(token) and token not in KEYWORDS and i + 1 < len(tokens) and tokens[i + 1] == "(":
            end = closing(tokens, i + 1, "()")
            body = body_after(tokens, end)
            if body is not None:
                stop = closing(tokens, body, "{}")
                own, _ = qualified_before(tokens, i)
                if own and tokens[i - 1] == "~":
                    own = []
                path = [s[1] for s in scopes if s[1]] + own
                owner = next((s[1] for s in reversed(scopes) if s[2]), own[-1] if own else "")
                found.append(("::".join(path + [token]), owner, tokens[i + 1:stop + 1]))
                i = stop + 1
                continue
            i = end + 1
            continue
        if token == "{":  # an initialiser
            i = closing(tokens, i, "{}") + 1
            continue
        i += 1
    return found


CONTAINERS = {"array", "deque", "list", "map", "set", "span", "string", "string_view", "unordered_set", "vector", "json",
              "atomic", "condition_variable", "optional"}


def declared_types(tokens, types, bases):
    """Adds the types that variables are declared with, by their names, and the bases of classes."""
    for i in range(1, len(tokens) - 1):
        if tokens[i] in ("class", "struct") and NAME.match(tokens[i + 1]):
            j = i + 2
            while j < len(tokens) and tokens[j] not in ("{", ";", ")", ">", ","):
                if NAME.match(tokens[j]) and tokens[j] not in ("public", "final", "private", "virtual"):
                    bases.setdefault(tokens[i + 1], set()).add(tokens[j])
                j += 1
        if not NAME.match(tokens[i]) or tokens[i + 1] not in (";", "=", "{", "(", ",", ")", ":"):
            continue
        j = i - 1
        while j > 0 and tokens[j] in ("&", "&&", "*", "const"):
            j -= 1
        if tokens[j] == ">":
            depth = 0
            while j > 0:
                depth += (tokens[j] == ">") - (tokens[j] == "<")
                if depth == 0:
                    break
                j -= 1
            j -= 1
        if j > 0 and NAME.match(tokens[j]) and tokens[j] not in KEYWORDS and tokens[j - 1] not in (".", "->"):
            types.setdefault(tokens[i], set()).add(tokens[j])


def classes_of(variable, arrow, types, bases):
    """The classes whose members a call on this variable may mean; None: any."""
    known = types.get(variable, {"auto"})
    if known & {"auto", "unique_ptr", "shared_ptr", "Result"} or (arrow and known & CONTAINERS):
        return None
    found, more = set(), set(known)
    while more:
        found |= more
        more = {b for c in more for b in bases.get(c, ())} | {d for d, b in bases.items() if b & more}
        more -= found
    return found


def lambda_end(tokens, at):
    """The end of the lambda that begins with `[` at `at`; None when there is none."""
    i = closing(tokens, at, "[]") + 1
    if i < len(tokens) and tokens[i] == "(":
        i = closing(tokens, i, "()") + 1
    while i < len(tokens) and tokens[i] not in ("{", ";", ")", ","):
        i += 1
    return closing(tokens, i, "{}") if i < len(tokens) and tokens[i] == "{" else None


def split_named_lambdas(function):
    """The function without the lambdas that it names, and those as functions."""
    name, owner, tokens = function
    own, others, i = [], [], 0
    while i < len(tokens):
        if tokens[i] == "." and i + 3 < len(tokens) and tokens[i + 2] == "=" and tokens[i + 3] == "[":
            end = lambda_end(tokens, i + 3)
            if end is not None:
                others.append((f"{name}::{tokens[i + 1]}", ANY_CLASS, tokens[i + 4:end + 1]))
                i = end + 1
                continue
        own.append(tokens[i])
        i += 1
    return [(name, owner, own)] + others


def without_deferred(tokens):
    """The body without what it hands over to be run later."""
    kept, i = [], 0
    while i < len(tokens):
        kept.append(tokens[i])
        if tokens[i] in DEFERRED and i + 1 < len(tokens) and tokens[i + 1] == "(" and i and tokens[i - 1] in (".", "->"):
            kept += ["(", ")"]
            i = closing(tokens, i + 1, "()")
        i += 1
    return kept


def mentions(tokens):
    """(qualifiers, name, the variable that it is called on and how, is only handed over) of what may be a call."""
    for i, token in enumerate(tokens):
        if not NAME.match(token) or token in KEYWORDS or i + 1 >= len(tokens):
            continue
        parts, first = qualified_before(tokens, i)
        before = tokens[first - 1] if first else ""
        member = not parts and before in (".", "->")
        after = tokens[i + 1]
        if after == "<":  # a template's arguments, when a call follows them
            j = i + 1
            while j < len(tokens) and j < i + 40 and tokens[j] not in (";", "{", ")"):
                if tokens[j] == ">" and j + 1 < len(tokens) and tokens[j + 1] == "(":
                    after = "("
                    break
                j += 1
        if after == "(":
            # `Type name(...)` declares a variable; `return f(...)` calls.
            declares = NAME.match(before) and before not in KEYWORDS and before not in ("else", "do") or before == ">"
            if parts or member or not declares:
                variable = tokens[first - 2] if member and first > 1 else ""
                yield parts, token, (variable, before) if member else None, False
        elif after in (",", ")", "}") and before in ("(", ",", "&", "{"):
            yield parts, token, None, True


def graph_of(files):
    functions, types, bases = [], {}, {}
    for _, text in files:
        tokens = tokens_of(text)
        functions += [f for d in definitions(tokens) for f in split_named_lambdas(d)]
        declared_types(tokens, types, bases)
    by_name = {}
    for name, owner, _ in functions:
        by_name.setdefault(name.rsplit("::", 1)[-1], set()).add((name, owner))
    edges = {name: set() for name, _, _ in functions}
    for name, owner, tokens in functions:
        body = without_deferred(tokens)
        spaces = [name.rsplit("::", k)[0] for k in range(1, name.count("::") + 1)] + [""]
        for parts, called, member, handed in mentions(body):
            classes = classes_of(member[0], member[1] == "->", types, bases) if member else None
            for target, target_owner in by_name.get(called, ()):
                prefix = target.rsplit("::", 1)[0] if "::" in target else ""
                if parts:
                    fits = ("::" + target).endswith("::" + "::".join(parts + [called]))
                elif member:
                    fits = bool(target_owner) and (classes is None or target_owner in classes | {ANY_CLASS})
                elif target_owner == ANY_CLASS:
                    fits = False
                else:
                    fits = prefix in spaces or (bool(owner) and target_owner == owner)
                if handed and not parts and (target_owner or is_local(body, called)):
                    fits = False
                if fits:
                    edges[name].add(target)
    return edges


def is_local(tokens, name):
    """A variable or parameter of this name is declared in the function."""
    return any(t == name and i and i + 1 < len(tokens) and tokens[i + 1] in (",", ")", "=", ";", "{", ":") and
               (NAME.match(tokens[i - 1]) and tokens[i - 1] not in KEYWORDS or tokens[i - 1] in ("&", "*", ">")) and
               (i < 2 or tokens[i - 1] != "&" or tokens[i - 2] not in ("(", ",", "{", "return"))
               for i, t in enumerate(tokens))


def cycles(edges):
    """Strongly connected components of more than one function, and functions that call themselves."""
    index, low, stack, on, found = {}, {}, [], set(), []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        on.add(v)
        for w in sorted(edges.get(v, ())):
            if w not in index:
                visit(w)
                low[v] = min(low[v], low[w])
            elif w in on:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            part = []
            while not part or part[-1] != v:
                part.append(stack.pop())
                on.discard(part[-1])
            if len(part) > 1 or v in edges.get(v, ()):
                found.append(sorted(part))

    sys.setrecursionlimit(100_000)
    for v in sorted(edges):
        if v not in index:
            visit(v)
    return [part for part in found if not (len(part) == 1 and part[0] in ALLOWED)]


def faults_of_files(files):
    edges = graph_of(files)
    return [f"{FOLDER}: these functions call each other in a circle: " +
            "; ".join(f"{v} -> {', '.join(sorted(edges[v] & set(part)))}" for v in part) for part in cycles(edges)]


def faults_of(name, text):
    return faults_of_files([(name, text)])


if __name__ == "__main__":
    root = sys.argv[1]
    names = [n for n in sources.files(root, (".cpp", ".hpp")) if n.startswith(FOLDER)]
    files = [(n, sources.read(root, n)) for n in names]
    functions = len(graph_of(files))
    print(f"{functions} functions in {len(names)} files")
    sys.exit(sources.report("call cycles", faults_of_files(files) if functions else [f"{FOLDER}: no function found"]))
