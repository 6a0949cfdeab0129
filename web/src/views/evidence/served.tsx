// What served a model when: its applied routes as a timeline, and for a moment what served and why.

import { useMemo, useState } from 'preact/hooks';
import { request, withQuery } from '../../api/client';
import { useList, useResource } from '../../api/resource';
import type { Entry, Model, Page } from '../../api/types';
import { Link, segment, setQuery } from '../../app/router';
import { Button } from '../../ui/button';
import { Chip } from '../../ui/chip';
import { clock, count, duration, percent, plural, utc, words } from '../../ui/format';
import { Digest, Name, Sentence } from '../../ui/name';
import { Empty, Facts, Loaded, More, Section } from '../../ui/page';
import { Table } from '../../ui/table';
import { Clock } from '../../ui/time';
import { localTime, microseconds } from './filters';
import { type Axis, boxesOf, placeOf, type Segment, segmentsOf, timeAt } from './timeline';

const WIDTH = 1000;
const HEIGHT = 120;

export function Served({ query }: { query: URLSearchParams }) {
  const models = useResource<Page<Model>>('/v1/models?limit=500');
  const model = query.get('model') ?? models.data?.items[0]?.name ?? '';
  return (
    <>
      <Loaded of={models}>
        {({ items }) => items.length === 0
          ? <Empty title="No model has been installed yet" />
          : <ModelChoice model={model} names={items.map(({ name }) => name)} />}
      </Loaded>
      {model && <Timeline key={model} model={model} query={query} />}
    </>
  );
}

function ModelChoice({ model, names }: { model: string; names: string[] }) {
  const all = names.includes(model) ? names : [model, ...names];
  return (
    <div class="filters">
      <div class="field">
        <label for="served-model">Model</label>
        <select id="served-model" value={model} onChange={(event) => setQuery({ model: event.currentTarget.value, at: null })}>
          {all.map((name) => <option key={name} value={name}>{name}</option>)}
        </select>
      </div>
    </div>
  );
}

function Timeline({ model, query }: { model: string; query: URLSearchParams }) {
  const list = useList<Entry>(withQuery('/v1/evidence', { model, kind: 'route_applied', order: 'newest' }), { limit: 200 });
  const segments = useMemo(() => segmentsOf(list.data ?? [], Date.now() * 1000), [list.data]);
  const at = microseconds(query.get('at'));
  return (
    <>
      <Section title="What served when">
        <Loaded of={list}>
          {() => segments.length === 0
            ? <Empty title="No route of this model has been applied" />
            : <><Picture segments={segments} atUs={at} /><Segments segments={segments} /></>}
        </Loaded>
        <More of={list} />
      </Section>
      <At model={model} at={query.get('at') ?? ''} />
    </>
  );
}

/** The time of a moment as the address has it. */
const choose = (us: number) => setQuery({ at: localTime(us), seq: null, check: null });

function Picture({ segments, atUs }: { segments: Segment[]; atUs: number | undefined }) {
  const [axis, setAxis] = useState<Axis>('stretched');
  const [first, last] = [segments[0], segments.at(-1)];
  if (!first || !last) return null;
  const click = (event: MouseEvent & { currentTarget: SVGSVGElement }) => {
    const box = event.currentTarget.getBoundingClientRect();
    choose(timeAt(segments, axis, (event.clientX - box.left) / Math.max(box.width, 1)));
  };
  const marked = atUs === undefined ? undefined : placeOf(segments, axis, atUs);
  return (
    <figure class="served-picture" aria-label={`Shares of traffic from ${clock(first.fromUs)} until now, in ${plural(segments.length, 'applied route')}; the table below has each of them`}>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="presentation" onClick={click}>
        {boxesOf(segments, axis, WIDTH, HEIGHT).map(({ seq, role, x, y, width, height }) => <rect key={`${seq} ${role}`} class={`served-${role}`} x={x} y={y} width={width} height={height} />)}
        {marked !== undefined && <line class="served-at" x1={marked * WIDTH} x2={marked * WIDTH} y1={0} y2={HEIGHT} />}
      </svg>
      <figcaption class="row small muted">
        <span>{clock(first.fromUs)}</span>
        <span class="legend"><span class="swatch served-incumbent" /> incumbent <span class="swatch served-candidate" /> candidate <span class="swatch served-fallback" /> fallback</span>
        <label class="axis"><input type="checkbox" checked={axis === 'stretched'} onChange={(event) => setAxis(event.currentTarget.checked ? 'stretched' : 'true')} /> short steps stretched</label>
        <span>{clock(last.untilUs)}</span>
      </figcaption>
    </figure>
  );
}

function Segments({ segments }: { segments: Segment[] }) {
  const [all, setAll] = useState(false);
  const newest = [...segments].reverse();
  const rows = all ? newest : newest.slice(0, 12);
  return (
    <>
      <Table caption="Applied routes, newest first" rows={rows} id={({ seq }) => String(seq)} columns={[
        { head: 'From', header: true, cell: ({ fromUs }) => <Clock us={fromUs} /> },
        { head: 'For', cell: ({ fromUs, untilUs }) => duration((untilUs - fromUs) / 1e6) },
        { head: 'Served', cell: ({ arms, slices }) => <>{arms.map(({ role, version, kernel, shareBp }) => (
          <p key={role} class="arm"><span class={`swatch served-${role}`} /> {percent(shareBp)} {role}: <Name>{kernel}</Name> <span class="muted small"><Name>{version}</Name></span></p>))}
          {slices > 0 && <p class="muted small">{plural(slices, 'slice')} with a share of its own</p>}</> },
        { head: 'Mirrored', numeric: true, cell: ({ mirrorBp }) => (mirrorBp > 0 ? percent(mirrorBp) : '–') },
        { head: 'Entry', numeric: true, cell: ({ seq }) => <Link to={`/evidence?seq=${seq}`}>{count(seq)}</Link> },
        { head: 'Why', cell: ({ fromUs, seq }) => <Button kind="link" label={`What and why, from entry ${seq} on`} onClick={() => choose(fromUs)}>What and why</Button> },
      ]} />
      {!all && newest.length > rows.length && <p class="more"><Button onClick={() => setAll(true)}>Show all {count(newest.length)}</Button></p>}
    </>
  );
}

