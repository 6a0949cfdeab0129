import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { concat, fromBase64, fromHex, textOf, toBase64, utf8 } from '../../src/proof/bytes';
import { MAX_ENTRY_BYTES, NotCanonical, parseCanonical } from '../../src/proof/canonical';
import { readEntry } from '../../src/proof/entry';
import { decimalOfDouble, doubleOfHex } from '../../src/proof/numbers';
import { fixtures, numbersFrom, ROOT } from './log';

const refuses = (bytes: Uint8Array | string) =>
  assert.throws(() => parseCanonical(typeof bytes === 'string' ? utf8(bytes) : bytes), NotCanonical, String(bytes));

/** What the other verifier, in Python, says of each text: whether it takes it, or what it writes for a number. */
function python(program: string, inputs: string[]): string[] {
  const source = `import sys, json\nsys.path.insert(0, sys.argv[1])\nimport verify_bundle as v\n${program}`;
  const result = spawnSync('python3', ['-c', source, join(ROOT, 'scripts')], { input: JSON.stringify(inputs), encoding: 'utf8', maxBuffer: 1 << 26 });
  assert.equal(result.status, 0, result.stderr);
  return JSON.parse(result.stdout) as string[];
}

test('the canonical form and nothing else', () => {
  assert.deepEqual(parseCanonical(utf8('[0,-1,9007199254740991,"\\u0001\\b\\"\\\\é😀",null,true,false,[],{}]')),
    [0, -1, 9007199254740991, '\u0001\b"\\é😀', null, true, false, [], Object.create(null)]);
  for (const text of ['', ' 1', '1 ', '{"a":1,"a":2}', '{"b":1,"a":2}', '{"A":1}', '{"":1}', '{"a" :1}', '[1, 2]', '[1,]', '[', '{"a"', '-0', '01',
    '1.0', '1e3', '9007199254740992', '+1', '"\\/"', '"\\u0041"', '"\\u000a"', '"\\U0001"', '"\\u001F"', '"\n"', '"a', 'nul', 'truefalse', '\ufeff{}',
    '{"dec":"0.1","hex":"3fb999999999999b"}', '{"dec":"0.10","hex":"3fb999999999999a"}', `{"${'a'.repeat(65)}":1}`, `${'['.repeat(33)}${']'.repeat(33)}`]) {
    refuses(text);
  }
  refuses(concat(utf8('"'), Uint8Array.of(0xff), utf8('"')));
  refuses(concat(utf8('"'), Uint8Array.of(0xc0, 0x80), utf8('"')));
  refuses(concat(utf8('"'), Uint8Array.of(0xed, 0xa0, 0x80), utf8('"')));
  refuses(`"${'a'.repeat(MAX_ENTRY_BYTES)}"`);
  assert.ok(parseCanonical(utf8(`${'['.repeat(32)}${']'.repeat(32)}`)));
});

test('a fault names its byte', () => {
  assert.throws(() => parseCanonical(utf8('{"a":"é", "b":1}')), /byte 10/);
});

test('measured numbers: decimal and bits', () => {
  for (const value of [0, -0, 1, -1, 0.1, 1e21, 1e22, 123456789012345680000, 1e-7, 5e-324, 1.7976931348623157e308, 2 ** 53, 2 ** 60, 0.0001, 100000, 1e5,
    NaN, Infinity, -Infinity]) {
    const bits = Buffer.alloc(8);
    bits.writeDoubleBE(value);
    assert.ok(Object.is(doubleOfHex(bits.toString('hex')), value));
    assert.ok(Object.is(Number(decimalOfDouble(value)), value));
  }
  assert.equal(doubleOfHex('7ff8000000000001'), undefined);
  assert.equal(doubleOfHex('3FF0000000000000'), undefined);
});

test('the shortest decimal is that of the other verifier, for doubles of all sizes', () => {
  const random = numbersFrom(7);
  const bits = Array.from({ length: 4000 }, () => {
    const exponent = [random(2047), 1023 + random(80), 1023 - random(80)][random(3)]!;
    const mantissa = random(3) === 0 ? 0n : (BigInt(random(2 ** 20)) << 32n) | BigInt(random(2 ** 32));
    return ((BigInt(random(2)) << 63n) | (BigInt(exponent) << 52n) | mantissa).toString(16).padStart(16, '0');
  });
  const others = python('print(json.dumps([v.shortest(v.from_bits(one)) for one in json.load(sys.stdin)]))', bits);
  bits.forEach((one, i) => assert.equal(decimalOfDouble(doubleOfHex(one)!), others[i], one));
});

test('every entry of a real log is read', () => {
  fixtures().entries.forEach((source, seq) => assert.equal(readEntry(utf8(source)).seq, seq));
});

test('changed entries are taken or refused as the other verifier does', () => {
  const random = numbersFrom(11);
  const sources = fixtures().entries;
  const pieces = ['"', '\\', ',', ':', '{', '}', '[', ']', '0', '-', '.', 'e', ' ', 'a', 'é', '\u0001', '1', '9007199254740993', 'null', '{}', '"v":1', '\\u0041', '\\n'];
  const changed = Array.from({ length: 4000 }, () => {
    const source = sources[random(sources.length)]!;
    const at = random(source.length);
    const piece = pieces[random(pieces.length)]!;
    const cut = random(3);
    return source.slice(0, at) + (random(4) === 0 ? '' : piece) + source.slice(at + cut);
  });
  const program = `
class All:
    def __contains__(self, kind): return True
v.KINDS = All()  # the kinds are not checked here
def taken(source):
    try:
        v.read_entry(source, json.loads(source)["seq"])
        return "taken"
    except v.BROKEN:
        return "refused"
print(json.dumps([taken(one) for one in json.load(sys.stdin)]))`;
  const others = python(program, [...sources, ...changed]);
  let taken = 0;
  [...sources, ...changed].forEach((source, i) => {
    let mine = 'taken';
    try {
      readEntry(utf8(source));
      taken++;
    } catch (error) {
      assert.ok(error instanceof NotCanonical);
      mine = 'refused';
    }
    assert.equal(mine, others[i], source);
  });
  assert.ok(taken > sources.length + 200, `${taken} taken`);
});

test('strict hexadecimal, base 64 and UTF-8', () => {
  assert.deepEqual(fromHex('00ff'), Uint8Array.of(0, 255));
  for (const text of ['0', 'FF', 'zz', ' 00']) assert.equal(fromHex(text), undefined);
  assert.deepEqual(fromBase64(toBase64(Uint8Array.of(1, 2, 3, 250))), Uint8Array.of(1, 2, 3, 250));
  for (const text of ['AB==', 'A', 'AA=', 'AAA', 'A A=', 'AAAA\n', '____']) assert.equal(fromBase64(text), undefined, text);
  assert.equal(textOf(Uint8Array.of(0xef, 0xbb, 0xbf)), '\ufeff');
});
