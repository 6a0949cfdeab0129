"""Each lint names a broken sample and leaves a sound one alone: a lint that cannot fail is a defect."""
import sys

import coroutines
import layering
import references
import sizes
import words

PAGES = {"docs/a.md": "# A\n\n## One thing, or two\n\n```\n# no heading\n```\n", "docs/design/b.md": "# B\n\n## Deep\n",
         "stages/x.hpp": "", "stages/y.hpp": "", "stages/y.cpp": "", "scripts/run": ""}


class referenced:
    """The lint of references over a small tree."""
    @staticmethod
    def faults_of(name, text):
        return references.faults_of(name, text, references.Tree(PAGES, PAGES.get))



BAD = [
    (layering, "stages/x.cpp", '#include "daemon/store/store.hpp"\n'),
    (layering, "schema/x.cpp", '#include "gpu/drift.hpp"\n'),
    (layering, "daemon/store/x.cpp", '#include "daemon/pipeline/service.hpp"\n'),
    (layering, "daemon/api/x.cpp", "#include <sqlite3.h>\n"),
    (layering, "daemon/net/x.hpp", "#include <boost/beast/core.hpp>\n"),
    (coroutines, "x.cpp", "task f() { if (co_await g()) h(); }\n"),
    (coroutines, "x.cpp", "task f() { auto x = c ? co_await g() : 0; }\n"),
    (coroutines, "x.cpp", "task f() { h(co_await g()); }\n"),
    (coroutines, "x.cpp", "task f() { while (co_await g()) {} }\n"),
    (coroutines, "x.cpp", "void f() { co_spawn(e, g(), asio::detached); }\n"),
    (sizes, "x.cpp", "\n" * 601),
    (words, "x.cpp", "// TO" "DO later\n"),
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
]
GOOD = [
    (layering, "daemon/api/x.cpp", '#include "daemon/pipeline/service.hpp"\n#include "schema/error.hpp"\n'),
    (coroutines, "x.cpp", "task f() { auto x = co_await g(); if (x) { co_await h(); } co_return co_await i(); }\n"),
    (coroutines, "x.cpp", "task f() { const auto [e, n] = co_await g(); /* if (co_await x) */ }\n"),
    (sizes, "x.cpp", "\n" * 600),
    (words, "x.cpp", "// done\n"),
    (referenced, "docs/x.md", "[a](a.md#one-thing-or-two), [b](design/b.md), [c](https://example.org/gone.md), OUT.md.\n"),
    (referenced, "docs/x.md", "`stages/x.hpp`, `stages/{x,y}.hpp`, `stages/y.*`, stages/x, stages/, `scripts/run --all`.\n"),
    (referenced, "docs/x.md", "```\nstages/gone.hpp gone.md\n```\n"),
    (referenced, "stages/x.cpp", '/// A rule (docs/a.md, "One thing,\n/// or two"; b.md, "Deep"), "Other".\n'),
    (referenced, "stages/x.cpp", '#include "stages/gone.hpp"\nint x = y / stages/gone;\n'),
    (referenced, "x.py", "# b.md (section \"Deep\")\nopen('out/gone.md')\n"),
]

failed = [f"missed: {lint.__name__} on {text.strip()!r}" for lint, name, text in BAD if not lint.faults_of(name, text)]
failed += [f"fired wrongly: {lint.faults_of(name, text)}" for lint, name, text in GOOD if lint.faults_of(name, text)]
print("\n".join(failed) or f"{len(BAD)} broken samples named, {len(GOOD)} sound ones left alone")
sys.exit(1 if failed else 0)
