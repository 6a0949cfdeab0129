// Population, sample and export: the questions of an audit beside the list of entries.

import { useState } from 'preact/hooks';
import { sha256 } from '@noble/hashes/sha2.js';
import { asProblem, type Problem, respond, withQuery } from '../../api/client';
import { useList, useResource } from '../../api/resource';
import type { Entry } from '../../api/types';
import { Link, segment, setQuery } from '../../app/router';
import { toHex, utf8 } from '../../proof/bytes';
import { checkCompleteness } from '../../proof/population';
import { Button } from '../../ui/button';
import { Chip } from '../../ui/chip';
import { count, plural, words } from '../../ui/format';
import { Icon } from '../../ui/icons';
import { Command, Name, visible } from '../../ui/name';
import { Empty, ErrorBox, Loaded, More } from '../../ui/page';
import { Table } from '../../ui/table';
import { Clock } from '../../ui/time';
import { save } from './download';
import { EntryTable } from './entries';
import { apiFilters, Filters, localTime, microseconds } from './filters';
import { iconOf } from './pinned';
import { keptHeads, pinnedKeys } from './store';

const DAY_US = 86_400_000_000;

function range(query: URLSearchParams): { from: number; to: number } | undefined {
  const [from, to] = [microseconds(query.get('from')), microseconds(query.get('to'))];
  return from !== undefined && to !== undefined && from <= to ? { from, to } : undefined;
}

/** A form for a range of time; what is asked is recorded in the log, so that it asks only when told to. */
function RangeForm({ query, button, extra }: { query: URLSearchParams; button: string; extra?: preact.ComponentChildren }) {
  const now = Date.now() * 1000;
  const [from, setFrom] = useState(query.get('from') ?? localTime(now - 90 * DAY_US));
  const [to, setTo] = useState(query.get('to') ?? localTime(now + DAY_US));
  const wrong = (microseconds(from) ?? 0) > (microseconds(to) ?? 0);
  const submit = (event: Event) => {
    event.preventDefault();
    if (!wrong) setQuery({ from, to });
  };
  return (
    <form class="filters" onSubmit={submit}>
      <div class="field"><label for="range-from">From</label><input id="range-from" type="datetime-local" step={1} required value={from} onInput={(event) => setFrom(event.currentTarget.value)} /></div>
      <div class="field"><label for="range-to">Before</label><input id="range-to" type="datetime-local" step={1} required value={to} onInput={(event) => setTo(event.currentTarget.value)} /></div>
      {extra}
      <div class="filter-buttons"><Button type="submit" refused={wrong ? 'The range must begin before it ends.' : null}>{button}</Button></div>
    </form>
  );
}

interface Began {
  seq: number;
  time_us: number;
  how: string;
  model?: string;
  version?: string;
  role?: string;
  promotion?: string;
  contract?: string;
}

/** Every version that began to serve in a range, with the proof that the range is whole. */
export function Population({ query }: { query: URLSearchParams }) {
  const asked = range(query);
  return (
    <>
      <p>Every version that started to serve in a range of time: promotions that succeeded, first versions, and what served without leave.</p>
      <RangeForm key={`${query.get('from')}${query.get('to')}`} query={query} button="Ask" />
      {asked && <Began key={`${asked.from}-${asked.to}`} from={asked.from} to={asked.to} model={query.get('model')} />}
    </>
  );
}

