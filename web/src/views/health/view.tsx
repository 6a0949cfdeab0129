// Whether the daemon can do its work: its checks, versions, the size and head of the log, webhooks.

import { Problem, request } from '../../api/client';
import { connection, daemon, treeSize } from '../../api/events';
import { useResource } from '../../api/resource';
import { may, session } from '../../api/session';
import type { Webhook } from '../../api/types';
import { ActionButton, webhookAction } from '../../app/actions';
import { Chip } from '../../ui/chip';
import { count } from '../../ui/format';
import { Digest, Name, Sentence } from '../../ui/name';
import { Empty, ErrorBox, Facts, Loaded, PageHead, Section } from '../../ui/page';
import { Table, type Column } from '../../ui/table';
import { Time } from '../../ui/time';
import { useEffect } from 'preact/hooks';

interface Ready {
  ready: boolean;
  checks: { name: string; ok: boolean; detail: string }[];
}

const EVERY_MS = 10_000;

/** A daemon that is not ready answers 503 with the same body, which is an answer here and no failure. */
async function readReady(path: string, signal: AbortSignal): Promise<Ready> {
  const response = await fetch(path, { signal, cache: 'no-store', credentials: 'same-origin' }).catch((error: unknown) => {
    if (signal.aborted) throw error;
    throw new Problem(0, 'unreachable', 'The daemon could not be reached.');
  });
  const body: unknown = await response.json().catch(() => null);
  if (body && typeof body === 'object' && Array.isArray((body as Ready).checks)) return body as Ready;
  throw new Problem(response.status, 'unknown', `The daemon answered with status ${response.status}.`);
}

const checkColumns: Column<Ready['checks'][number]>[] = [
  { head: 'Check', header: true, cell: (one) => <Name>{one.name}</Name> },
  { head: 'State', cell: (one) => (one.ok ? <Chip tone="good" icon="pass">ok</Chip> : <Chip tone="bad" icon="violated">not ok</Chip>) },
  { head: 'Detail', cell: (one) => <Sentence>{one.detail}</Sentence> },
];

/** The signed head: origin, size, root. */
function headOf(note: string): { origin: string; size: string; root: string } | null {
  const [origin, size, root] = note.split('\n');
  return origin && size && root ? { origin, size, root } : null;
}

export default function View() {
  const ready = useResource<Ready>('/readyz', { read: readReady });
  const head = useResource<string>('/v1/log/checkpoint', { read: (path, signal) => request<string>(path, { signal }) });
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) ready.reload();
    }, EVERY_MS);
    return () => clearInterval(timer);
  }, [ready.reload]);
  const server = daemon.value ?? session.value?.server;
  const live = connection.value;
  return (
    <>
      <PageHead title="Health" />
      <Section title="The daemon">
        <Facts items={[
          ['Version', <Name>{server?.version}</Name>],
          ['Started', <Time us={server?.started_us} />],
          ['Live updates', live === 'live' ? <Chip tone="good" icon="pass">connected</Chip> : live === 'away' ? <Chip tone="bad" icon="offline">no answer</Chip> : <Chip tone="quiet" icon="waiting">connecting</Chip>],
          ['Entries in the evidence log', count(treeSize.value ?? Number(headOf(head.data ?? '')?.size ?? NaN))],
        ]} />
      </Section>
      <Section title="Checks">
        <Loaded of={ready}>
          {(data) => (
            <>
              <p>{data.ready ? <Chip tone="good" icon="pass">ready</Chip> : <Chip tone="bad" icon="violated">not ready</Chip>}</p>
              <Table caption="Checks" columns={checkColumns} rows={data.checks} id={(one) => one.name} />
            </>
          )}
        </Loaded>
      </Section>
      <Section title="Head of the log">
        <Loaded of={head}>{(note) => <Head note={note} />}</Loaded>
      </Section>
      <Section title="Webhooks">{may('operator') ? <Webhooks /> : <p class="muted">Seeing them needs the scope operator.</p>}</Section>
    </>
  );
}

function Head({ note }: { note: string }) {
  const head = headOf(note);
  if (!head) return <ErrorBox problem={new Problem(0, 'page', 'The daemon sent no signed note.')} />;
  return (
    <>
      <Facts items={[['Log', <Name>{head.origin}</Name>], ['Size', count(Number(head.size))], ['Root', <Digest>{head.root}</Digest>]]} />
      <details><summary>Signed note</summary><pre tabIndex={0} aria-label="Signed note"><code>{note}</code></pre></details>
      <p class="muted">The signature is checked on the page Evidence, under a key that you bring.</p>
    </>
  );
}

function webhookColumns(onDone: () => void): Column<Webhook>[] {
  return [
    { head: 'Endpoint', header: true, cell: (one) => <><Name>{one.name}</Name><div class="small muted"><Name>{one.url}</Name></div></> },
    { head: 'Events', cell: (one) => one.events.join(', ') || 'all' },
    {
      head: 'State',
      cell: (one) => one.disabled
        ? <><Chip tone="bad" icon="paused">disabled</Chip> <Time us={one.disabled.since_us} />: <Sentence>{one.disabled.reason}</Sentence></>
        : <Chip tone="good" icon="pass">delivers</Chip>,
    },
    { head: 'Pending', numeric: true, cell: (one) => count(one.pending) },
    { head: 'Delivered', numeric: true, cell: (one) => count(one.delivered) },
    { head: 'Failed', numeric: true, cell: (one) => count(one.failed) },
    { head: 'Dropped', numeric: true, cell: (one) => count(one.dropped) },
    { head: 'Last error', cell: (one) => <Sentence>{one.last_error}</Sentence> },
    { head: 'Actions', cell: (one) => <div class="actions"><ActionButton action={webhookAction('test', one)} onDone={onDone} quiet />{one.disabled && <ActionButton action={webhookAction('enable', one)} onDone={onDone} quiet />}</div> },
  ];
}

function Webhooks() {
  const list = useResource<{ items: Webhook[] }>('/v1/webhooks');
  return (
    <Loaded of={list}>
      {({ items }) => items.length ? <Table caption="Webhooks" columns={webhookColumns(list.reload)} rows={items} id={(one) => one.name} /> : <Empty title="No webhook is configured"><p>They stand in the daemon's settings under webhooks.</p></Empty>}
    </Loaded>
  );
}
