"""The programs that Python files start, for the lint of programs: the first word of what they give to subprocess, os.exec*,
shutil.which and the like, directly or through their own functions: succeed(words) gives `words` to outcome(words), and
outcome gives it to subprocess.run. Scripts that they hold as strings are read as well. A method of an object whose class
is not known counts when every method of that name, in the modules that the file imports, starts what it is given."""
import ast
import collections
import os

import programs_shell

# Functions that start what their first argument says: a list of words, one word, or a shell's line.
SINKS = {f"subprocess.{name}": "words" for name in ("run", "Popen", "call", "check_call", "check_output")}
SINKS |= {name: "line" for name in ("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput")}
SINKS |= {f"os.{name}": "word" for name in ("execl", "execlp", "execv", "execve", "execvp", "execvpe", "posix_spawn")}
SINKS |= {"asyncio.create_subprocess_exec": "word", "asyncio.create_subprocess_shell": "line", "shutil.which": "word"}
EACH = "each"  # of a way into a value: any of its elements; a number is the element at that place
# What a name is bound to: a way into a value, which stands in a scope. `lines` are those of the loop that binds it.
Binding = collections.namedtuple("Binding", "value scope way lines", defaults=((), None))


class Scope:
    """A module, a class or a function: the names that are bound in it, and the calls."""

    def __init__(self, node, parent, module):
        self.node, self.parent, self.module = node, parent, module
        self.bound = collections.defaultdict(list)  # name → bindings, of which no list is empty
        self.inner = {}  # functions and classes
        self.returned, self.calls, self.commands = [], [], []
        arguments = getattr(node, "args", None)
        plain = arguments.posonlyargs + arguments.args if arguments else []
        self.parameters = [argument.arg for argument in plain]
        self.rest = arguments.vararg.arg if arguments and arguments.vararg else None
        self.names = set(self.parameters) | {a.arg for a in arguments.kwonlyargs} if arguments else set()
        self.given_on = {}  # parameter → kind, where what is given for it is started
        for argument, default in zip(reversed(plain), reversed(arguments.defaults)) if arguments else ():
            self.bound[argument.arg].append(Binding(default, parent))

    def chain(self):
        scope = self
        while scope:
            yield scope
            scope = scope.parent

    def bindings(self, name):
        """Of a name where it is used: those of the innermost loop around it, else all."""
        found = self.bound.get(name.id, [])
        around = [one for one in found if one.lines and name.lineno in one.lines]
        return [min(around, key=lambda one: len(one.lines))] if around else found

    def is_method(self):
        return self.parent is not None and isinstance(self.parent.node, ast.ClassDef)


class Module(ast.NodeVisitor):
    def __init__(self, name, text):
        self.name, self.folder = name, os.path.dirname(name)
        self.imports = {}  # name here → (module, name there or nothing)
        self.attributes = collections.defaultdict(list)  # of any object: name → bindings
        self.scope = Scope(ast.parse(text), None, self)
        self.scopes, self.scripts = [self.scope], []
        self.generic_visit(self.scope.node)

    def visit_function(self, node):
        inner = Scope(node, self.scope, self)
        if hasattr(node, "name"):
            self.scope.inner[node.name] = inner
        node.scope = inner
        self.scopes.append(inner)
        outside, self.scope = self.scope, inner
        if isinstance(node, ast.Lambda):
            inner.returned.append(node.body)
        self.generic_visit(node)
        self.scope = outside

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = visit_function

    def visit_Import(self, node):
        for alias in node.names:
            self.imports[alias.asname or alias.name] = (alias.name, None)

    def visit_ImportFrom(self, node):
        for alias in node.names:
            self.imports[alias.asname or alias.name] = (node.module or "", alias.name)

    def bind(self, target, value, way=(), lines=None):
        if isinstance(target, ast.Name):
            self.scope.bound[target.id].append(Binding(value, self.scope, way, lines))
            if isinstance(value, ast.Lambda) and not way:
                self.scope.inner[target.id] = value.scope
        elif isinstance(target, ast.Attribute):
            self.attributes[target.attr].append(Binding(value, self.scope, way))
        elif isinstance(target, (ast.Tuple, ast.List)):
            for place, part in enumerate(target.elts):
                self.bind(part, value, way + (place,), lines)

    def visit_Assign(self, node):
        self.generic_visit(node)
        for target in node.targets:
            self.bind(target, node.value)

    def visit_NamedExpr(self, node):
        self.generic_visit(node)
        self.bind(node.target, node.value)

    def visit_For(self, node):
        for loop in getattr(node, "generators", [node]):
            self.bind(loop.target, loop.iter, (EACH,), range(node.lineno, node.end_lineno + 1))
        self.generic_visit(node)

    visit_AsyncFor = visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_For

    def visit_Return(self, node):
        self.generic_visit(node)
        if node.value:
            self.scope.returned.append(node.value)

    def visit_Call(self, node):
        self.scope.calls.append(node)
        self.generic_visit(node)

    def visit_List(self, node):
        """A list that begins with the path of a system's program is a command, whoever it is given to."""
        if node.elts and programs_shell.SYSTEM_FOLDERS.match(text_of(node.elts[0]) or ""):
            self.scope.commands.append(node)
        self.generic_visit(node)

    visit_Tuple = visit_List

    def visit_Constant(self, node):
        if isinstance(node.value, str):
            self.script(node, node.value)

    def visit_JoinedStr(self, node):
        self.script(node, text_of(node))
        self.generic_visit(node)

    def script(self, node, text):
        if text.startswith("#!") and text.partition("\n")[0].endswith("sh"):
            self.scripts.append((node.lineno, text))


