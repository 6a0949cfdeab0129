import assert from 'node:assert/strict';
import { test } from 'node:test';
import { render } from 'preact-render-to-string';
import { blocksOf } from '../../src/views/contract/blocks';
import { type Change, sortedChanges } from '../../src/views/contract/compare';
import { ContractText } from '../../src/views/contract/text';
import { versionsBefore } from '../../src/views/contracts/view';

const yaml = 'kind: KernelContract\nnumerical:\n  - id: kl\n    max: 0.1\n  - id: top1\n    max: 0.2\nstages: {}\n';
const clauses = [
  { clause: 'numerical.top1', family: 'numerical', line: 5, text: 'at most 20%', needs: [{ stage: 'offline-numeric', text: 'at least 29 sequences' }] },
  { clause: 'numerical.kl', family: 'numerical', line: 3, text: 'at most 0.1' },
  { clause: 'numerical.lost', family: 'numerical', line: null, text: 'stands nowhere' },
];
const warnings = [{ line: 7, column: 1, pointer: '/stages', message: 'no canary' }, { line: 99, column: 1, pointer: '', message: 'beyond the text' }];

test('every line stands once, and every saying beside its lines', () => {
  const blocks = blocksOf(yaml, clauses, warnings);
  assert.deepEqual(blocks.map(({ first, lines }) => [first, lines.length]), [[1, 2], [3, 2], [5, 2], [7, 1]]);
  assert.equal(blocks.flatMap(({ lines }) => lines).join('\n') + '\n', yaml);
  assert.deepEqual(blocks.map((block) => block.clauses.map(({ clause }) => clause)), [['numerical.lost'], ['numerical.kl'], ['numerical.top1'], []]);
  assert.deepEqual(blocks.map((block) => block.warnings.length), [1, 0, 0, 1]);
  assert.deepEqual(blocksOf('', [], []).map(({ lines }) => lines), [['']]);
});

test('the text beside its meaning', () => {
  const of = { digest: 'sha256:x', name: 'x', yaml, clauses, lint: { valid: false, faults: [{ line: 1, column: 1, pointer: '', message: 'too old' }], warnings },
    stages: [{ stage: 'canary', plan: ['one step', 'a bake'] }, { stage: 'shadow-runtime', text: 'mirrors' }, 'ends', 7], text: 'all\nof it' };
  const html = render(<ContractText of={of} />);
  for (const text of ['numerical.kl', 'at least 29 sequences', 'no canary', 'too old', 'would be refused today', 'one step\na bake', 'mirrors', 'ends']) assert.ok(html.includes(text), text);
});

test('hostile text stays text', () => {
  const bad = '<img src=x onerror=alert(1)>\u202E';
  const html = render(<ContractText of={{ digest: bad, name: bad, yaml: `a: ${bad}\n`, clauses: [{ clause: bad, family: bad, line: 1, text: bad, needs: bad }],
    lint: { warnings: [{ line: 1, column: 1, pointer: bad, message: bad }] }, stages: [bad], text: bad }} />);
  assert.ok(!html.includes('<img') && !html.includes('\u202E'));
});

test('what lets more through comes first', () => {
  const of = (change: Change['change']): Change => ({ change, where: change, text: '' });
  assert.deepEqual(sortedChanges([of('new'), of('stricter'), of('looser'), of('changed'), of('gone')]).map(({ change }) => change), ['gone', 'looser', 'changed', 'stricter', 'new']);
});

test('the version before a contract is the newest older one of its name', () => {
  const of = (digest: string, name: string, registered_us: number) => ({ digest, name, registered_us });
  assert.deepEqual([...versionsBefore([of('c', 'x', 3), of('a', 'x', 1), of('b', 'y', 2)])], [['c', 'a']]);
});
