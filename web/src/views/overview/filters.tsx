// What is listed, and the filters. All of it stands in the address.

import { useEffect, useRef, useState } from 'preact/hooks';
import { Link, setQuery } from '../../app/router';
import { words } from '../../ui/format';
import { Button } from '../../ui/button';

export type Shown = '' | 'needs' | 'open' | 'all';

export function shownOf(query: URLSearchParams): Shown {
  const value = query.get('show');
  return value === 'needs' || value === 'open' || value === 'all' ? value : '';
}

const STATES = ['queued', 'running', 'paused', 'awaiting_approval', 'inconclusive', 'rolling_back', 'finalizing', 'succeeded', 'rejected', 'errored', 'aborted', 'expired', 'superseded'];
const ORDERS: [string, string][] = [['', 'Newest first'], ['oldest', 'Oldest first'], ['updated', 'Last changed first']];

export interface Tab {
  show: Shown;
  text: string;
  count: number | string | null;
}

export function Tabs({ tabs, shown }: { tabs: Tab[]; shown: Shown }) {
  return (
    <nav class="overview-tabs" aria-label="What is listed">
      {tabs.map(({ show, text, count }) => (
        <Link key={show} to={show ? `/?show=${show}` : '/'} aria-current={show === shown ? 'page' : undefined}>
          {text}{count !== null && <> <span class="overview-count">{count}</span></>}
        </Link>
      ))}
    </nav>
  );
}

const CALM_MS = 300;

/** A field that changes the address a moment after the last key. */
function TextFilter({ name, label, query }: { name: string; label: string; query: URLSearchParams }) {
  const there = query.get(name) ?? '';
  const [text, setText] = useState(there);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const written = useRef(there);
  useEffect(() => {
    if (there !== written.current) setText(there); // changed by the address: back, or a link
    written.current = there;
  }, [there]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const type = (value: string) => {
    setText(value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      written.current = value.trim();
      setQuery({ [name]: written.current }, { replace: true });
    }, CALM_MS);
  };
  return <div class="field"><label for={`filter-${name}`}>{label}</label><input id={`filter-${name}`} type="search" value={text} onInput={(event) => type(event.currentTarget.value)} /></div>;
}

function Choice({ name, label, query, options }: { name: string; label: string; query: URLSearchParams; options: [string, string][] }) {
  return (
    <div class="field">
      <label for={`filter-${name}`}>{label}</label>
      <select id={`filter-${name}`} value={query.get(name) ?? ''} onChange={(event) => setQuery({ [name]: event.currentTarget.value })}>
        {options.map(([value, text]) => <option key={value} value={value}>{text}</option>)}
      </select>
    </div>
  );
}

const MEMBERS = ['q', 'model', 'state', 'requester', 'contract', 'order'];

/** Whether any filter is set that narrows the list. */
export function isFiltered(query: URLSearchParams): boolean {
  return MEMBERS.some((name) => name !== 'order' && query.get(name));
}

export function Filters({ query, shown }: { query: URLSearchParams; shown: Shown }) {
  const all = Object.fromEntries(MEMBERS.map((name) => [name, null]));
  return (
    <form class="overview-filters" role="search" aria-label="Filters" onSubmit={(event) => event.preventDefault()}>
      <TextFilter name="q" label={shown ? 'Text (id, model, engine, contract)' : 'Model'} query={query} />
      {shown && (
        <>
          <TextFilter name="model" label="Model" query={query} />
          {shown === 'all' && <Choice name="state" label="State" query={query} options={[['', 'Any'], ...STATES.map((one): [string, string] => [one, words(one)])]} />}
          <TextFilter name="requester" label="Asked for by" query={query} />
          <TextFilter name="contract" label="Contract" query={query} />
          <Choice name="order" label="Order" query={query} options={ORDERS} />
        </>
      )}
      {isFiltered(query) && <Button onClick={() => setQuery(all)}>Clear</Button>}
    </form>
  );
}
