import assert from 'node:assert/strict';
import { test } from 'node:test';
import { renderToString } from 'preact-render-to-string';
import { Name, Sentence, shortDigest, visible } from '../../src/ui/name';

test('characters that cannot be seen are written out', () => {
  assert.equal(visible('a\u202eb'), 'a⟨U+202E⟩b');
  assert.equal(visible('a\u200bb\u0000'), 'a⟨U+200B⟩b⟨U+0000⟩');
  assert.equal(visible('a\u{e0041}b'), 'a⟨U+E0041⟩b');
  assert.equal(visible('plain – ünïcode 模型'), 'plain – ünïcode 模型');
});

test('a name is isolated and never markup', () => {
  const html = renderToString(<Name>{'<script>alert(1)</script>\u202e'}</Name>);
  assert.equal(html, '<bdi class="name">&lt;script>alert(1)&lt;/script>⟨U+202E⟩</bdi>');
  assert.match(renderToString(<Sentence>{'a & b'}</Sentence>), /^<bdi class="sentence">a &amp; b<\/bdi>$/);
});

test('only whole digests are shortened', () => {
  const hex = '0123456789abcdef'.repeat(4);
  assert.equal(shortDigest(`sha256:${hex}`), 'sha256:0123456789ab…');
  assert.equal(shortDigest(hex), '0123456789ab…');
  assert.equal(shortDigest(`sha256:${hex}0`), `sha256:${hex}0`);
  assert.equal(shortDigest('ve-1'), 've-1');
});
