"""The programs that a shell script starts, for the lint of programs: the first word of each simple command, what it starts
in its turn (env, xargs, timeout, find -exec, sh -c, …), and what `command -v` and `which` look for."""
import collections
import dataclasses
import re

DYNAMIC = "\0"  # stands in a word for what is known only when the script runs
NAME = re.compile(r"[A-Za-z0-9_][\w.+-]*\Z")
SYSTEM_FOLDERS = re.compile(r"/(?:usr/)?s?bin/")
ASSIGNMENT = re.compile(r"(\w+)(?:\[[^]]*\])?\+?=")
OPERATORS = ("&>>", "<<<", "<<-", ";;&", "&>", "&&", "||", "|&", ";;", ";&", "<<", ">>", "<&", ">&", "<>", ">|", "(", ")", ";",
             "&", "|", "<", ">")
REDIRECTIONS = {"&>>", "<<<", "&>", ">>", "<&", ">&", "<>", ">|", "<", ">"}
ENDS_OF_CASE = {";;", ";&", ";;&"}
SKIPPED = {"if", "then", "elif", "else", "fi", "while", "until", "do", "done", "!", "coproc"}
DECLARING = {"local", "export", "declare", "readonly", "typeset"}
BUILTINS = DECLARING | set(
    ". : [ alias bg bind break builtin caller cd command compgen complete compopt continue dirs disown echo enable eval exec"
    " exit false fc fg getopts hash help history jobs kill let logout mapfile popd printf pushd pwd read readarray return set"
    " shift shopt source suspend test time times trap true type ulimit umask unalias unset wait".split())
# Programs that start the command in their arguments: options with a word of their own, and words before the command.
PREFIXES = {
    "builtin": ("", 0), "command": ("", 0), "env": ("-u -C", 0), "exec": ("-a", 0), "flock": ("-w -E", 1),
    "nice": ("-n", 0), "nohup": ("", 0), "setarch": ("", 0), "setsid": ("", 0), "stdbuf": ("-i -o -e", 0),
    "sudo": ("-u -g", 0), "taskset": ("", 1), "time": ("", 0), "timeout": ("-k -s", 1), "unshare": ("--propagation", 0),
    "xargs": ("-a -d -E -I -L -n -P -s", 0)}
SHELLS = {"sh", "bash", "dash"}
# What a program starts by itself when a word of it looks so.
BY_ITSELF = (("tar", r"-[a-zA-Z]*J[a-zA-Z]*|--xz", ("xz",)), ("cmake", "Ninja", ("ninja",)),
             ("cpack", "DEB", ("dpkg-shlibdeps", "file")), ("apt-get", "source", ("dpkg-source",)))


@dataclasses.dataclass
class Word:
    """`variable` is the name of the parameter that is the whole word; `skipped` is N - 1 of "${@:N}"."""
    text: str
    line: int
    variable: str = ""
    skipped: int = 0
    quoted: bool = False


