"""The programs that CMake files, tests in C++, modules of Node.js and pages start, for the lint of programs. Each function
gives (line, programs): one program, or several of which one is enough."""
import re

import programs_shell

# What CMake looks for by itself, without find_program.
LANGUAGES = {"C": ("cc", "gcc"), "CXX": ("c++", "g++")}
PACKAGES = {"Python3": ("python3",), "PkgConfig": ("pkg-config",), "Git": ("git",)}
RUNNING = {"execute_process", "add_custom_command", "add_custom_target", "add_test"}
CMAKE_COMMAND = re.compile(r"(?<![\w$])([a-z_]\w*)[ \t]*\(", re.I)
CMAKE_ARGUMENT = re.compile(r'\s+|#\[(=*)\[.*?\]\1\]|#[^\n]*|"((?:\\.|[^"\\])*)"|\[(=*)\[(.*?)\]\3\]|(\()|(\))'
                            r'|((?:\\.|\$<[^>\s]*>|[^\s()#"\\])+)', re.S)
KEYWORD = re.compile(r"(?:DOC|[A-Z][A-Z_]{3,})\Z")
CPP_STRING = r'"((?:\\.|[^"\\\n])*)"'
CPP_PATH = re.compile(rf'"(/(?:usr/)?s?bin/[\w.+-]+)"(?:,\s*"(-\w*c)",\s*((?:{CPP_STRING}\s*)+))?')
CPP_SYSTEM = re.compile(r"\b(?:system|popen)\((\w+)\.c_str\(\)")
CPP_LITERAL = re.compile(rf"\b(?:system|popen)\({CPP_STRING}")
NODE_START = re.compile(r"\b(?:exec|execFile|spawn|fork)(?:Sync)?\(\s*(['\"`])([\w./+-]+)(?:[ \w./-]*)\1")
SHELL_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def calls(text):
    """(line, name in small letters, arguments) of each command of a CMake file, those within brackets left out."""
    at = 0
    while match := re.compile(r"#\[(=*)\[.*?\]\1\]|#[^\n]*|" + CMAKE_COMMAND.pattern, re.S | re.I).search(text, at):
        at = match.end()
        if match[2] is None:
            continue
        arguments, depth = [], 1
        while depth and (argument := CMAKE_ARGUMENT.match(text, at)):
            at = argument.end()
            depth += bool(argument[5]) - bool(argument[6])
            word = next((argument[n] for n in (2, 4, 7) if argument[n] is not None), None)
            if word is not None and depth == 1:
                arguments.append((line_of(text, argument.start()), word))
        yield line_of(text, match.start()), match[2].lower(), arguments


def of_cmake(text):
    for line, name, arguments in calls(text):
        words = [word for _, word in arguments]
        if name == "find_program":
            names = words[1:2]
            if "NAMES" in words:
                names = words[words.index("NAMES") + 1:]
            end = next((place for place, word in enumerate(names) if KEYWORD.match(word)), len(names))
            yield line, tuple(names[:end])
        elif name == "find_package" and words and words[0] in PACKAGES:
            yield line, PACKAGES[words[0]]
        elif name == "project":
            yield from ((line, LANGUAGES[word]) for word in words if word in LANGUAGES)
        elif name in RUNNING:
            for place, (at, word) in enumerate(arguments):
                if word == "COMMAND":
                    command = words[place + 1:]
                    end = next((n for n, other in enumerate(command) if KEYWORD.match(other)), len(command))
                    shell = [re.sub(r"\$<[^>]*>|\$\{[^}]*\}", "$x", other) for other in command[:end]]
                    yield from ((started, (program,)) for started, program in programs_shell.of_words(shell, at))


def unescaped(text):
    return re.sub(r"\\(.)", lambda match: {"n": "\n", "t": "\t"}.get(match[1], match[1]), text)


def of_cpp(text):
    """Paths of the system's programs, with the script of a shell behind them, and what std::system gets."""
    for match in CPP_PATH.finditer(text):
        script = unescaped("".join(re.findall(CPP_STRING, match[3] or "")))
        words = [match[1], match[2], script] if match[2] else [match[1]]
        yield from ((at, (program,)) for at, program in programs_shell.of_words(words, line_of(text, match.start())))
    lines = [(match.start(), match[1]) for match in CPP_LITERAL.finditer(text)]
    for match in CPP_SYSTEM.finditer(text):
        made = list(re.compile(rf"\b{match[1]}\b\s*=\s*([^;]*);").finditer(text, 0, match.start()))
        lines += [(made[-1].start(), "$x".join(re.findall(CPP_STRING, made[-1][1])))] if made else []
    for at, script in lines:
        found = programs_shell.of_words(["sh", "-c", unescaped(script)], line_of(text, at))
        yield from ((line, (program,)) for line, program in found)


def of_node(text):
    for match in NODE_START.finditer(text):
        yield from ((at, (program,)) for at, program in programs_shell.of_words([match[2]], line_of(text, match.start())))


def of_page(text):
    for match in SHELL_BLOCK.finditer(text):
        script = programs_shell.Script(match[1], line_of(text, match.start(1)))
        yield from ((line, (program,)) for line, program in script.programs())