interface Place {
  seq: number;
  time_us: number;
  reason?: string;
}

interface Given {
  seq: number;
  actor: string;
  reason?: string;
  clause?: string;
  decision?: string;
}

interface Origin {
  how: 'promotion' | 'bootstrap';
  seq?: number;
  actor?: string;
  reason?: string;
  claim?: string;
  promotion?: string;
  contract?: string;
  checkpoint?: string;
  requester?: string;
  requested?: Place;
  approvals?: Given[];
  waivers?: Given[];
  verdicts?: { seq: number; stage: string; verdict: string; scope?: string; clause?: string }[];
}

interface ServedAt {
  model: string;
  time_us: number;
  tree_size: number;
  applied: Place;
  served: { allowed: boolean; role: string; version: string; kernel?: string; share_bp: number; since: Place | null; origin: Origin | null }[];
}

function At({ model, at }: { model: string; at: string }) {
  const us = microseconds(at);
  const resource = useResource<ServedAt>(us === undefined ? null : withQuery('/v1/audit/at', { model, time_us: us }),
    { read: (path, signal) => request<ServedAt>(path, { signal }) });
  const submit = (event: Event) => {
    event.preventDefault();
    const field = (event.currentTarget as HTMLFormElement).elements.namedItem('at');
    if (field instanceof HTMLInputElement) setQuery({ at: field.value || null });
  };
  return (
    <Section title="What served at a moment, and why">
      <form class="filters" onSubmit={submit}>
        <div class="field"><label for="served-at">Moment, in your time zone</label><input id="served-at" name="at" key={at} type="datetime-local" step={1} defaultValue={at} /></div>
        <div class="filter-buttons"><Button type="submit">Ask</Button></div>
      </form>
      {us === undefined ? <p class="muted">Choose a moment, or a place in the timeline.</p> : (
        <Loaded of={resource}>
          {(found) => (
            <>
              <p>At {utc(found.time_us)} by the route of <Link to={`/evidence?seq=${found.applied.seq}`}>entry {count(found.applied.seq)}</Link>, in a log of {count(found.tree_size)} entries.</p>
              {found.served.map((one) => <ServedVersion key={one.role} of={one} />)}
            </>
          )}
        </Loaded>
      )}
    </Section>
  );
}

function ServedVersion({ of }: { of: ServedAt['served'][number] }) {
  const { allowed, role, version, kernel, share_bp, since, origin } = of;
  return (
    <div class="served-version">
      <h3>{percent(share_bp)} {role}: <Name>{kernel ?? version}</Name> {!allowed && <Chip tone="bad" icon="error">served without leave</Chip>}</h3>
      <Facts items={[
        ['Version', <Name>{version}</Name>],
        ...(since ? [['Since', <><Clock us={since.time_us} /> (<Link to={`/evidence?seq=${since.seq}`}>entry {count(since.seq)}</Link>)</>] as [string, preact.ComponentChildren]] : []),
        ...(origin?.checkpoint ? [['Checkpoint', <Digest>{origin.checkpoint}</Digest>] as [string, preact.ComponentChildren]] : []),
      ]} />
      {origin ? <OriginOf of={origin} /> : <p class="fault">Nothing in the log says how it came to serve.</p>}
    </div>
  );
}

function OriginOf({ of }: { of: Origin }) {
  if (of.how === 'bootstrap') {
    return <p>Installed without a promotion by <Name>{of.actor}</Name> (<Link to={`/evidence?seq=${of.seq}`}>entry {count(of.seq)}</Link>): <Sentence>{of.reason}</Sentence></p>;
  }
  const stages = (of.verdicts ?? []).filter(({ scope }) => scope === 'stage');
  return (
    <ul>
      <li>By <Link to={`/p/${segment(of.promotion ?? '')}`}>promotion <Name>{of.promotion}</Name></Link>, asked for by <Name>{of.requester}</Name>{of.requested && <> (<Link to={`/evidence?seq=${of.requested.seq}`}>entry {count(of.requested.seq)}</Link>)</>}
        {of.contract && <>, under <Link to={`/c/${segment(of.contract)}`}>its contract</Link></>}.</li>
      {stages.map(({ seq, stage, verdict }) => <li key={seq}><Name>{stage}</Name>: {words(verdict)} (<Link to={`/evidence?seq=${seq}`}>entry {count(seq)}</Link>)</li>)}
      {(of.approvals ?? []).map((one) => <li key={one.seq}>{words(one.decision ?? 'approve')} by <Name>{one.actor}</Name> (<Link to={`/evidence?seq=${one.seq}`}>entry {count(one.seq)}</Link>): <Sentence>{one.reason}</Sentence></li>)}
      {(of.waivers ?? []).map((one) => <li key={one.seq}>Waiver of <Name>{one.clause}</Name> by <Name>{one.actor}</Name> (<Link to={`/evidence?seq=${one.seq}`}>entry {count(one.seq)}</Link>): <Sentence>{one.reason}</Sentence></li>)}
    </ul>
  );
}
