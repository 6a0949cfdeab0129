"""Each lint names a broken sample and leaves a sound one alone: a lint that cannot fail is a defect."""
import sys

import coroutines
import layering
import sizes
import words

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
    (words, "x.cpp", "// TO" "DO later\n"),
    (words, "x.cpp", '"/ro' 'ot/x"\n'),
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
    (words, "x.cpp", "// done\n"),
]

failed = [f"missed: {lint.__name__} on {text.strip()!r}" for lint, name, text in BAD if not lint.faults_of(name, text)]
failed += [f"fired wrongly: {lint.faults_of(name, text)}" for lint, name, text in GOOD if lint.faults_of(name, text)]
print("\n".join(failed) or f"{len(BAD)} broken samples named, {len(GOOD)} sound ones left alone")
sys.exit(1 if failed else 0)
