"""Each lint names a broken sample and leaves a sound one alone: a lint that cannot fail is a defect."""
import sys

import call_cycles
import coroutines
import layering
import programs
import references
import sizes
import tries
import words

PAGES = {"docs/a.md": "# A\n\n## One thing, or two\n\n```\n# no heading\n```\n", "docs/design/b.md": "# B\n\n## Deep\n",
         "stages/x.hpp": "", "stages/y.hpp": "", "stages/y.cpp": "", "scripts/run": ""}
PACKAGES = "# What builds it.\n[build]\ncmake\nnodejs node\n"


class referenced:
    """The lint of references over a small tree."""
    @staticmethod
    def faults_of(name, text):
        return references.faults_of(name, text, references.Tree(PAGES, PAGES.get))


class started:
    """The lint of programs over one file and a short list of packages."""
    @staticmethod
    def faults_of(name, text):
        return list(programs.missing(programs.started({name: text}), programs.listed(PACKAGES)))


class tables:
    """The tables of the lint of programs, where this is all that starts something: its faults that say `name`."""
    @staticmethod
    def faults_of(name, text):
        return [fault for fault in programs.stale(programs.started({"scripts/x": text})) if name in fault]


class folders:
    """The lint of sizes over the names of a folder's files."""
    @staticmethod
    def faults_of(name, text):
        return sizes.folder_faults(f"{name}/{file}" for file in text.split())


