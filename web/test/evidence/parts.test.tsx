import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { render } from 'preact-render-to-string';
import type { Entry } from '../../src/api/types';
import { checkEntry } from '../../src/proof/check';
import { utf8 } from '../../src/proof/bytes';
import type { Members } from '../../src/proof/canonical';
import { parseKeys } from '../../src/proof/trust';
import { isDrawnBy } from '../../src/views/evidence/audits';
import { EntryTable } from '../../src/views/evidence/entries';
import { apiFilters, hasFilters, localTime, microseconds } from '../../src/views/evidence/filters';
import { Result, sentenceOf } from '../../src/views/evidence/steps';
import { boxesOf, placeOf, segmentsOf, spansOf, timeAt } from '../../src/views/evidence/timeline';
import { MemberList } from '../../src/views/evidence/value';
import { KINDS, summary } from '../../src/views/evidence/words';
import { fixtures, realLog } from '../proof/log';

const HOSTILE = '<script>alert(1)</script>\u202Eabc';
const entries = fixtures().entries.map((source) => JSON.parse(source) as Entry);

test('a moment of the address and of the API', () => {
  assert.equal(microseconds(null), undefined);
  assert.equal(microseconds('nonsense'), undefined);
  const us = 1_795_347_395_000_000;
  assert.equal(microseconds(localTime(us)), us);
  const query = new URLSearchParams({ kind: 'verdict_reached', from: localTime(us), show: 'sample' });
  assert.deepEqual([apiFilters(query)['kind'], apiFilters(query)['from_us'], apiFilters(query)['to_us']], ['verdict_reached', us, undefined]);
  assert.ok(hasFilters(query) && !hasFilters(new URLSearchParams('show=sample')));
});

test('every kind of a real log is known and said in words', () => {
  for (const entry of entries) {
    assert.ok(KINDS.includes(entry.kind), entry.kind);
    assert.equal(typeof summary(entry), 'string');
  }
  assert.match(summary(entries.find(({ kind, body }) => kind === 'verdict_reached' && !!body['slice'])!), / on /);
});

test('what served when, from the routes of a real log', () => {
  const applied = entries.filter(({ kind }) => kind === 'route_applied');
  const end = applied.at(-1)!.time_us + 60_000_000;
  const segments = segmentsOf([...entries].reverse(), end);
  assert.equal(segments.length, applied.length);
  assert.deepEqual(segments[0]!.arms.map(({ role, shareBp }) => [role, shareBp]), [['incumbent', 10_000]]);
  for (const [at, one] of segments.entries()) {
    assert.equal(one.arms.reduce((sum, { shareBp }) => sum + shareBp, 0), 10_000);
    assert.equal(one.untilUs, segments[at + 1]?.fromUs ?? end);
  }
  for (const axis of ['true', 'stretched'] as const) {
    const spans = spansOf(segments, axis);
    assert.ok(Math.abs(spans.at(-1)![1] - 1) < 1e-9);
    for (const { fromUs, untilUs } of segments) {
      const middle = Math.round((fromUs + untilUs) / 2);
      assert.ok(Math.abs(timeAt(segments, axis, placeOf(segments, axis, middle)!) - middle) < 1000);
    }
    assert.equal(timeAt(segments, axis, -1), segments[0]!.fromUs);
    assert.equal(timeAt(segments, axis, 2), end);
    const boxes = boxesOf(segments, axis, 1000, 120);
    assert.ok(boxes.every(({ x, y, width, height }) => x >= 0 && y >= -1e-9 && width >= 1 && height > 0 && y + height <= 120 + 1e-9));
  }
  assert.equal(placeOf(segments, 'true', end + 1), undefined);
  assert.deepEqual(boxesOf([], 'true', 10, 10), []);
  assert.equal(timeAt([], 'true', 0.5), 0);
});

test('a route that sends everything to the fallback, and one of another form', () => {
  const route = (body: Record<string, unknown>): Entry => ({ v: 1, seq: 1, time_us: 5, kind: 'route_applied', subject: {}, body: { route: body } });
  const version = (name: string) => ({ version: name, kernel: 'k' });
  const fallen = segmentsOf([route({ all_to_fallback: true, candidate_bp: 5000, incumbent: version('a'), candidate: version('b'), fallback: version('c') })], 9);
  assert.deepEqual(fallen[0]!.arms, [{ role: 'fallback', version: 'c', kernel: 'k', shareBp: 10_000 }]);
  assert.deepEqual(segmentsOf([route({ candidate_bp: 'x', incumbent: 7 })], 9)[0]!.arms, []);
});

test('the order of a sample is computed again', () => {
  const order = (seq: number) => createHash('sha256').update(`dice:${seq}`).digest('hex');
  const items = entries.slice(0, 30).map((entry) => ({ order: order(entry.seq), entry })).sort((a, b) => (a.order < b.order ? -1 : 1));
  assert.ok(isDrawnBy('dice', items));
  assert.ok(!isDrawnBy('other', items));
  assert.ok(!isDrawnBy('dice', [...items].reverse()));
  assert.ok(!isDrawnBy('dice', [items[0]!, { ...items[1]!, entry: items[2]!.entry }]));
});

test('the result of a check in words', () => {
  const log = realLog();
  const pinned = { keys: parseKeys(log.key.text), rotations: [] };
  const good = checkEntry({ seq: 4, entry: log.bytes[4]!, proof: log.proof(4) }, pinned);
  assert.equal(sentenceOf(good), 'Verified in this browser.');
  assert.match(render(<Result checked={good} />), /Signed by the key b4475d24/);
  const changed = Uint8Array.from(log.bytes[4]!);
  changed[20]! ^= 1;
  assert.match(sentenceOf(checkEntry({ seq: 4, entry: changed, proof: log.proof(4) }, pinned)), /^Broken at: /);
  assert.match(sentenceOf(checkEntry({ seq: 4, entry: log.bytes[4]!, proof: log.proof(4) }, { keys: [], rotations: [] })), /not checked: signature of the head/);
});

test('names in entries are text, isolated, and show what cannot be seen', () => {
  const hostile: Entry = { v: 1, seq: 1, time_us: 1, kind: HOSTILE, actor: HOSTILE, subject: { model: HOSTILE, promotion: HOSTILE, stage: HOSTILE },
    body: { reason: HOSTILE, verdict: HOSTILE } };
  const html = render(<EntryTable rows={[hostile, { ...hostile, seq: 2, subject: { model: HOSTILE } }]} query={new URLSearchParams()} caption="x" />)
    + render(<MemberList of={{ name: HOSTILE, list: [HOSTILE, { deep: HOSTILE }], contract: HOSTILE } as Members} />);
  assert.ok(!html.includes('<script'));
  assert.ok(!html.replace(/href="[^"]*"/g, '').includes('\u202E'), 'a mark that reorders text is shown, not obeyed');
  assert.ok(utf8(html).length > 100);
});

test('values of entries: counts, measured numbers, times, digests', () => {
  const html = render(<MemberList of={{ clusters: 1234, alpha: { dec: '0.05', hex: '3fa999999999999a' }, at_us: 1795347393962683, nothing: null, list: [], ok: true,
    table: `sha256:${'a'.repeat(64)}`, limit: { dec: 'Infinity', hex: '7ff0000000000000' } } as Members} />);
  for (const text of ['0.05', '∞', 'empty list', 'true', 'null', 'sha256:aaaaaaaaaaaa…']) assert.ok(html.includes(text), text);
});
