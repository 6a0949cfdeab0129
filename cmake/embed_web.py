"""Writes the C++ source that holds the page.

    embed_web.py DIST OUTPUT

DIST is what web/build.mjs made, with manifest.json; OUTPUT defines driftgate::web::embedded_files() and
embedded_absence(), which is empty. The assembler reads the files themselves (.incbin), so that the compiler has no literals
to parse.
"""
import hashlib
import json
import os
import re
import sys

HEAD = """// Made by cmake/embed_web.py from web/. What this source reads has the digest {digest}.
#include "daemon/web/site.hpp"

"""
BYTES = """__asm__(".pushsection .rodata\\n.balign 16\\n.global {name}\\n.hidden {name}\\n{name}:\\n.incbin \\"{path}\\"\\n.popsection");
extern "C" __attribute__((visibility("hidden"))) const char {name}[];

"""
TAIL = """namespace driftgate::web {{

std::span<const File> embedded_files() {{
  static const File kFiles[] = {{
{rows}  }};
  return kFiles;
}}

Absence embedded_absence() {{
  return {{}};
}}

}}  // namespace driftgate::web
"""


def plain(text, what):
    """The text, if it can stand in a C++ literal as it is."""
    if not re.fullmatch(r"[ !#-\[\]-~]+", text):
        sys.exit(f"embed_web.py: {what} '{text}' in manifest.json has characters that are not expected")
    return text


def main(dist, output):
    with open(os.path.join(dist, "manifest.json"), encoding="utf-8") as handle:
        listed = json.load(handle)["files"]
    if not any(file["path"] == "/index.html" for file in listed):
        sys.exit("embed_web.py: manifest.json lists no /index.html")
    digest, parts, rows = hashlib.sha256(), [], []

    def embedded(path):
        """A literal for the bytes of the file; they stand in the source once."""
        if not os.path.exists(path):
            return "{}"
        with open(path, "rb") as handle:
            data = handle.read()
        digest.update(hashlib.sha256(data).digest())
        name = f"driftgate_web_{len(parts)}"
        parts.append(BYTES.format(name=name, path=plain(os.path.abspath(path), "the path")))
        return "{%s, %d}" % (name, len(data))

    for file in listed:
        path = os.path.join(dist, file["file"])
        with open(path, "rb") as handle:
            found = hashlib.sha256(handle.read()).hexdigest()
        if found != file["sha256"]:
            sys.exit(f"embed_web.py: {file['file']} has the SHA-256 {found}, manifest.json says {file['sha256']}")
        variants = [embedded(path + suffix) for suffix in ("", ".gz", ".br")]
        rows.append('      {"%s", "%s", "%s",\n       %s},\n' % (plain(file["path"], "the path"), plain(
            file["type"], "the type"), found, ", ".join(variants)))
    text = HEAD.format(digest=digest.hexdigest()) + "".join(parts) + TAIL.format(rows="".join(rows))
    with open(output, "w", encoding="utf-8") as handle:
        handle.write(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