def text_of(node):
    """The text of a string, with $x for what is known only when it runs; None for other things."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "$x" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [text_of(node.left), text_of(node.right)]
        return None if parts == [None, None] else "".join("$x" if part is None else part for part in parts)
    return None


def dotted(node):
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return before and f"{before}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else None


class Tree:
    """All modules, which call each other's functions."""

    def __init__(self, modules):
        self.modules = modules
        self.by_name = collections.defaultdict(list)
        for module in modules:
            self.by_name[os.path.basename(module.name).removesuffix(".py")].append(module)
        self.reached = {}
        self.started = set()  # (file, line, words), where a word that is not known is None

    def imported(self, module, name):
        """The module that `name` means in another one: that of its own folder, else the one nearest to it."""
        found = self.by_name.get(name.rpartition(".")[2], [])
        near = lambda other: len(os.path.commonprefix([module.folder + "/", other.folder + "/"]))
        return max(found, key=lambda other: (other.folder == module.folder, near(other)), default=None)

    def reachable(self, module):
        """The modules that it imports, those that these import, and itself."""
        if module.name in self.reached:
            return self.reached[module.name]
        found, waiting = {}, [module]
        while waiting:
            one = waiting.pop()
            if one and one.name not in found:
                found[one.name] = one
                waiting += [self.imported(one, name) for name, _ in one.imports.values()]
        self.reached[module.name] = list(found.values())
        return self.reached[module.name]

    def named(self, node, scope):
        """The function or class that a name, or a module's name and one of its own, stands for."""
        if isinstance(node, ast.Name):
            found = next((s.inner[node.id] for s in scope.chain() if node.id in s.inner), None)
            name, there = scope.module.imports.get(node.id, ("", None))
            other = self.imported(scope.module, name) if not found and there else None
            return other.scope.inner.get(there) if other else found
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in scope.module.imports:
            other = self.imported(scope.module, scope.module.imports[node.value.id][0])
            return other and other.scope.inner.get(node.attr)
        return None

    def classes(self, node, scope):
        """The classes that an object may be of, by what is assigned to its name."""
        if isinstance(node, ast.Name) and node.id == "self":
            return [one for one in scope.chain() if isinstance(one.node, ast.ClassDef)][:1]
        if isinstance(node, ast.Attribute):
            bindings = [b for module in self.reachable(scope.module) for b in module.attributes.get(node.attr, [])]
        else:
            bindings = [b for one in scope.chain() for b in one.bound.get(getattr(node, "id", ""), [])]
        made = [self.named(one.value.func, one.scope) for one in bindings if isinstance(one.value, ast.Call) and not one.way]
        return [one for one in made if one and isinstance(one.node, ast.ClassDef)]

    def callees(self, node, scope):
        """The functions that a call may mean."""
        if isinstance(node, ast.IfExp):
            return self.callees(node.body, scope) + self.callees(node.orelse, scope)
        found = self.named(node, scope)
        if found and isinstance(found.node, ast.ClassDef):
            found = found.inner.get("__init__")
        if found or not isinstance(node, ast.Attribute):
            return [found] if found else []
        if isinstance(node.value, ast.Name) and node.value.id in scope.module.imports:
            return []
        own = [one.inner[node.attr] for one in self.classes(node.value, scope) if node.attr in one.inner]
        return own or [s for m in self.reachable(scope.module) for s in m.scopes if s.is_method() and s.node.name == node.attr]

    # ---- What a call starts

    def sink(self, call, scope):
        """The kind of what a call starts by itself, or nothing."""
        first, _, rest = (dotted(call.func) or "").partition(".")
        module, there = scope.module.imports.get(first, (first, None))
        kind = SINKS.get(".".join(filter(None, (module, there, rest)))) if call.args else None
        in_shell = any(keyword.arg == "shell" and getattr(keyword.value, "value", False) for keyword in call.keywords)
        return "line" if kind == "words" and in_shell else kind

    def read_call(self, call, scope):
        at = scope.module.name, call.lineno
        if kind := self.sink(call, scope):
            self.resolve(kind, call.args[0], scope, at)
            return
        callees = self.callees(call.func, scope)
        if not callees or not all(callee.given_on for callee in callees):
            return
        for callee in callees:
            named = {keyword.arg: keyword.value for keyword in call.keywords}
            places = callee.parameters[callee.is_method():]
            for parameter, kind in list(callee.given_on.items()):
                if parameter == callee.rest:
                    self.resolve_words(call.args[len(places):], scope, at)
                elif parameter in named:
                    self.resolve(kind, named[parameter], scope, at)
                elif parameter in places and places.index(parameter) < len(call.args):
                    self.resolve(kind, call.args[places.index(parameter)], scope, at)

    def resolve(self, kind, node, scope, at, way=(), depth=0):
        """Notes what `node` starts when it is given, at that file and line, to something that starts programs."""
        again = lambda other, there=scope, into=way: self.resolve(kind, other, there, at, into, depth + 1)
        if depth > 12:
            return
        if isinstance(node, (ast.BoolOp, ast.IfExp)):
            for part in node.values if isinstance(node, ast.BoolOp) else (node.body, node.orelse):
                again(part)
        elif isinstance(node, ast.Name):
            self.resolve_name(kind, node, scope, at, way, depth)
        elif isinstance(node, ast.Attribute) and not way:
            for binding in scope.module.attributes.get(node.attr, []):
                again(*binding[:3])
            if isinstance(node.value, ast.Name) and node.value.id in scope.module.imports:
                other = self.imported(scope.module, scope.module.imports[node.value.id][0])
                for binding in other.scope.bound.get(node.attr, []) if other else ():
                    again(*binding[:3])
        elif isinstance(node, ast.Call):
            self.resolve_call(kind, node, scope, again)
        elif way and isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            for part in node.elts if way[0] == EACH else node.elts[way[0]:way[0] + 1]:
                again(part, scope, way[1:])
        elif way:
            return
        elif kind == "words":
            self.resolve_list(node, scope, at, again)
        elif kind == "line" and text_of(node) is not None:
            self.started.add((*at, ("sh", "-c", text_of(node))))
        elif kind == "word" and isinstance(node, ast.Constant) and isinstance(node.value, str):
            self.started.add((*at, (node.value,)))

    def resolve_name(self, kind, node, scope, at, way, depth):
        found = next((s for s in scope.chain() if node.id in s.names or node.id == s.rest or node.id in s.bound), None)
        if found:
            if (node.id in found.names or node.id == found.rest) and not way:
                found.given_on[node.id] = kind
            bindings = found.bindings(node)
        else:
            module, original = scope.module.imports.get(node.id, ("", None))
            other = self.imported(scope.module, module) if original else None
            bindings = other.scope.bound.get(original, []) if other else []
        for one in list(bindings):
            self.resolve(kind, one.value, one.scope, at, one.way + way, depth + 1)

    def resolve_call(self, kind, node, scope, again):
        name = dotted(node.func)
        if name in ("os.environ.get", "os.getenv") and len(node.args) > 1:
            again(node.args[1])
        elif name in ("str", "list", "tuple", "sorted", "os.fspath") and node.args:
            again(node.args[0])
        elif name == "map" and len(node.args) > 1:
            again(node.args[1])
        elif name == "shlex.split" and node.args and text_of(node.args[0]):
            again(ast.List([ast.Constant(word) for word in text_of(node.args[0]).split()]))
        else:
            for callee in self.callees(node.func, scope):
                for value in callee.returned:
                    again(value, callee, ())

    def resolve_list(self, node, scope, at, again):
        if isinstance(node, (ast.List, ast.Tuple)):
            self.resolve_words(node.elts, scope, at)
        elif isinstance(node, ast.BinOp):
            left = node.left
            if isinstance(left, ast.List) and isinstance(node.right, ast.List):
                left = ast.List(left.elts + node.right.elts)
            again(left)
        elif isinstance(node, ast.ListComp):
            again(node.generators[0].iter)

    def resolve_words(self, nodes, scope, at):
        if not nodes:
            return
        if isinstance(nodes[0], ast.Starred):
            self.resolve("words", nodes[0].value, scope, at)
            return
        before, self.started = self.started, set()
        self.resolve("word", nodes[0], scope, at)
        rest = tuple(self.text(node, scope) for node in nodes[1:])
        self.started = before | {(*at, words + rest) for *_, words in self.started}

    def text(self, node, scope):
        """The text of a word behind the first, which may be a name of a string."""
        if isinstance(node, ast.Name):
            bindings = next((s.bindings(node) for s in scope.chain() if node.id in s.bound), [])
            return text_of(bindings[0].value) if len(bindings) == 1 and not bindings[0].way else None
        return text_of(node)


def programs(texts):
    """(file, line, program) of every program that the files of `texts` (name → text) start."""
    modules = [Module(name, text) for name, text in texts.items()]
    tree, known = Tree(modules), None
    calls = [(call, scope) for module in modules for scope in module.scopes for call in scope.calls]
    while known != (known := sum(len(scope.given_on) for module in modules for scope in module.scopes)):
        for call, scope in calls:
            tree.read_call(call, scope)
    for module in modules:
        for scope in module.scopes:
            for node in scope.commands:
                tree.resolve("words", node, scope, (module.name, node.lineno))
    found = {(file, at, program) for file, line, words in tree.started for at, program in programs_shell.of_words(words, line)}
    for module in modules:
        for line, text in module.scripts:
            found |= {(module.name, at, program) for at, program in programs_shell.Script(text, line).programs()}
    return sorted(found)
