// The settings in force, read-only.

import { useState } from 'preact/hooks';
import { useResource } from '../../api/resource';
import { may } from '../../api/session';
import type { Setting } from '../../api/types';
import type { ViewProps } from '../../app/router';
import { setQuery } from '../../app/router';
import { Chip } from '../../ui/chip';
import { plural } from '../../ui/format';
import { Name, Sentence, visible } from '../../ui/name';
import { Empty, Loaded, NotAllowed, PageHead, Section } from '../../ui/page';
import { Table, type Column } from '../../ui/table';

function text(value: unknown): string {
  if (value === null || value === undefined) return '–';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

const columns: Column<Setting>[] = [
  { head: 'Setting', header: true, cell: (one) => <code>{visible(one.name)}</code> },
  { head: 'Value', cell: (one) => <><code>{visible(text(one.value)) || '""'}</code>{one.changed && <> <Chip tone="info" icon="info">set</Chip></>}</> },
  { head: 'Default', cell: (one) => <code class="muted">{visible(text(one.default)) || '""'}</code> },
  { head: 'Meaning', cell: (one) => <Sentence>{one.text}</Sentence> },
];

export default function View({ query }: ViewProps) {
  return (
    <>
      <PageHead title="Settings in force" />
      {may('operator') ? <Settings onlySet={query.get('set') === '1'} /> : <NotAllowed scope="operator" what="Reading the settings" />}
    </>
  );
}

function Settings({ onlySet }: { onlySet: boolean }) {
  const [wanted, setWanted] = useState('');
  const settings = useResource<{ items: Setting[] }>('/v1/settings');
  const low = wanted.trim().toLowerCase();
  return (
    <>
      <p class="muted">They are read from the daemon's file when it starts and cannot be changed here. Of secrets only the path of the file is shown.</p>
      <Loaded of={settings}>
        {({ items }) => {
          const shown = items.filter((one) => (!onlySet || one.changed) && (!low || one.name.toLowerCase().includes(low) || one.text.toLowerCase().includes(low)));
          const groups = new Map<string, Setting[]>();
          for (const one of shown) {
            const group = one.name.includes('.') ? one.name.slice(0, one.name.indexOf('.')) : 'general';
            groups.set(group, [...(groups.get(group) ?? []), one]);
          }
          return (
            <>
              <form class="overview-filters" role="search" aria-label="Filter the settings" onSubmit={(event) => event.preventDefault()}>
                <div class="field"><label for="settings-text">Name or meaning</label><input id="settings-text" type="search" value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} /></div>
                <label class="row"><input type="checkbox" checked={onlySet} onChange={(event) => setQuery({ set: event.currentTarget.checked ? '1' : null })} /> Only those that differ from the default</label>
              </form>
              <p class="muted" role="status">{plural(shown.length, 'setting')}</p>
              {shown.length === 0 && <Empty title="No setting matches" />}
              {[...groups].map(([group, list]) => (
                <Section key={group} title={<Name>{group}</Name>}><Table caption={`Settings of ${group}`} columns={columns} rows={list} id={(one) => one.name} class="settings-table" /></Section>
              ))}
            </>
          );
        }}
      </Loaded>
    </>
  );
}