function Began({ from, to, model }: { from: number; to: number; model: string | null }) {
  const list = useList<Began>(withQuery('/v1/audit/population', { from_us: String(from), to_us: to, model }), { limit: 100 });
  return (
    <>
      {list.first && <Completeness of={list.first['completeness']} to={to} />}
      <Loaded of={list}>
        {(rows) => rows.length === 0 ? <Empty title="Nothing began to serve in this range" /> : (
          <Table caption="What began to serve" rows={rows} id={({ seq, version }) => `${seq}${version ?? ''}`} columns={[
            { head: 'When', header: true, cell: ({ time_us }) => <Clock us={time_us} /> },
            { head: 'Model', cell: (one) => <Name>{one.model}</Name> },
            { head: 'How', cell: ({ how, role }) => how === 'route' ? <Chip tone="bad" icon="error">{`${role ?? 'served'}, without leave`}</Chip> : words(how) },
            { head: 'Promotion', cell: ({ promotion }) => promotion ? <Link to={`/p/${segment(promotion)}`}><Name>{promotion}</Name></Link> : <span class="muted">none</span> },
            { head: 'Contract', cell: ({ contract }) => contract ? <Link to={`/c/${segment(contract)}`}><code>{visible(contract.slice(0, 19))}…</code></Link> : <span class="muted">none</span> },
            { head: 'Entry', numeric: true, cell: ({ seq }) => <Link to={`/evidence?seq=${seq}`}>{count(seq)}</Link> },
          ]} />
        )}
      </Loaded>
      <More of={list} />
    </>
  );
}

function Completeness({ of, to }: { of: unknown; to: number }) {
  const steps = checkCompleteness(of, pinnedKeys.value, Math.min(to, Date.now() * 1000));
  const broken = steps.some(({ state }) => state === 'broken');
  return (
    <div class={`check-result ${broken ? 'broken' : steps.some(({ state }) => state === 'open') ? 'open' : 'good'}`} role="status">
      <p class="check-sentence">{broken ? 'The answer is not proven to be complete.' : 'Checked here: the part of the log that was answered from is whole. Not checked: that it is the time asked for.'}</p>
      <ul class="standing">{steps.map(({ name, state, text }) => <li key={name} class={state}><Icon name={iconOf(state)} /> <bdi>{visible(text)}</bdi></li>)}</ul>
    </div>
  );
}

interface SampleAnswer {
  seed: string;
  size: number;
  population: number;
  items: { order: string; entry: Entry }[];
}

/** Whether the drawn entries have the order that their seed gives them. */
export function isDrawnBy(seed: string, items: SampleAnswer['items']): boolean {
  return items.every(({ order, entry }, at) =>
    toHex(sha256(utf8(`${seed}:${entry.seq}`))) === order && (at === 0 || (items[at - 1]?.order ?? '') < order));
}

/** Entries drawn by a seed that anybody can draw again. */
export function Sample({ query }: { query: URLSearchParams }) {
  const [seed, setSeed] = useState(query.get('seed') ?? '');
  const [size, setSize] = useState(query.get('count') ?? '25');
  const asked = query.get('seed');
  const path = asked ? withQuery('/v1/audit/sample', { ...apiFilters(query), seed: asked, count: query.get('count') ?? 25 }) : null;
  const found = useResource<SampleAnswer>(path);
  const submit = (event: Event) => {
    event.preventDefault();
    setQuery({ seed, count: size });
  };
  return (
    <>
      <p>The entries with the smallest SHA-256 of seed and number. Choose the seed before you look at the log: a throw of dice, the date of the audit.</p>
      <form class="filters" onSubmit={submit}>
        <div class="field"><label for="sample-seed">Seed</label><input id="sample-seed" value={seed} required maxLength={200} dir="auto" onInput={(event) => setSeed(event.currentTarget.value)} /></div>
        <div class="field"><label for="sample-count">Entries</label><input id="sample-count" type="number" min={1} max={1000} required value={size} onInput={(event) => setSize(event.currentTarget.value)} /></div>
        <div class="filter-buttons"><Button type="submit">Draw</Button></div>
      </form>
      <Filters query={query} />
      {asked && (
        <Loaded of={found}>
          {(answer) => (
            <>
              <p class="row">
                {isDrawnBy(asked, answer.items)
                  ? <Chip tone="warn" icon="inconclusive">in the order of this seed</Chip>
                  : <Chip tone="bad" icon="violated">not in the order of this seed</Chip>}
                <span>{plural(answer.items.length, 'entry', 'entries')} of {count(answer.population)} that match, in a log of {count(answer.size)}. Their order was computed here again. Left-out entries cannot be noticed here: verify the bundle.</span>
              </p>
              <EntryTable rows={answer.items.map(({ entry }) => entry)} query={query} caption="The sample, in the order in which it was drawn" />
            </>
          )}
        </Loaded>
      )}
    </>
  );
}

