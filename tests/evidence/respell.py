"""Mutations that spell a line, an entry, a statement or a head in another way than the canonical one."""
import base64
import json
import re

from bundles import INCOMPLETE, OK, TAMPERED, UNDERIVABLE, UNTRUSTED, Case, compact, sealed

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d+|true|false|null|[{}\[\],:]')
CHARACTER = re.compile(r"\\u[0-9a-f]{4}|\\.|[^\\]", re.DOTALL)
SPACES = [" ", "\t", "\r", "\x0b", "\x0c", "\0", "\u00a0", "\u2028", "\ufeff", "  ", "/**/"]
NOT_UTF8 = [b"\xff", b"\x80", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc3"]


def splice(text, match, new):
    return text[:match.start()] + new + text[match.end():]


def a_token(rng, text, accept):
    found = [match for match in TOKEN.finditer(text) if accept(match[0])]
    return rng.choice(found) if found else None


def space(rng, text):
    match = a_token(rng, text, lambda token: True)
    return splice(text, match, rng.choice([rng.choice(SPACES) + match[0], match[0] + rng.choice(SPACES)]))


def escape(rng, text):
    """A character of a string, written as another escape of the same."""
    match = a_token(rng, text, lambda token: len(token) > 2 and token[0] == '"')
    characters = CHARACTER.findall(match[0][1:-1])
    at = rng.randrange(len(characters))
    meant = json.loads(f'"{characters[at]}"')
    units = meant.encode("utf-16-be").hex()
    spellings = ["".join(f"\\u{units[i:i + 4]}" for i in range(0, len(units), 4))]
    spellings += [spellings[0].upper().replace("\\U", "\\u")] + [f"\\{meant}"] * (meant in '/"\\')
    characters[at] = rng.choice([spelled for spelled in spellings if spelled != characters[at]] or ["\\u002f"])
    return splice(text, match, '"' + "".join(characters) + '"')


def lone_surrogate(rng, text):
    match = a_token(rng, text, lambda token: token[0] == '"')
    return splice(text, match, match[0][:-1] + rng.choice(["\\ud800", "\\udc00", "\\uDBFF", "\\udfff\\ud800"]) + '"')


def control(rng, text):
    match = a_token(rng, text, lambda token: token[0] == '"')
    return splice(text, match, '"' + rng.choice("\0\x01\x08\t\x0c\r\x1f") + match[0][1:])


def number(rng, text):
    match = a_token(rng, text, lambda token: token[-1].isdigit())
    if match is None:
        return space(rng, text)
    digits = match[0]
    return splice(text, match, rng.choice([
        digits + ".0", digits + "e0", digits + "E+0", "0" + digits, "+" + digits, digits + ".", f'"{digits}"', digits + "0e-1",
        "-0" if digits == "0" else "-" + digits, hex(int(digits)), digits + "_0", "1e400", "NaN", "Infinity", "9007199254740993",
        "99999999999999999999", "1" * 5000]))


class Members(list):
    """An object as its members in the order in which they stand."""


def written(value):
    if isinstance(value, Members):
        return "{" + ",".join(compact(key) + ":" + written(item) for key, item in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    return compact(value)


def objects_in(value):
    if isinstance(value, Members):
        yield value
    for item in (pair[1] for pair in value) if isinstance(value, Members) else value if isinstance(value, list) else ():
        yield from objects_in(item)


def members(rng, text):
    """Members in another order, or one of them twice."""
    whole = json.loads(text, object_pairs_hook=Members)
    chosen = rng.choice([found for found in objects_in(whole) if found])
    if len(chosen) > 1 and rng.random() < 0.5:
        first, second = rng.sample(range(len(chosen)), 2)
        chosen[first], chosen[second] = chosen[second], chosen[first]
    else:
        key, value = rng.choice(chosen)
        chosen.insert(rng.randrange(len(chosen) + 1), (key, rng.choice([value, 0, "", None])))
    return written(whole)


def around(rng, text):
    more = rng.choice([" ", "\t", "\r", "\0", ",", "}", "{}", "//", "null", "\ufeff", ";", "]"])
    return rng.choice([more + text, text + more])


def early_end(rng, text):
    return text[:rng.randrange(len(text))]


SPELLINGS = [(space, 4), (escape, 4), (lone_surrogate, 1), (control, 1), (number, 4), (members, 4), (around, 2), (early_end, 1)]


def respelled(rng, text):
    """(text in another spelling, how)"""
    how = rng.choices([how for how, _ in SPELLINGS], [weight for _, weight in SPELLINGS])[0]
    changed = how(rng, text)
    return (changed, how.__name__) if not is_canonical(changed) else (text + " ", "around")


def is_canonical(text):
    try:
        return compact(json.loads(text)) == text
    except (ValueError, RecursionError):
        return False


# --- mutations: each takes (random, world, bundle) and gives a Case
def respell_line(rng, _, bundle):
    lines = [line.encode() for line in bundle.seal().lines()]
    at = rng.randrange(len(lines))
    changed, how = respelled(rng, lines[at].decode())
    if at == len(lines) - 1:
        data = b"".join(line + b"\n" for line in lines[:-1]) + changed.encode() + b"\n"
    else:
        data = sealed([*lines[:at], changed.encode(), *lines[at + 1:]])
    return Case(data, {TAMPERED}, f"line {at} spelled in another way ({how})")


def no_utf8(rng, _, bundle):
    lines = [line.encode() for line in bundle.seal().lines()]
    at = rng.randrange(len(lines) - 1)
    place = rng.randrange(len(lines[at]))
    lines[at] = lines[at][:place] + rng.choice(NOT_UTF8) + lines[at][place:]
    return Case(sealed(lines), {TAMPERED}, f"bytes that are no UTF-8 in line {at}")


def frame(rng, _, bundle):
    """Line ends, blank lines, byte order marks, and what stands around the lines."""
    lines = [line.encode() for line in bundle.seal().lines()]
    whole = b"".join(line + b"\n" for line in lines)
    at = rng.randrange(len(lines))
    one = lambda line: b"".join(item + b"\n" for item in [*lines[:at], line, *lines[at + 1:]])
    return rng.choice([
        Case(whole.replace(b"\n", b"\r\n"), {TAMPERED}, "CRLF everywhere"), Case(one(lines[at] + b"\r"), {TAMPERED}, f"CRLF in line {at}"),
        Case(sealed([line + b"\r" for line in lines[:-1]] + lines[-1:]), {TAMPERED}, "CRLF, the digest made anew"),
        Case(sealed([*lines[:at], rng.choice([b"", b" ", b"\t", b"\r", b"\0"]), *lines[at:]]), {TAMPERED}, f"a blank line before line {at}"),
        Case(whole + rng.choice([b"\n", b" \n", b"\r\n", b"\0\n", b"{}\n", b"# end\n"]), {TAMPERED}, "a line after the end"),
        Case(whole + lines[-1] + b"\n", {TAMPERED}, "the end twice"), Case(whole + whole, {TAMPERED}, "the bundle twice"),
        Case(whole[:-1], {INCOMPLETE}, "no last line end"), Case(whole + rng.choice([b"x", b" ", b"\0", b"\r"]), {INCOMPLETE}, "bytes after the end"),
        Case(b"\xef\xbb\xbf" + whole, {TAMPERED}, "a byte order mark"), Case(b"\n" + whole, {TAMPERED}, "a blank first line"),
        Case(whole.decode().encode("utf-16"), {TAMPERED, INCOMPLETE}, "UTF-16"), Case(whole.replace(b"\n", b"\r"), {INCOMPLETE}, "CR for LF"),
        Case(b"", {INCOMPLETE}, "an empty file"), Case(b"\n", {TAMPERED}, "a line end alone"),
        Case(b"[" + b",".join(lines) + b"]\n", {TAMPERED}, "a list of the lines"),
        Case(sealed([b'[' * 100_000, *lines]), {TAMPERED}, "a deeply nested line")])


def other_base64(rng, _, bundle):
    """Base 64 in another spelling, and hashes in capitals."""
    record = rng.choice([record for record in bundle.records if record["t"] in ("blob", "attestation")] or bundle.records[:1])
    if record["t"] == "bundle":
        record["checkpoint"] = respelled_base64(rng, record["checkpoint"])
    elif record["t"] == "blob":
        record["bytes"] = respelled_base64(rng, record["bytes"])
    else:
        holder, name = rng.choice([(record["envelope"], "payload"), (record["envelope"]["signatures"][0], "sig")])
        holder[name] = respelled_base64(rng, holder[name])
    return Case(bundle.data(), {TAMPERED}, f"another base 64 in {record['t']}")


def respelled_base64(rng, text):
    at = rng.randrange(len(text) + 1)
    variants = [text[:at] + rng.choice([" ", "\n", "\r\n", "=", "-", "\u00e9"]) + text[at:], text + "=", text + "====", text.rstrip("=") + "A"]
    if "=" in text:
        bare = text.rstrip("=")
        alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
        variants += [bare, bare[:-1] + alphabet[alphabet.index(bare[-1]) ^ 1] + text[len(bare):]]
    if "+" in text or "/" in text:
        variants.append(text.replace("+", "-").replace("/", "_"))
    return rng.choice(variants)


def capital_hash(rng, _, bundle):
    record = rng.choice([record for record in bundle.records if record["t"] in ("entry", "consistency", "range", "end", "blob")])
    hashes = [(value, i) for value in record.values() if isinstance(value, list) for i in range(len(value))]
    hashes += [(record, name) for name in ("root", "digest") if name in record]
    if not hashes:
        return respell_line(rng, _, bundle)
    holder, name = rng.choice(hashes)
    holder[name] = rng.choice([holder[name].upper(), holder[name] + "00", holder[name][:-2], " " + holder[name], holder[name] + "\n"])
    data = bundle.data() if record["t"] != "end" else "".join(compact(record) + "\n" for record in bundle.records).encode()
    return Case(data, {TAMPERED}, f"a hash of {record['t']} in another spelling")


def respell_entry(rng, world, bundle):
    """An entry in another spelling, hashed and signed again with the log's key."""
    record = rng.choice(bundle.of("entry"))
    changed, how = respelled(rng, record["entry"])
    world.rebuild(bundle, {record["seq"]: changed})
    return Case(bundle.data(), {TAMPERED}, f"entry {record['seq']} spelled in another way ({how}), all hashed and signed again")


def respell_statement(rng, world, bundle):
    """A statement in another spelling, signed with the right key."""
    record = rng.choice(bundle.of("attestation"))
    changed, how = respelled(rng, base64.b64decode(record["envelope"]["payload"]).decode())
    world.seal_statement(record, changed.encode())
    return Case(bundle.data(), {UNDERIVABLE}, f"a statement spelled in another way ({how}) and signed")


def respell_note(rng, world, bundle):
    """Another form of the signed head; its text is signed anew by the log's key where it changes."""
    header = bundle.header
    origin, size, root = header["checkpoint"].split("\n")[:3]
    note = header["checkpoint"]
    text, _, line = note.rpartition("\n\n")
    text += "\n"
    sign = lambda changed: f"{changed}\n{world.signature_line(origin, changed, world.log_key)}"
    foreign = lambda name=origin: world.signature_line(name, text, world.foreign_key)
    word = line.split(" ")[2][:-1]
    ill = [f"{text}\n\n{line}", f"{text}\n{line}\n{line}", f"{text}\n{line}\n", f"{text}\n", text + line, f"{text}\n{line[:-1]}", f"{text} \n{line}",
           f"{text}\n {line}", f"{text}\n\n", f"\n{note}", f"{text}\n{line}{line}", f"{text}\n{line[2:]}", f"{text}\n-{line[1:]}", f"\ufeff{note}",
           f"{text}\n{line.replace(' ', '  ', 1)}", f"{text}\n{line[:-1]} \n", f"{text}\n{line[:-1]}\r\n", f"{text}\n{line}garbage\n",
           f"{text}\n{line}\u2014 other\n", f"{text}\n{line}\u2014 other AAAA\n", f"{text}\n{line}\u2014 other A\n", f"{text}\n{line}\u2014  AAAAAAAA\n",
           f"{text}\n{line}\u2014 a+b AAAAAAAA\n", f"{text}\n{line}\u2014 a\u00a0b AAAAAAAA\n", f"{text}\n{line}\u2014 a\u3000b AAAAAAAA\n", note + "\0",
           f"{text}\n{line}\u2014 a\x01b AAAAAAAA\n", f"{text}\n{line}\u2014 a\tb AAAAAAAA\n", f"{text}\n{line.replace(word, respelled_base64(rng, word))}",
           f"{text}\n{line}" + "".join(f"\u2014 w{i} AAAAAAAA\n" for i in range(100)), f"{text}\n{line}" + foreign("w") * 2, note.replace("\n", "\r\n"),
           f"{text}\n{line}" + world.signature_line(origin, text, world.foreign_key, world.log_key.key_id(origin)), f"{text}\n{line}\u2014 w {'A' * 16384}\n",
           *map(sign, (f"{origin}\n0{size}\n{root}\n", f"{origin}\n+{size}\n{root}\n", f"{origin}\n{size}.0\n{root}\n", f"{origin}\n {size}\n{root}\n",
                       f"{origin}\n{size}\n{root} \n", f"{origin}\n{size}\n{root[:-1]}\n", f"{origin}\n{size}\n", f"{origin}\n{size}\n{root}\n\nx\n", f"{origin}\n",
                       f"{origin}\r\n{size}\n{root}\n", f"{origin}\n{size}\n{root}\nx\ty\n", f"{origin} \n{size}\n{root}\n", f"{size}\n{origin}\n{root}\n",
                       f"{origin}\n{size}\n{respelled_base64(rng, root)}\n", f"{origin}\n{int(size):x}h\n{root}\n", f"{origin}\n{2**64 + int(size)}\n{root}\n",
                       f"\n{origin}\n{size}\n{root}\n"))]
    well = [f"{text}\n{line}{foreign()}", f"{text}\n{foreign()}{line}", f"{text}\n{line}{foreign('w')}", f"{text}\n{line}\u2014 \u00e9 AAAAAAA=\n",
            f"{text}\n{line}" + "".join(f"\u2014 w{i} AAAAAAAA\n" for i in range(99)), sign(f"{text}an extension\n")]
    if rng.random() < 0.75:
        header["checkpoint"] = rng.choice([changed for changed in ill if changed != note])
        return Case(bundle.data(), {TAMPERED}, f"another form of the head: {header['checkpoint'][:200]!r}")
    header["checkpoint"] = rng.choice(well)
    return Case(bundle.data(), {OK}, "more signatures or extension lines in the head", "head_lines")


def other_key_id(rng, world, bundle):
    """The key id of an attestation in its older form, or naming another key."""
    record = rng.choice(bundle.of("attestation"))
    mark, key = record["envelope"]["signatures"][0], world.attestation_key
    older = f"{world.origin}+{key.key_id(world.origin).hex()}"
    hint = key.digest(world.origin).hex()
    if rng.random() < 0.4:
        mark["keyid"] = older if mark["keyid"] != older else hint
        return Case(bundle.data(), {OK}, "the key id in its other form", "key_id_form")
    mark["keyid"] = rng.choice([hint.upper(), hint[:8], hint + "0", older.upper(), older + " ", " " + older, "", "+", world.origin,
                                world.log_key.digest(world.origin).hex(), world.foreign_key.digest(world.origin).hex(), "\u00e9"])
    return Case(bundle.data(), {UNTRUSTED}, f"the key id {mark['keyid']!r}")


ANYWHERE = [(respell_line, 24), (no_utf8, 2), (frame, 8), (capital_hash, 2), (respell_entry, 8), (respell_note, 12)]
OF_PROMOTIONS = [(other_base64, 3), (respell_statement, 3), (other_key_id, 4)]