class Script:
    """Reads the commands of a script; `programs` says afterwards what they start."""

    def __init__(self, text, line=1, around=None):
        """`around` is the script that the text lies in: they share functions and variables."""
        self.text, self.at, self.first, self.heredocs = text, 0, line, []
        self.function, self.shifts = (around.function, around.shifts) if around else (None, 0)
        self.commands = around.commands if around else []  # (words, function, words that it has shifted away)
        self.values = around.values if around else collections.defaultdict(list)  # variable → lists of words
        # Function → places of the command among its arguments, where it runs one: background LOG COMMAND … has 1.
        self.functions = around.functions if around else {}

    def here(self):
        return self.first + self.text.count("\n", 0, self.at)

    # ---- Words

    def token(self):
        """An operator as a string, a Word, or None at the end."""
        while blank := re.compile(r"[ \t\r]+|\\\n|#[^\n]*").match(self.text, self.at):
            self.at = blank.end()
        if self.at >= len(self.text):
            return None
        if self.text[self.at] == "\n":
            self.at += 1
            self.skip_heredocs()
            return "\n"
        if not self.text.startswith(("<(", ">("), self.at):
            for operator in OPERATORS:
                if self.text.startswith(operator, self.at):
                    self.at += len(operator)
                    return operator
        return self.word()

    def word(self):
        begin, line, text, expansions = self.at, self.here(), "", []
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in "<>" and not text and self.text.startswith("(", self.at + 1):
                self.at += 2
                self.read({")"})
                text += DYNAMIC
            elif char in " \t\n;&|()<>":
                break
            else:
                text += self.piece(expansions, quoted=False)
        variable, skipped = expansions[0] if text == DYNAMIC and len(expansions) == 1 else ("", 0)
        return Word(text, line, variable, skipped, any(quote in self.text[begin:self.at] for quote in "'\"\\"))

    def piece(self, expansions, quoted):
        """What the next character begins, as a part of a word; `quoted` is whether it stands in double quotes."""
        char = self.text[self.at]
        if char == "\\":
            self.at += 2
            return "" if self.text[self.at - 1:self.at] == "\n" else self.text[self.at - 1:self.at]
        if char == "'" and not quoted:
            end = self.text.find("'", self.at + 1)
            end = end if end >= 0 else len(self.text)
            found, self.at = self.text[self.at + 1:end], end + 1
            return found
        if char == '"':
            self.at += 1
            return self.in_quotes(expansions)
        if char == "$":
            return self.expansion(expansions, quoted)
        if char == "`":
            end = re.compile(r"(?:\\.|[^`\\])*", re.S).match(self.text, self.at + 1).end()
            Script(self.text[self.at + 1:end], self.here(), self).read()
            self.at = end + 1
            return DYNAMIC
        self.at += 1
        return char

    def in_quotes(self, expansions, end='"'):
        text = ""
        while self.at < len(self.text) and self.text[self.at] != end:
            if self.text[self.at] in "\\$`":
                text += self.piece(expansions, quoted=True)
            else:
                text += self.text[self.at]
                self.at += 1
        self.at += 1
        return text

    def expansion(self, expansions, quoted):
        if self.text.startswith("$((", self.at):
            self.at += 1
            self.arithmetic()
        elif self.text.startswith("$(", self.at):
            self.at += 2
            self.read({")"})
        elif self.text.startswith("${", self.at):
            begin = self.at
            self.at += 2
            while self.at < len(self.text) and self.text[self.at] != "}":
                self.piece([], quoted)
            self.at += 1
            named = re.fullmatch(r"\$\{(\w+|@)(?:\[[@*]\])?(?::(\d+))?\}", self.text[begin:self.at])
            expansions.append((named[1], int(named[2] or 1) - 1) if named else ("", 0))
        elif self.text.startswith("$'", self.at) and not quoted:
            self.at = re.compile(r"(?:\\.|[^'\\])*'?", re.S).match(self.text, self.at + 2).end()
        else:
            named = re.compile(r"\$([A-Za-z_]\w*|[0-9@*#?$!-])").match(self.text, self.at)
            self.at = named.end() if named else self.at + 1
            if not named:
                return "$"
            expansions.append((named[1], 0))
        return DYNAMIC

    def arithmetic(self):
        """Past the brackets that begin here."""
        depth = 0
        while self.at < len(self.text):
            depth += {"(": 1, ")": -1}.get(self.text[self.at], 0)
            if self.text[self.at] in "$\"`":
                self.piece([], quoted=False)
            else:
                self.at += 1
            if not depth:
                return

    def skip_heredocs(self):
        for end, tabs, quoted in self.heredocs:
            line, begin = self.here(), self.at
            closing = re.compile(rf"^{tabs}{re.escape(end)}$\n?", re.M).search(self.text, self.at)
            body = self.text[begin:closing.start() if closing else len(self.text)]
            self.at = closing.end() if closing else len(self.text)
            if not quoted:
                Script(body, line, self).in_quotes([], end="")
        self.heredocs = []

    # ---- Commands

    def read(self, ends=frozenset(), last=""):
        """Commands until an operator of `ends`, or the word `last` where a command could begin; returns what it was."""
        words = []
        while (token := self.token()) is not None:
            if isinstance(token, Word):
                if token.text.isdigit() and self.text[self.at:self.at + 1] in ("<", ">"):
                    continue  # a descriptor
                if not words and token.text == last:
                    return last
                if words or not self.begins(token):
                    words.append(token)
                    self.array(token)
            elif token in REDIRECTIONS:
                self.token()
            elif token in ("<<", "<<-"):
                end = self.token()
                self.heredocs.append((end.text, "\t*" if token == "<<-" else "", end.quoted))
            elif token == "(" and len(words) == 1:
                self.token()
                self.define(words.pop().text)
            elif token == "(" and self.text.startswith("(", self.at):
                self.at -= 1
                self.arithmetic()
            else:
                self.end_of(words)
                words = []
                if token in ends:
                    return token
                if token == "(":
                    self.read({")"})
        self.end_of(words)
        return ""

    def begins(self, word):
        """Reads what a reserved word begins; whether it is one."""
        if word.text == "{":
            self.read(last="}")
        elif word.text == "[[":
            while (token := self.token()) is not None and getattr(token, "text", "") != "]]":
                pass
        elif word.text == "case":
            self.case()
        elif word.text in ("for", "select"):
            self.loop()
        elif word.text == "function":
            self.define(self.token().text)
        else:
            return word.text in SKIPPED and not word.quoted
        return True

    def case(self):
        self.token()
        while getattr(self.token(), "text", "in") != "in":
            pass
        while (token := self.token()) is not None:
            if isinstance(token, Word) and token.text == "esac":
                return
            if token in ("\n", ";"):
                continue
            while token is not None and token != ")":
                token = self.token()
            if self.read(ENDS_OF_CASE, "esac") == "esac":
                return

    def loop(self):
        name = self.token()
        if not isinstance(name, Word):  # for ((…))
            self.at -= 1
            self.arithmetic()
            return
        words = []
        while isinstance(token := self.token(), Word):
            words.append(token)
        self.values[name.text] += [[word] for word in words[1:]]  # without "in"

    def define(self, name):
        outside = self.function, self.shifts
        self.function, self.shifts = name, 0
        self.functions.setdefault(name, set())
        while (token := self.token()) in ("\n", "(", ")"):
            if token == "(" and not re.compile(r"[ \t]*\)").match(self.text, self.at):
                self.read({")"})
                break
        if isinstance(token, Word):
            self.begins(token)
        self.function, self.shifts = outside

    def array(self, word):
        """name=(word …)"""
        if ASSIGNMENT.fullmatch(word.text) and self.text.startswith("(", self.at):
            self.at += 1
            words = []
            while (token := self.token()) not in (None, ")"):
                words += [token] if isinstance(token, Word) else []
            self.values[ASSIGNMENT.match(word.text)[1]].append(words)

    def end_of(self, words):
        if not words:
            return
        declaring = words[0].text in DECLARING
        for word in words:
            assigned = ASSIGNMENT.match(word.text)
            if assigned and len(word.text) > assigned.end():
                self.values[assigned[1]].append([Word(word.text[assigned.end():], word.line)])
            if not assigned and not declaring:
                break
        self.commands.append((list(words), self.function, self.shifts))
        if words[0].text == "shift":
            self.shifts += int(words[1].text) if len(words) > 1 and words[1].text.isdigit() else 1

    # ---- What they start

    def programs(self):
        """(line, program) of each one, in the order of the lines."""
        self.read()
        before = None
        while before != (before := [len(self.commands), *map(len, self.functions.values())]):
            found = {started for command in list(self.commands) for started in self.started_by(*command)}
        return sorted(found)

    def started_by(self, words, function=None, shifts=0, depth=0):
        while words and ASSIGNMENT.match(words[0].text):
            words = words[1:]
        if not words or depth > 9:
            return
        head, rest = words[0], words[1:]
        if head.variable == "@" and function:
            self.functions[function].add(shifts + head.skipped)
        elif head.variable:
            for value in tuple(self.values[head.variable]):
                yield from self.started_by([Word(w.text, head.line, w.variable, w.skipped) for w in value] + rest, function,
                                           shifts, depth + 1)
        else:
            name = SYSTEM_FOLDERS.sub("", head.text) if SYSTEM_FOLDERS.match(head.text) else head.text
            if name in self.functions:
                for place in tuple(self.functions[name]):
                    yield from self.started_by(rest[place:], function, shifts, depth + 1)
            elif NAME.match(name) or name in BUILTINS:
                if name not in BUILTINS:
                    yield head.line, name
                yield from self.started_in_turn(name, rest, head.line, function, shifts, depth + 1)

    def started_in_turn(self, name, words, line, *context):
        for program, look, others in BY_ITSELF:
            if name == program and any(re.fullmatch(look, word.text) for word in words):
                yield from ((line, other) for other in others)
        code = None
        if name in ("type", "which"):
            for word in words:
                if not word.text.startswith("-"):
                    yield from self.started_by([word], *context)
        elif name == "find":
            for place, word in enumerate(words):
                if word.text in ("-exec", "-execdir", "-ok", "-okdir"):
                    yield from self.started_by(words[place + 1:], *context)
        elif name in PREFIXES:
            yield from self.started_by(after_options(words, *PREFIXES[name]), *context)
        elif name in SHELLS:
            code = next((b for a, b in zip(words, words[1:]) if re.fullmatch(r"-[a-z]*c", a.text)), None)
        elif name in ("trap", "eval") and words:
            code = words[0]
        if code and code.text not in ("-", "--"):
            inside = Script(code.text, code.line, self)
            inside.commands = []
            inside.read()
            for command in inside.commands:
                yield from self.started_by(*command, context[-1])


def after_options(words, with_value, positional):
    """The command behind options and assignments, and behind as many words as come before it."""
    ended = False
    while words and not ended and (words[0].text.startswith("-") or ASSIGNMENT.match(words[0].text)):
        ended = words[0].text == "--"
        words = words[2 if words[0].text in with_value.split() else 1:]
    return words[positional:]


def of_words(words, line):
    """The same for a command as a list of strings, in which None is a word that is not known."""
    script = Script("")
    return sorted(set(script.started_by([Word(DYNAMIC if word is None else word, line) for word in words])))
