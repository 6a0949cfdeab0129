#!/usr/bin/env python3
"""Makes docs/api.md from schema/openapi.json. With --check, says whether the page is current (exit 1 if not)."""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "schema" / "openapi.json"
PAGE = ROOT / "docs" / "api.md"


def reference(schema):
    """`Name` with a link, or the type in words."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(reference(item) for item in schema["anyOf"])
    if "allOf" in schema:
        return " and ".join(reference(item) for item in schema["allOf"])
    kind = schema.get("type", "any")
    if kind == "array":
        return "list of " + reference(schema.get("items", {}))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    name = " or ".join(kind) if isinstance(kind, list) else kind
    return f"{name}: {members(schema)}" if "properties" in schema else name


def members(schema):
    """What an object without a name of its own holds, on one line."""
    required = schema.get("required", [])
    return "; ".join(f"`{name}`{'' if name in required else ' (optional)'} {reference(value)}"
                     for name, value in schema["properties"].items())


def cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def operation_lines(method, path, operation):
    yield f"### {method.upper()} {path}"
    yield ""
    scope = operation.get("description", "Open to everyone.")
    yield f"{operation['summary']}. {scope}"
    yield ""
    for parameter in operation.get("parameters", []):
        text = parameter.get("description", "")
        yield f"- `{parameter['name']}` ({parameter['in']}, {reference(parameter['schema'])}){': ' + text if text else ''}"
    if "requestBody" in operation:
        content = operation["requestBody"]["content"]
        yield f"- body: {reference(content['application/json']['schema'])} as {' or '.join(content)}"
    for status, answer in operation["responses"].items():
        if status == "default":
            continue
        content = answer.get("content", {})
        kinds = ", ".join(f"{reference(value['schema'])} as {name}" for name, value in content.items())
        yield f"- **{status}** {answer['description']}{': ' + kinds if kinds else ''}"
    yield ""


def schema_lines(name, schema):
    yield f"### {name}"
    yield ""
    if "description" in schema:
        yield schema["description"]
        yield ""
    properties = schema.get("properties")
    if not properties:
        yield f"{reference(schema)}{' matching `' + schema['pattern'] + '`' if 'pattern' in schema else ''}"
        yield ""
        return
    required = schema.get("required", [])
    yield "| member | type | |"
    yield "| --- | --- | --- |"
    for member, value in properties.items():
        note = value.get("description", "")
        yield f"| `{member}`{'' if member in required else ' (optional)'} | {cell(reference(value))} | {cell(note)} |"
    yield ""


def page(document):
    yield "# API"
    yield ""
    yield "This page is the reference for people who write clients of the daemon's HTTP API. Every command of `driftgate`"
    yield "that takes `--url` calls these operations. The page is generated from `schema/openapi.json` by"
    yield "`scripts/api_docs.py`. What that document says of itself:"
    yield ""
    yield "> " + document["info"]["description"]
    yield ""
    yield "Every error is a [Problem](#problem). Requests carry `Authorization: Bearer dg_…`, or the cookie of a session"
    yield "([roles.md](roles.md#signing-in-with-a-browser)). What a token may do depends on its scopes: every scope implies viewer; admin implies promoter, operator and auditor, and never approver"
    yield "([roles.md](roles.md))."
    yield ""
    tag = None
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if operation["tags"][0] != tag:
                tag = operation["tags"][0]
                yield f"## {tag}"
                yield ""
            yield from operation_lines(method, path, operation)
    yield "## Bodies"
    yield ""
    for name, schema in document["components"]["schemas"].items():
        yield from schema_lines(name, schema)


def main():
    text = "\n".join(page(json.loads(SOURCE.read_text(encoding="utf-8")))).rstrip() + "\n"
    if "--check" in sys.argv[1:]:
        if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
            return 0
        print("docs/api.md is not what schema/openapi.json says: run scripts/api_docs.py", file=sys.stderr)
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
