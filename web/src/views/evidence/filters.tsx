// Which entries are shown. Filters stand in the address, so that a view of the log can be sent to somebody.

import { useEffect, useState } from 'preact/hooks';
import { setQuery } from '../../app/router';
import { Button } from '../../ui/button';
import { words } from '../../ui/format';
import { KINDS, VERDICTS } from './words';

export const FILTERS = ['kind', 'model', 'promotion', 'stage', 'actor', 'clause', 'verdict', 'contract', 'checkpoint', 'kernel', 'from', 'to'] as const;
export type FilterName = (typeof FILTERS)[number];

const STAGES = ['offline-numeric', 'statistical-slice', 'shadow-runtime', 'canary'];
const RARE: readonly FilterName[] = ['stage', 'contract', 'checkpoint', 'kernel'];

/** µs of what a datetime-local field holds, which is a time in the reader's zone; undefined for no time. */
export function microseconds(local: string | null): number | undefined {
  if (!local) return undefined;
  const at = new Date(local).getTime();
  return Number.isNaN(at) || at < 0 ? undefined : at * 1000;
}

/** What a datetime-local field shows for a time. */
export function localTime(us: number): string {
  const at = new Date(us / 1000);
  const moved = new Date(at.getTime() - at.getTimezoneOffset() * 60_000);
  return Number.isNaN(moved.getTime()) ? '' : moved.toISOString().slice(0, 19);
}

/** The filters of the address as the API takes them. */
export function apiFilters(query: URLSearchParams): Record<string, string | number | undefined> {
  const found: Record<string, string | number | undefined> = {};
  for (const name of FILTERS) if (name !== 'from' && name !== 'to') found[name] = query.get(name) ?? undefined;
  found['from_us'] = microseconds(query.get('from'));
  found['to_us'] = microseconds(query.get('to'));
  return found;
}

export function hasFilters(query: URLSearchParams): boolean {
  return FILTERS.some((name) => query.get(name));
}

interface FieldProps {
  name: FilterName;
  label: string;
  value: string;
  onInput: (name: FilterName, value: string) => void;
}

function TextField({ name, label, value, onInput, isTime }: FieldProps & { isTime?: boolean }) {
  const id = `filter-${name}`;
  const input = (event: { currentTarget: HTMLInputElement }) => onInput(name, event.currentTarget.value);
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {isTime
        ? <input id={id} type="datetime-local" step={1} value={value} onInput={input} />
        : <input id={id} type="text" value={value} spellcheck={false} dir="auto" onInput={input} />}
    </div>
  );
}

function Choice({ name, label, value, onInput, options }: FieldProps & { options: readonly string[] }) {
  const all = value === '' || options.includes(value) ? options : [...options, value];
  return (
    <div class="field">
      <label for={`filter-${name}`}>{label}</label>
      <select id={`filter-${name}`} value={value} onChange={(event) => onInput(name, event.currentTarget.value)}>
        <option value="">any</option>
        {all.map((option) => <option key={option} value={option}>{words(option)}</option>)}
      </select>
    </div>
  );
}

type Values = Record<FilterName, string>;
const valuesOf = (query: URLSearchParams) => Object.fromEntries(FILTERS.map((name) => [name, query.get(name) ?? ''])) as Values;

export function Filters({ query, only = FILTERS, children }: { query: URLSearchParams; only?: readonly FilterName[]; children?: preact.ComponentChildren }) {
  const [values, setValues] = useState<Values>(() => valuesOf(query));
  const address = query.toString();
  useEffect(() => setValues(valuesOf(query)), [address]);
  const set = (name: FilterName, value: string) => setValues((old) => ({ ...old, [name]: value }));
  const choose = (name: FilterName, value: string) => {
    set(name, value);
    apply({ ...values, [name]: value });
  };
  const apply = (next: Values) => setQuery({ ...Object.fromEntries(only.map((name) => [name, next[name].trim() || null])), seq: null, check: null });
  const field = (name: FilterName, label: string, isTime = false) => only.includes(name) && (
    <TextField name={name} label={label} value={values[name]} onInput={set} isTime={isTime} />);
  const choice = (name: FilterName, label: string, options: readonly string[]) => only.includes(name) && (
    <Choice name={name} label={label} value={values[name]} onInput={choose} options={options} />);
  const submit = (event: Event) => {
    event.preventDefault();
    apply(values);
  };
  return (
    <form class="filters" onSubmit={submit} role="search" aria-label="Entries">
      {choice('kind', 'Kind', KINDS)}
      {field('model', 'Model')}
      {field('promotion', 'Promotion')}
      {field('actor', 'Actor')}
      {field('clause', 'Clause')}
      {choice('verdict', 'Verdict', VERDICTS)}
      {field('from', 'From', true)}
      {field('to', 'Before', true)}
      {children}
      {only.includes('stage') && (
        <details class="more-filters" open={RARE.some((name) => query.get(name))}>
          <summary>More filters</summary>
          <div class="filters">
            {choice('stage', 'Stage', STAGES)}
            {field('contract', 'Contract (digest)')}
            {field('checkpoint', 'Checkpoint (digest)')}
            {field('kernel', 'Kernel')}
          </div>
        </details>
      )}
      <div class="filter-buttons">
        <Button type="submit">Apply</Button>
        {hasFilters(query) && <Button kind="link" onClick={() => apply(valuesOf(new URLSearchParams()))}>Clear</Button>}
      </div>
    </form>
  );
}
