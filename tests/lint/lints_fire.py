"""Each lint names a broken sample and leaves a sound one alone: a lint that cannot fail is a defect."""
import sys

import call_cycles
import coroutines
import layering
import references
import sizes
import tries
import words

PAGES = {"docs/a.md": "# A\n\n## One thing, or two\n\n```\n# no heading\n```\n", "docs/design/b.md": "# B\n\n## Deep\n",
         "stages/x.hpp": "", "stages/y.hpp": "", "stages/y.cpp": "", "scripts/run": ""}


class referenced:
    """The lint of references over a small tree."""
    @staticmethod
    def faults_of(name, text):
        return references.faults_of(name, text, references.Tree(PAGES, PAGES.get))



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
]

failed = [f"missed: {lint.__name__} on {text.strip()!r}" for lint, name, text in BAD if not lint.faults_of(name, text)]
failed += [f"fired wrongly: {lint.faults_of(name, text)}" for lint, name, text in GOOD if lint.faults_of(name, text)]
print("\n".join(failed) or f"{len(BAD)} broken samples named, {len(GOOD)} sound ones left alone")
sys.exit(1 if failed else 0)
