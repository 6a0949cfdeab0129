// What another version of a contract demands otherwise.

import { withQuery } from '../../api/client';
import { useResource } from '../../api/resource';
import type { Contract } from '../../api/types';
import { Link, segment, setQuery } from '../../app/router';
import { Chip, type Tone } from '../../ui/chip';
import { clock, plural } from '../../ui/format';
import type { IconName } from '../../ui/icons';
import { Digest, Name, Sentence, shortDigest, visible } from '../../ui/name';
import { Empty, Loaded, Section } from '../../ui/page';
import { Table } from '../../ui/table';

export interface Change {
  change: 'stricter' | 'looser' | 'new' | 'gone' | 'changed';
  where: string;
  text: string;
  before?: unknown;
  after?: unknown;
}

interface Difference {
  from: { digest: string; name: string };
  to: { digest: string; name: string };
  changes: Change[];
}

/** What lets more through comes first. */
const ORDER: Change['change'][] = ['gone', 'looser', 'changed', 'stricter', 'new'];
const LOOKS: Record<Change['change'], [Tone, IconName]> = {
  gone: ['bad', 'violated'], looser: ['warn', 'inconclusive'], changed: ['info', 'info'], stricter: ['good', 'pass'], new: ['good', 'pass'],
};

export function sortedChanges(changes: readonly Change[]): Change[] {
  const rank = ({ change }: Change) => (ORDER.includes(change) ? ORDER.indexOf(change) : ORDER.length);
  return [...changes].sort((a, b) => rank(a) - rank(b));
}

/** A value of a contract as text; long ones are cut. */
function shown(value: unknown): string {
  if (value === null || value === undefined) return '–';
  const text = typeof value === 'string' ? value : JSON.stringify(value) ?? '–';
  return text.length > 300 ? `${text.slice(0, 300)}…` : text;
}

export function Compare({ digest, name, others, other }: { digest: string; name: string; others: Contract[]; other: string }) {
  const versions = others.filter((one) => one.digest !== digest).sort((a, b) => Number(b.name === name) - Number(a.name === name) || (b.registered_us ?? 0) - (a.registered_us ?? 0));
  return (
    <Section title="Compare with another version" id="compare">
      {versions.length === 0 && !other ? <p class="muted">No other contract has been registered.</p> : (
        <div class="field">
          <label for="compare-with">What this contract demands otherwise than</label>
          <select id="compare-with" value={other} onChange={(event) => setQuery({ with: event.currentTarget.value || null })}>
            <option value="">choose a version</option>
            {other && !versions.some((one) => one.digest === other) && <option value={other}>{visible(shortDigest(other))}</option>}
            {versions.map((one) => <option key={one.digest} value={one.digest}>{visible(one.name)} {shortDigest(one.digest)}{one.registered_us ? `, ${clock(one.registered_us)}` : ''}</option>)}
          </select>
        </div>
      )}
      {other && <Changes key={other} from={other} to={digest} />}
    </Section>
  );
}

function Changes({ from, to }: { from: string; to: string }) {
  const found = useResource<Difference>(withQuery(`/v1/contracts/${encodeURIComponent(from)}/diff`, { with: to }));
  return (
    <Loaded of={found}>
      {(difference) => (
        <>
          <p>From <Link to={`/c/${segment(difference.from.digest)}`}><Name>{difference.from.name}</Name></Link> <Digest>{difference.from.digest}</Digest> to <Name>{difference.to.name}</Name> <Digest>{difference.to.digest}</Digest>: {plural(difference.changes.length, 'change')}.</p>
          {difference.changes.length === 0 ? <Empty title="Both demand the same" /> : (
            <Table caption="Changes" rows={sortedChanges(difference.changes)} id={(one) => `${one.change} ${one.where} ${one.text}`} columns={[
              { head: 'Change', cell: ({ change }) => { const [tone, icon] = LOOKS[change] ?? ['quiet', 'info']; return <Chip tone={tone} icon={icon}>{change}</Chip>; } },
              { head: 'Where', header: true, cell: ({ where }) => <Name>{where}</Name> },
              { head: 'What', cell: ({ text }) => <Sentence>{text}</Sentence> },
              { head: 'Before', cell: ({ before }) => <code class="value"><bdi>{visible(shown(before))}</bdi></code> },
              { head: 'After', cell: ({ after }) => <code class="value"><bdi>{visible(shown(after))}</bdi></code> },
            ]} />
          )}
        </>
      )}
    </Loaded>
  );
}