type Saving = { state: 'asking'; bytes: number } | { state: 'done'; bytes: number; file: string } | { state: 'failed'; problem: Problem };

async function download(path: string, file: string, tell: (saving: Saving) => void): Promise<void> {
  tell({ state: 'asking', bytes: 0 });
  try {
    const response = await respond(path, { unlimited: true });
    const blob = await response.blob();
    save(file, blob);
    tell({ state: 'done', bytes: blob.size, file });
  } catch (error) {
    tell({ state: 'failed', problem: asProblem(error) });
  }
}

/** Bundles as files. */
export function Export({ query }: { query: URLSearchParams }) {
  const [promotion, setPromotion] = useState(query.get('promotion') ?? '');
  const [tables, setTables] = useState(false);
  const [continues, setContinues] = useState(true);
  const [saving, setSaving] = useState<Saving | null>(null);
  const kept = keptHeads()[0];
  const older = continues && kept ? kept.head.size : undefined;
  const busy = saving?.state === 'asking';
  const asked = range(query);
  const ofPromotion = (event: Event) => {
    event.preventDefault();
    const id = promotion.trim();
    void download(withQuery(`/v1/promotions/${segment(id)}/bundle`, { older, tables }), `${id.replace(/[^A-Za-z0-9._-]/g, '_')}.bundle`, setSaving);
  };
  const ofRange = () => {
    if (asked) void download(withQuery('/v1/evidence/export', { from_us: String(asked.from), to_us: asked.to, older }), 'evidence.bundle', setSaving);
  };
  return (
    <>
      <p>A bundle holds entries, proofs, a signed head and attestations. It is verified without this host; making one is itself recorded.</p>
      {kept && <label class="check-line"><input type="checkbox" checked={continues} onChange={(event) => setContinues(event.currentTarget.checked)} /> With the proof that it continues the head of {count(kept.head.size)} entries that this browser kept</label>}
      <form class="filters" onSubmit={ofPromotion}>
        <div class="field"><label for="export-promotion">Promotion</label><input id="export-promotion" value={promotion} required spellcheck={false} onInput={(event) => setPromotion(event.currentTarget.value)} /></div>
        <label class="check-line"><input type="checkbox" checked={tables} onChange={(event) => setTables(event.currentTarget.checked)} /> With measurement tables</label>
        <div class="filter-buttons"><Button type="submit" busy={busy}>Save its bundle</Button></div>
      </form>
      <RangeForm key={`${query.get('from')}${query.get('to')}`} query={query} button="Use this range" />
      {asked && <p><Button onClick={ofRange} busy={busy}>Save the bundle of this range</Button></p>}
      {saving?.state === 'asking' && <p role="status" aria-busy="true">The daemon makes the bundle and verifies it; that takes a while for a long range.</p>}
      {saving?.state === 'done' && <p role="status"><Icon name="pass" /> Saved <Name>{saving.file}</Name>, {count(saving.bytes)} bytes.</p>}
      {saving?.state === 'failed' && <ErrorBox problem={saving.problem} />}
      <p>Verify it on a machine that you trust, with keys that you got by another way:</p>
      <Command>{`driftgate audit verify ${saving?.state === 'done' ? saving.file : 'pr.bundle'} --trust trust.json${older === undefined ? '' : ' --older-head kept.note'}`}</Command>
      {kept && <p><Button kind="link" onClick={() => save('kept.note', kept.head.note, 'text/plain')}>Save the kept head as kept.note</Button></p>}
    </>
  );
}
