"""Text that Debian packages ship, as plain paragraphs: manual pages in three languages, licences, CMake help."""
import gzip
import pathlib
import re
import subprocess
import tempfile

PACKAGES = ["manpages", "manpages-dev", "manpages-de", "manpages-fr", "cmake-data", "base-files"]

ESCAPES = [(r"\\f\[?[A-Z]{1,2}\]?|\\f[1-4P]", ""), (r"\\-", "-"), (r"\\\(aq|\\\[aq\]", "'"), (r"\\\(dq", '"'),
           (r"\\\((en|em|hy)", "-"), (r"\\\((lq|rq)", '"'), (r"\\\(bu", "*"), (r"\\[ ~0]", " "), (r"\\[&|^/,:%]", ""),
           (r"\\\(..", ""), (r"\\\[[^\]]*\]", ""), (r"\\s[-+]?\d", ""), (r"\\[evh]('[^']*')?", ""), (r"\\[\"#].*$", "")]
TEXT_MACROS = {"B", "I", "BR", "RB", "BI", "IB", "IR", "RI", "SM", "SB", "SH", "SS", "TP", "IP"}


def roff_to_text(source):
    """Plain text of a manual page. Keeps running text, headings and examples; drops layout."""
    out = []
    for line in source.splitlines():
        if line.startswith((".\\\"", "'\\\"", ".\\\" ")):
            continue
        if line.startswith("."):
            macro, _, rest = line[1:].strip().partition(" ")
            if macro in ("PP", "P", "LP", "SH", "SS", "TP", "IP"):
                out.append("")
            if macro not in TEXT_MACROS or not rest or macro in ("TP", "IP"):
                continue
            words = re.findall(r'"([^"]*)"|(\S+)', rest)
            glue = "" if macro in ("BR", "RB", "BI", "IB", "IR", "RI") else " "
            line = glue.join(quoted or plain for quoted, plain in words)
        for pattern, replacement in ESCAPES:
            line = re.sub(pattern, replacement, line)
        out.append(line.rstrip())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip() + "\n"


def rst_to_text(source):
    return re.sub(r"\n{3,}", "\n\n", source).strip() + "\n"


def fetch(root=None):
    """Downloads and unpacks PACKAGES into a folder of their own; the system stays as it was."""
    root = pathlib.Path(root or tempfile.mkdtemp(prefix="tinylm-text-"))
    root.mkdir(parents=True, exist_ok=True)
    if not (root / "usr").exists():
        debs = root / "debs"
        debs.mkdir(exist_ok=True)
        subprocess.run(["apt-get", "download", *PACKAGES], cwd=debs, check=True, stdout=subprocess.DEVNULL)
        for deb in sorted(debs.glob("*.deb")):
            subprocess.run(["dpkg", "-x", str(deb), str(root)], check=True)
    return root


def pages(folder, sections):
    for section in sections:
        for path in sorted((folder / section).glob("*.gz")):
            if path.is_symlink() or path.name.startswith(("cmake", "cpack", "ctest")):
                continue  # CMake's pages repeat its help, which is the domain `code`
            text = roff_to_text(gzip.decompress(path.read_bytes()).decode("utf-8", "replace"))
            if len(text) > 1500 and "�" not in text:
                yield path.name, text


def documents(root):
    """Yields (language, domain, name, text) in a fixed order."""
    man = root / "usr/share/man"
    for language, folder in (("en", man), ("de", man / "de"), ("fr", man / "fr")):
        sections = ["man2", "man4", "man5", "man7", "man8"] if language == "en" else ["man1", "man4", "man5", "man7", "man8"]
        for name, text in pages(folder, sections):
            yield language, "manual", name, text
    for path in sorted((root / "usr/share/common-licenses").iterdir()):
        if path.is_file() and not path.is_symlink():
            yield "en", "licence", path.name, path.read_text("utf-8", "replace")
    for folder in ("command", "manual", "module", "policy", "prop_tgt", "variable"):
        for path in sorted((root / "usr/share/cmake-3.25/Help" / folder).rglob("*.rst")):
            text = rst_to_text(path.read_text("utf-8"))
            if len(text) > 600:
                yield "en", "code", f"{folder}/{path.name}", text
