// The bytes of the items of a page, cut out of the answer as it was sent: an entry is hashed as the server sent it and
// never written again by this page.

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN = [0x7b, 0x5b]; // { [
const CLOSE = [0x7d, 0x5d]; // } ]
const COMMA = 0x2c;
const SPACES = [0x20, 0x09, 0x0a, 0x0d];

/** The bytes of each element of the list `name` of an object; undefined when there is no such list on its top level. */
export function listItems(document: Uint8Array, name: string): Uint8Array[] | undefined {
  const begin = findList(document, name);
  if (begin === undefined) return undefined;
  const items: Uint8Array[] = [];
  let depth = 0;
  let start = begin + 1;
  for (let at = begin + 1; at < document.length; at++) {
    const byte = document[at] ?? 0;
    if (byte === QUOTE) {
      at = endOfString(document, at);
    } else if (OPEN.includes(byte)) {
      depth++;
    } else if (CLOSE.includes(byte) && depth > 0) {
      depth--;
    } else if (depth === 0 && (byte === COMMA || CLOSE.includes(byte))) {
      const item = trimmed(document.subarray(start, at));
      if (item.length > 0) items.push(item);
      if (byte !== COMMA) return items;
      start = at + 1;
    }
  }
  return undefined;
}

/** The place of the '[' of a member of the outermost object. */
function findList(document: Uint8Array, name: string): number | undefined {
  const wanted = new TextEncoder().encode(`"${name}":`);
  let depth = 0;
  for (let at = 0; at < document.length; at++) {
    const byte = document[at] ?? 0;
    if (byte === QUOTE) {
      const isKey = depth === 1 && wanted.every((one, i) => document[at + i] === one);
      if (isKey) {
        let value = at + wanted.length;
        while (SPACES.includes(document[value] ?? 0)) value++;
        if (document[value] === 0x5b) return value;
      }
      at = endOfString(document, at);
    } else if (OPEN.includes(byte)) {
      depth++;
    } else if (CLOSE.includes(byte)) {
      depth--;
    }
  }
  return undefined;
}

/** The place of the closing quote of the string that begins at `at`. */
function endOfString(document: Uint8Array, at: number): number {
  for (let end = at + 1; end < document.length; end++) {
    if (document[end] === BACKSLASH) end++;
    else if (document[end] === QUOTE) return end;
  }
  return document.length;
}

function trimmed(item: Uint8Array): Uint8Array {
  let [begin, end] = [0, item.length];
  while (begin < end && SPACES.includes(item[begin] ?? 0)) begin++;
  while (end > begin && SPACES.includes(item[end - 1] ?? 0)) end--;
  return item.subarray(begin, end);
}
