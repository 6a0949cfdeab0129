// Values of entries as a person reads them: members as a list, measured numbers as numbers.

import type { Members, Value } from '../../proof/canonical';
import { isMeasured } from '../../proof/numbers';
import { isMembers, PROMOTION } from '../../proof/entry';
import { Link, segment } from '../../app/router';
import { clock, count, num, utc } from '../../ui/format';
import { Digest, Name, visible } from '../../ui/name';

const DIGEST = /^sha256:[0-9a-f]{64}$/;
const DEEPEST = 12;

/** The members of an object, one a row. */
export function MemberList({ of, depth = 0 }: { of: Members; depth?: number }) {
  const names = Object.keys(of);
  if (names.length === 0) return <span class="muted">nothing</span>;
  return (
    <dl class="members">
      {names.map((name) => <div key={name}><dt><bdi>{visible(name)}</bdi></dt><dd><Shown name={name} of={of[name] ?? null} depth={depth} /></dd></div>)}
    </dl>
  );
}

function Shown({ name, of, depth }: { name: string; of: Value; depth: number }) {
  if (of === null) return <span class="muted">null</span>;
  if (typeof of === 'boolean') return <code>{String(of)}</code>;
  if (typeof of === 'number') return name.endsWith('_us') && of > 0 ? <time title={utc(of)}>{clock(of)}</time> : <span>{count(of)}</span>;
  if (typeof of === 'string') return <Text name={name} of={of} />;
  if (isMeasured(of)) return <span title={`${of.dec}, bits ${of.hex}`}>{num(numberOf(of.dec), 6)}</span>;
  if (depth >= DEEPEST) return <span class="muted">more, see the bytes</span>;
  if (isMembers(of)) return <MemberList of={of} depth={depth + 1} />;
  if (of.length === 0) return <span class="muted">empty list</span>;
  return <ul class="values">{of.map((item, at) => <li key={at}><Shown name="" of={item} depth={depth + 1} /></li>)}</ul>;
}

function numberOf(dec: string): number {
  return dec === 'Infinity' ? Infinity : dec === '-Infinity' ? -Infinity : Number(dec);
}

function Text({ name, of }: { name: string; of: string }) {
  if (of === '') return <span class="muted">empty</span>;
  if (name === 'contract' && DIGEST.test(of)) return <Link to={`/c/${segment(of)}`}><code title={of}>{of.slice(0, 19)}…</code></Link>;
  if (DIGEST.test(of)) return <Digest>{of}</Digest>;
  if (name === 'promotion' && PROMOTION.test(of)) return <Link to={`/p/${of}`}><Name>{of}</Name></Link>;
  return <Name>{of}</Name>;
}
