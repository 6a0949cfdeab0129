// Reads the canonical form of evidence entries and refuses every other spelling (docs/evidence.md, "An entry"). What
// is accepted has exactly one spelling, so that two readers never see different things in the same bytes.

import { textOf, utf8 } from './bytes';
import { isOneNumber } from './numbers';

export type Value = null | boolean | number | string | Value[] | Members;
export type Members = { [name: string]: Value };

export const MAX_ENTRY_BYTES = 65_535;
const MAX_DEPTH = 32;
const KEY = /^[a-z][a-z0-9_]{0,63}$/;
const INTEGER = /(?:0|-?[1-9][0-9]{0,15})/y;
const ESCAPES: Record<string, string> = { '"': '"', '\\': '\\', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' };

/** What is wrong with bytes, in words that name the byte. */
export class NotCanonical extends Error {}

/** The value of bytes in canonical form. Throws NotCanonical for all others. */
export function parseCanonical(bytes: Uint8Array): Value {
  if (bytes.length > MAX_ENTRY_BYTES) throw new NotCanonical('it has more than 65,535 bytes');
  const text = textOf(bytes);
  if (text === undefined) throw new NotCanonical('it is not UTF-8');
  return new Parser(text).document();
}

/** An object without a prototype: a name such as "constructor" finds nothing that the document does not have. */
function noMembers(): Members {
  return Object.create(null) as Members;
}

class Parser {
  private at = 0;

  constructor(private readonly text: string) {}

  document(): Value {
    const value = this.value(0);
    if (this.at !== this.text.length) this.refuse('bytes after its end');
    return value;
  }

  private refuse(what: string): never {
    const byte = utf8(this.text.slice(0, this.at)).length;
    throw new NotCanonical(`it has ${what} at byte ${byte}`);
  }

  private take(c: string): boolean {
    if (this.text[this.at] !== c) return false;
    this.at++;
    return true;
  }

  private value(depth: number): Value {
    switch (this.text[this.at]) {
      case undefined:
        return this.refuse('an early end');
      case '{':
        return this.object(depth);
      case '[':
        return this.array(depth);
      case '"':
        return this.string();
      case 't':
        return this.word('true', true);
      case 'f':
        return this.word('false', false);
      case 'n':
        return this.word('null', null);
      default:
        return this.integer();
    }
  }

  private word(spelled: string, meant: Value): Value {
    if (!this.text.startsWith(spelled, this.at)) this.refuse('an unknown word');
    this.at += spelled.length;
    return meant;
  }

  private integer(): number {
    INTEGER.lastIndex = this.at;
    const found = INTEGER.exec(this.text)?.[0];
    if (found === undefined) this.refuse('something that is no integer');
    const next = this.text[this.at + found.length];
    if (next !== undefined && /[0-9.eE+-]/.test(next)) this.refuse('a number that is no integer to 2^53');
    const value = Number(found);
    if (!Number.isSafeInteger(value)) this.refuse('an integer beyond 2^53 − 1');
    this.at += found.length;
    return value;
  }

  private string(): string {
    this.at++;
    let content = '';
    for (;;) {
      const c = this.text[this.at];
      if (c === undefined) return this.refuse('a string without its end');
      if (c === '"') {
        this.at++;
        return content;
      }
      if (c < ' ') this.refuse('a bare control character');
      content += c === '\\' ? this.escaped() : c;
      if (c !== '\\') this.at++;
    }
  }

  /** Only the escapes that RFC 8785 writes: the short ones, and \u00XX for other control characters. */
  private escaped(): string {
    const letter = this.text[this.at + 1] ?? '';
    const short = Object.hasOwn(ESCAPES, letter) ? ESCAPES[letter] : undefined;
    if (short !== undefined) {
      this.at += 2;
      return short;
    }
    const digits = this.text.slice(this.at + 2, this.at + 6);
    const character = String.fromCharCode(parseInt(digits, 16));
    const isNeeded = /^00[01][0-9a-f]$/.test(digits) && !'\b\f\n\r\t'.includes(character);
    if (letter !== 'u' || !isNeeded) this.refuse('an escape that is not canonical');
    this.at += 6;
    return character;
  }

  private array(depth: number): Value[] {
    if (depth >= MAX_DEPTH) this.refuse('more than 32 nested values');
    this.at++;
    const items: Value[] = [];
    if (this.take(']')) return items;
    for (;;) {
      items.push(this.value(depth + 1));
      if (this.take(']')) return items;
      if (!this.take(',')) this.refuse("a list without ',' or ']'");
    }
  }

  private object(depth: number): Members {
    if (depth >= MAX_DEPTH) this.refuse('more than 32 nested values');
    const begin = this.at++;
    const members = noMembers();
    let before = '';
    for (let more = !this.take('}'); more; ) {
      before = this.member(members, before, depth);
      more = !this.take('}');
      if (more && !this.take(',')) this.refuse("an object without ',' or '}'");
    }
    this.checkMeasured(members, begin);
    return members;
  }

  private member(members: Members, before: string, depth: number): string {
    if (this.text[this.at] !== '"') this.refuse("an object without a key");
    const end = this.text.indexOf('"', this.at + 1);
    const key = this.text.slice(this.at + 1, end < 0 ? undefined : end);
    if (end < 0 || !KEY.test(key)) this.refuse('a key that is not [a-z][a-z0-9_]{0,63}');
    if (key <= before) this.refuse('keys that are doubled or not sorted');
    this.at = end + 1;
    if (!this.take(':')) this.refuse("a key without ':'");
    members[key] = this.value(depth + 1);
    return key;
  }

  private checkMeasured(members: Members, begin: number): void {
    if (Object.keys(members).length !== 2 || !('dec' in members) || !('hex' in members)) return;
    const { dec, hex } = members;
    if (typeof dec === 'string' && typeof hex === 'string' && isOneNumber(dec, hex)) return;
    this.at = begin;
    this.refuse('a measured number whose dec and hex differ');
  }
}