BAD = [
    (layering, "stages/x.cpp", '#include "daemon/store/store.hpp"\n'),
    (layering, "schema/x.cpp", '#include "gpu/drift.hpp"\n'),
    (layering, "daemon/store/x.cpp", '#include "daemon/pipeline/service.hpp"\n'),
    (layering, "daemon/base/x.cpp", '#include "daemon/store/store.hpp"\n'),
    (layering, "daemon/base/x.cpp", '#include "gpu/drift.hpp"\n'),
    (layering, "daemon/api/x.cpp", "#include <sqlite3.h>\n"),
    (layering, "daemon/net/x.hpp", "#include <boost/beast/core.hpp>\n"),
    (coroutines, "x.cpp", "task f() { if (co_await g()) h(); }\n"),
    (coroutines, "x.cpp", "task f() { auto x = c ? co_await g() : 0; }\n"),
    (coroutines, "x.cpp", "task f() { h(co_await g()); }\n"),
    (coroutines, "x.cpp", "task f() { while (co_await g()) {} }\n"),
    (coroutines, "x.cpp", "void f() { co_spawn(e, g(), asio::detached); }\n"),
    (sizes, "x.cpp", "\n" * 601),
    (sizes, "x.inl", "\n" * 601),
    (sizes, "x.cpp", "int f() {" + "\n" * 60 + "}\n"),
    (sizes, "x.hpp", "namespace a {\nclass B {\n  B() : c_{1}, d_(2) {" + "\n" * 60 + "}\n};\n}\n"),
    (sizes, "x.inl", "template <class T>\nvoid f(T) noexcept {\n" + "if (x) {\n}\n" * 30 + "}\n"),
    (tries, "x.cpp", "int f() { return g(TRY(h())); }\n"),
    (tries, "x.cpp", "int f() { auto x = TRY(g()) + 1; }\n"),
    (tries, "x.cpp", "int f() { auto x = TRY(g()).member; }\n"),
    (tries, "x.cpp", "int f() { if (x == TRY(g())) h(); }\n"),
    (folders, "a", " ".join(f"{n}.cpp" for n in range(41))),
    (words, "x.cpp", "// TO" "DO later\n"),
    (call_cycles, "x.cpp", "void g();\nvoid f() { g(); }\nvoid g() { if (x) f(); }\n"),
    (call_cycles, "x.cpp", "namespace a { void C::f(int n) { g(n); } void C::g(long) const { h(); } void C::h() { f(0); } }\n"),
    (call_cycles, "x.cpp", "struct A { void f(); };\nvoid g(A& a) { a.f(); }\nvoid A::f() { g(*this); }\n"),
    (call_cycles, "x.cpp", "namespace a { void f() { b::g(); } }\nnamespace a::b { void g() { [] { a::f(); }(); } }\n"),
    (call_cycles, "x.cpp", "struct B { virtual void f(); };\nstruct D : B { void f() override { g(*b_); } B* b_; };\n"
                           "void g(B& b) { b.f(); }\n"),
    (call_cycles, "x.cpp", "template <typename F> void each(F f) { f(1); }\nvoid walk(int n) { each(walk); }\n"),
    (call_cycles, "x.cpp", "struct W { F run; };\nW C::world() { return {.run = [this] { settle(); }}; }\n"
                           "void C::settle() { world_.run(); }\n"),
    (words, "x.cpp", '"/ro' 'ot/x"\n'),
    (referenced, "docs/x.md", "See [that](gone.md).\n"),
    (referenced, "docs/x.md", "See [that](a.md#one-thing).\n"),
    (referenced, "docs/x.md", "See [that](a.md#no-heading).\n"),
    (referenced, "stages/x.cpp", "int x;  ///< see gone.md\n"),
    (referenced, "stages/x.cpp", '// docs/a.md, "Two"\n'),
    (referenced, "stages/x.cpp", '/// docs/design/b.md, "Deep" and\n/// "Deeper"\n'),
    (referenced, "stages/x.cpp", "/// Of the log (b.md,\n/// section 4).\n"),
    (referenced, "stages/x.cpp", 'const char* text = "docs/gone.md";\n'),
    (referenced, "x.py", '"""Of docs/a.md,\n"Two"."""\n'),
    (referenced, "docs/x.md", "The code is `stages/gone.hpp`.\n"),
    (referenced, "docs/x.md", "The code is `stages/{x,y}.cpp`.\n"),
    (referenced, "docs/x.md", "The code is `stages/z*.cpp`.\n"),
    (referenced, "docs/x.md", "Run `scripts/gone --all`.\n"),
    (started, "scripts/x", '#!/bin/bash\nwhen=$(git -C "$root" log -1 | cut -c 1-9)\n'),
    (started, "scripts/x", '#!/bin/bash\nrun=()\nrun=(jq -r)\nif true; then A=b "${run[@]}" .; fi\n'),
    (started, "scripts/x", "#!/bin/sh\nfor program in sed jq; do command -v $program; done\n"),
    (started, "scripts/x", "#!/bin/sh\njq=$(which jq)\n"),
    (started, "scripts/x", "#!/bin/sh\nfind . -name '*.o' -exec nm {} +\n"),
    (started, "scripts/x", '#!/bin/bash\nnoted() {\n  local log=$1\n  shift\n  "$@"\n}\nnoted log env A=b timeout -k 9 5 jq .\n'),
    (started, "scripts/x", "#!/bin/bash\nls | xargs -P 4 -I{} bash -euc 'case {} in\n  a | b) jq . ;;\nesac'\n"),
    (started, "scripts/x", '#!/bin/bash\ncat <<EOF\n$(jq .)\nEOF\n'),
    (started, "scripts/x", "#!/bin/bash\ntar -xJf x.tar.xz\n"),
    (started, "scripts/x", "#!/usr/bin/env ruby\n"),
    (started, "scripts/build", "#!/bin/bash\nmake all\n"),
    (started, "x/CMakeLists.txt", "find_program(X NAMES jq gojq PATHS cmake)\n"),
    (started, "cmake/x.cmake", 'execute_process(COMMAND git log\n  OUTPUT_VARIABLE x)\n'),
    (started, "cmake/x.cmake", 'add_test(NAME x COMMAND sh -c "$<TARGET_FILE:x> | jq ${y}")\n'),
    (started, "tests/x.py", 'import subprocess\nsubprocess.run(["git", "log"], check=True)\n'),
    (started, "tests/x.py", 'import shutil\nif not all(shutil.which(name) for name in ("sed", "jq")):\n    pass\n'),
    (started, "tests/x.py", 'from subprocess import run as ask\ndef tell(root, *words):\n    ask(words)\ntell(1, "jq")\n'),
    (started, "tests/x.py", 'import os, subprocess\nJQ = os.environ.get("JQ", "jq")\nclass P:\n'
                            '    def __init__(self, argv):\n        subprocess.Popen(argv)\nP([JQ, "."])\n'),
    (started, "tests/x.py", 'import os\nos.system("cd x && jq .")\n'),
    (started, "tests/x.py", 'SCRIPT = """#!/bin/sh\nexec jq .\n"""\n'),
    (started, "tests/x.cpp", 'const std::string line = "jq . " + path();\nCHECK(std::system(line.c_str()) == 0);\n'),
    (started, "tests/x.cpp", 'program.argv = {"/bin/sh", "-c", "sleep 1; "\n                "jq ."};\n'),
    (started, "tests/x.mjs", "execFileSync('jq', ['.']);\n"),
    (started, "docs/ci.md", "```sh\ndriftgate drift a b | jq .\n```\n"),
    (tables, "nothing starts cpack any more", "#!/bin/sh\nctest\n"),
    (tables, "scripts/real_gateway does not start make any more", "#!/bin/sh\nmake\n"),
]
GOOD = [
    (layering, "daemon/api/x.cpp", '#include "daemon/pipeline/service.hpp"\n#include "schema/error.hpp"\n'),
    (layering, "daemon/limits/x.cpp", '#include "daemon/base/unique_fd.hpp"\n#include "schema/error.hpp"\n'),
    (coroutines, "x.cpp", "task f() { auto x = co_await g(); if (x) { co_await h(); } co_return co_await i(); }\n"),
    (coroutines, "x.cpp", "task f() { const auto [e, n] = co_await g(); /* if (co_await x) */ }\n"),
    (sizes, "x.cpp", "\n" * 600),
    (sizes, "x.cpp", "int f() {" + "\n" * 59 + "}\n"),
    (sizes, "x.cpp", "constexpr int kTable[] = {" + "1,\n" * 90 + "};\nint f();\n"),
    (sizes, "x.cpp", 'constexpr auto kText = R"({\n' + "{ // \"\n" * 90 + ')";\nint f() { return 1\'000; }\n'),
    (sizes, "x.cpp", "namespace a {\nstruct B {\n" + "int f(int x) { return x; }\n" * 90 + "};\n}\n"),
    (tries, "x.cpp", "int f() { TRY(g()); for (;;) TRY(h(\")\")); if (a) x.y = TRY(h(1)); const auto z = TRY(h([] { TRY(g()); })); }\n"),
    (tries, "x.hpp", "#define TRY(...) \\\n  A(TRY(b), c)\n"),
    (folders, "a", " ".join(f"{n}.cpp b/{n}.cpp" for n in range(40))),
    (words, "x.cpp", "// done\n"),
    (call_cycles, "x.cpp", "void f() { std::f(); other::g(); }\nvoid g() { f(); /* g(); */ log(\"g();\"); }\n"),
    (call_cycles, "x.cpp", "void C::f() { loop_.post([this] { f(); }); queue_.push_back(Effect{f_}); }\n"),
    (call_cycles, "x.cpp", "struct C { int end() { return list_.end(); } std::vector<int> list_; };\n"),
    (call_cycles, "x.cpp", "void f(int n) { const int f(n); }\nint sum(int sum) { return twice(sum); }\n"),
    (referenced, "docs/x.md", "[a](a.md#one-thing-or-two), [b](design/b.md), [c](https://example.org/gone.md), OUT.md.\n"),
    (referenced, "docs/x.md", "`stages/x.hpp`, `stages/{x,y}.hpp`, `stages/y.*`, stages/x, stages/, `scripts/run --all`.\n"),
    (referenced, "docs/x.md", "```\nstages/gone.hpp gone.md\n```\n"),
    (referenced, "stages/x.cpp", '/// A rule (docs/a.md, "One thing,\n/// or two"; b.md, "Deep"), "Other".\n'),
    (referenced, "stages/x.cpp", '#include "stages/gone.hpp"\nint x = y / stages/gone;\n'),
    (referenced, "x.py", "# b.md (section \"Deep\")\nopen('out/gone.md')\n"),
    (started, "scripts/x", "#!/bin/bash\ncat <<'EOF'\n$(git log)\nEOF\necho git $((git << 2)); # git\n[ $1 = git ] && cmake . # jq\n"),
    (started, "scripts/x", '#!/bin/bash\ngit() { echo; }\ngit log\n"$root/jq" x\ncase $1 in\n  jq) ;;\nesac\nfor jq in x jq; do :; done\n'),
    (started, "scripts/x", '#!/bin/bash\ninside=("$root/in_root" x)\n"${inside[@]}" jq .\nchroot "$root" jq\n[[ a =~ ^(git|jq)$ ]]\n'),
    (started, "scripts/x", "#!/bin/bash\npython=python3\ntrap 'rm -f x' EXIT\ntest x && node x || exec /usr/bin/cmake\n"),
    (started, "scripts/x", '#!/bin/bash\nls | xargs -P 4 -n 1 timeout -s KILL 5 cat  # git\n(cd "$1" && sleep 1) >&2 2>/dev/null &\n'),
    (started, "scripts/real_gateway", "#!/bin/bash\nmake all\n"),
    (tables, "nothing starts ctest any more", "#!/bin/sh\nctest\n"),
    (started, "cmake/x.cmake", "find_program(X NAMES jq node)  # git\nadd_test(NAME git COMMAND ${X} git)\n"),
    (started, "tests/x.py", 'import subprocess\ndef inside(root, *words):\n    subprocess.run(["chroot", root, *words])\n'
                            'inside("x", "jq")\ndef run(*words):\n    pass\nrun("git")\n"""git log"""\n'),
    (started, "tests/x.py", 'import shutil\nfor name in ("git", "jq"):\n    print(name)\nfor name in ("sed", "node"):\n'
                            '    shutil.which(name)\n'),
    (started, "tests/x.cpp", 'CHECK(text == "jq .");\nconst char* line = "git";\n'),
]

failed = [f"missed: {lint.__name__} on {text.strip()!r}" for lint, name, text in BAD if not lint.faults_of(name, text)]
failed += [f"fired wrongly: {lint.faults_of(name, text)}" for lint, name, text in GOOD if lint.faults_of(name, text)]
print("\n".join(failed) or f"{len(BAD)} broken samples named, {len(GOOD)} sound ones left alone")
sys.exit(1 if failed else 0)
