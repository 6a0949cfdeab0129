"""Says in two lines why npm failed, and what to do about it.

    npm_reason.py LOG RESULT

LOG is what npm wrote, RESULT what CMake knows of its end: an exit code, or words. The first line is a reason with npm's
own words, the second an instruction ("set ..., or ..."). Neither holds credentials; both are compiled into the program.
"""
import re
import sys

MOST = 300  # characters of the reason
PREFIX = re.compile(r"^npm (?:ERR!|error)(?: |$)")  # npm 9; npm 10 and newer
COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
LABEL = re.compile(r"^(?:(?:network|nospc|notarget|enoent|FetchError:|Error:) +)+")
NOISE = re.compile(r"^\s*$|^(?:code|errno|syscall|path|dest|cwd)\s|^\s+(?:at|code:|errno:|syscall:|type:)\s|^A complete log|^\s*\}"
                   r"|^network (?:This|In most|If)|^If you are behind")
OTHER = re.compile(r"^npm (?:warn|WARN|notice|info|http|timing)\b|^Warning: |^\s*$")
TELLING = re.compile(r"Error\b|not found|[Cc]annot|denied|No such")

UNREACHABLE = {"ENOTFOUND", "EAI_AGAIN", "EAI_FAIL", "ECONNREFUSED", "ECONNRESET", "ECONNABORTED", "ETIMEDOUT", "EHOSTUNREACH",
               "ENETUNREACH", "ERR_SOCKET_TIMEOUT"}
OUTDATED = {"CERT_HAS_EXPIRED", "CERT_NOT_YET_VALID"}
UNTRUSTED = re.compile(r"(?:SELF_SIGNED|UNABLE_TO_(?:GET_ISSUER|VERIFY_LEAF)|DEPTH_ZERO|CERT_|ERR_TLS_CERT)\w*")
UNTRUSTED_TEXT = re.compile(r"self[- ]signed certificate|local issuer certificate|verify the first certificate")
REFUSED = {"E401", "E403", "E407", "ENEEDAUTH"}

REACH = "give this machine access to npm's registry (npm's settings registry, proxy and https-proxy)"
TRUST = "set NODE_EXTRA_CA_CERTS, or npm's cafile, to your certificate authorities"
IGNORED = "let NODE_EXTRA_CA_CERTS name a file of your certificate authorities that can be read: node ignores the present one"

# What looks like a credential, and what is left of it.
SECRETS = (
    (re.compile(r"(\w://)[^\s/@]*@"), r"\1"),  # https://user:password@host
    (re.compile(r"(\w://)[^\s/@\[]*:(?!\d+(?:[/\s'\"]|$))\S*@"), r"\1"),  # a password that has a slash
    (re.compile(r"(?<![\w/@:])[^\s/:@'\"]+:[^\s/@'\"]+@(?=[\w.-]+:\d)"), ""),  # user:password@proxy:3128
    (re.compile(r"(\w://[^\s?#'\"]*)[?#][^\s'\",)]*"), r"\1"),
    (re.compile(r"(?i)\b(_?auth|[\w-]*token|_?password|passwd|secret|api[_-]?key)=\S+"), r"\1=***"),
    (re.compile(r"\b(Bearer|Basic) +[\w.~+/=-]{8,}"), r"\1 ***"),
    (re.compile(r"\b(?:npm|gh[pousr]|glpat)[_-][\w-]{16,}"), "***"),
)


def cleaned(text):
    """One line of printable characters without credentials."""
    text = re.sub(r"\s+", " ", COLOURS.sub("", text))
    text = "".join(c for c in text if c.isprintable()).strip()
    for pattern, rest in SECRETS:
        text = pattern.sub(rest, text)
    return text


def shortened(text, most):
    return text if len(text) <= most else text[:most - 1].rstrip() + "…"


def code_of(errors):
    """npm's name of the failure, such as ENOTFOUND; "" where it gives none."""
    for form in (r"code ([A-Z]\w+)$", r"errno ([A-Z]\w+)$", r"\s*code: '([A-Z]\w+)'"):
        for line in errors:
            if found := re.match(form, line):
                return found[1]
    return ""


def words_of(lines, errors, code):
    """npm's own words: the code, and the line that says most."""
    telling = [line for line in errors if "failed, reason:" in line] or [line for line in errors if not NOISE.search(line)]
    if not errors:
        rest = [line for line in lines if not OTHER.search(line)]
        telling = [line for line in rest if TELLING.search(line)] or rest[-1:]
    text = cleaned(LABEL.sub("", telling[0])) if telling else ""
    return ": ".join(part for part in (code if code not in text.split() else "", text) if part)


def kind_of(code, text, result):
    """What npm's failure is, and what to do about it."""
    known = [code] if code else re.findall(r"\bE[A-Z_]{4,}\b|\bCERT_[A-Z_]+\b", text)
    if any(one in OUTDATED for one in known):
        return ("npm does not trust the certificate of its registry",
                "compare this machine's clock with the dates of the registry's certificate")
    if any(UNTRUSTED.fullmatch(one) for one in known) or UNTRUSTED_TEXT.search(text):
        return ("npm does not trust the certificate of its registry",
                IGNORED if "Ignoring extra certs" in text else TRUST)
    if any(one in UNREACHABLE for one in known):
        return "npm cannot reach its registry", REACH
    if any(one in REFUSED for one in known):
        return "npm's registry, or a proxy, refuses npm", "correct npm's login and its settings registry and proxy"
    if "timeout" in result:
        return "npm did not end in time", REACH
    return "'npm ci' in web/ failed", "repair what npm names; npm.log in the build folder has all that it said"


def reason(log, result):
    lines = [COLOURS.sub("", line).rstrip() for line in log.splitlines()]
    errors = [PREFIX.sub("", line) for line in lines if PREFIX.match(line)]
    code = code_of(errors)
    kind, remedy = kind_of(code, "\n".join(lines), result)
    words = words_of(lines, errors, code) or f"it ended with {cleaned(result)} and said nothing"
    return f"{kind} ({shortened(words, MOST - len(kind) - 3)})", remedy


def main(path, result):
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            log = handle.read(1024 * 1024)
    except OSError:
        log = ""
    sys.stdout.reconfigure(encoding="utf-8")
    print("\n".join(reason(log, result)))


if __name__ == "__main__":
    main(*sys.argv[1:])
