// What a view shows of the API: the newest answer, kept while a newer one is awaited or cannot be had, with its age.

import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { asProblem, request, withQuery, type Problem } from './client';
import { comebacks, useEvents, type LiveEvent } from './events';
import { onSessionChange } from './session';
import type { Page } from './types';

export interface Resource<T> {
  data: T | undefined;
  /** Why the newest attempt failed; `data` is then what was last read. */
  error: Problem | null;
  loading: boolean;
  /** When `data` was read, in ms since the epoch. */
  readAt: number | null;
  /** Whether `data` is known to be out of date: the newest attempt failed. */
  stale: boolean;
  /** Whether events keep `data` up to date. */
  follows: boolean;
  reload: () => void;
  /** Replaces `data` by what an event or an action's answer has brought. */
  patch: (change: (data: T) => T) => void;
}

export interface ResourceOptions {
  /** Which events make it read again; none by default. It always reads again after `reset` and after a comeback. */
  live?: (event: LiveEvent) => boolean;
  /** How to read; JSON by request() by default. */
  read?: (path: string, signal: AbortSignal) => Promise<unknown>;
}

/** Least time between two readings that events ask for. */
const CALM_MS = 400;
const KEPT = 40;

interface Kept {
  data: unknown;
  readAt: number;
}

const kept = new Map<string, Kept>();
onSessionChange(() => kept.clear());

function keep(path: string, data: unknown): number {
  const readAt = Date.now();
  kept.delete(path);
  kept.set(path, { data, readAt });
  if (kept.size > KEPT) kept.delete(kept.keys().next().value as string);
  return readAt;
}

interface State<T> {
  path: string | null;
  data: T | undefined;
  error: Problem | null;
  loading: boolean;
  readAt: number | null;
}

function initial<T>(path: string | null): State<T> {
  const known = path === null ? undefined : kept.get(path);
  return { path, data: known?.data as T | undefined, error: null, loading: path !== null, readAt: known?.readAt ?? null };
}

/** Reads `path` (null: nothing yet) and again when something says so. */
export function useResource<T>(path: string | null, options: ResourceOptions = {}): Resource<T> {
  const [stored, setState] = useState<State<T>>(() => initial<T>(path));
  const state = stored.path === path ? stored : initial<T>(path);
  const control = useRef<AbortController | null>(null);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const lastRead = useRef(0);
  const newest = useRef(options);
  newest.current = options;

  const load = useCallback(() => {
    if (path === null) return;
    control.current?.abort();
    const mine = new AbortController();
    control.current = mine;
    lastRead.current = performance.now();
    setState((old) => ({ ...(old.path === path ? old : initial<T>(path)), loading: true }));
    const read = newest.current.read ?? ((at: string, signal: AbortSignal) => request<unknown>(at, { signal }));
    read(path, mine.signal).then(
      (data) => {
        if (mine.signal.aborted) return;
        setState({ path, data: data as T, error: null, loading: false, readAt: keep(path, data) });
      },
      (error: unknown) => {
        if (mine.signal.aborted) return;
        setState((old) => ({ ...(old.path === path ? old : initial<T>(path)), error: asProblem(error), loading: false }));
      },
    );
  }, [path]);

  const soon = useCallback(() => {
    if (timer.current !== undefined) return;
    const wait = Math.max(0, lastRead.current + CALM_MS - performance.now());
    timer.current = setTimeout(() => {
      timer.current = undefined;
      load();
    }, wait);
  }, [load]);

  useEffect(() => {
    load();
    const stop = comebacks.subscribe(skipFirst(soon));
    return () => {
      stop();
      control.current?.abort();
      clearTimeout(timer.current);
      timer.current = undefined;
    };
  }, [load, soon]);

  useEvents((event) => {
    if (event.type === 'reset' ? lastRead.current <= event.at : newest.current.live?.(event)) soon();
  });

  const patch = useCallback((change: (data: T) => T) => {
    setState((old) => {
      if (old.path !== path || old.data === undefined) return old;
      const data = change(old.data);
      if (data === old.data) return old;
      kept.set(path as string, { data, readAt: old.readAt ?? Date.now() });
      return { ...old, data };
    });
  }, [path]);

  return {
    data: state.data, error: state.error, loading: state.loading, readAt: state.readAt,
    stale: !!state.error && state.data !== undefined, follows: !!options.live, reload: load, patch,
  };
}

function skipFirst(then: () => void): () => void {
  let first = true;
  return () => {
    if (first) first = false;
    else then();
  };
}

export interface List<T> extends Resource<T[]> {
  /** Whether there is another page. */
  hasMore: boolean;
  loadingMore: boolean;
  moreError: Problem | null;
  more: () => void;
  /** The newest answer of the first page, for members beside `items`. */
  first: (Page<T> & Record<string, unknown>) | undefined;
}

interface Rest<T> {
  path: string | null;
  items: T[];
  next: string | null;
  /** Whether the reader has asked for more. */
  loading: boolean;
  error: Problem | null;
  /** Which reading of the first page it goes on from. */
  readAt: number | null;
}

const noRest = { path: null, items: [], next: null, loading: false, error: null, readAt: null };

/** At least `count` items from a cursor on, or all. */
export async function readRest<T>(path: string, limit: number, from: string | null, count: number, signal: AbortSignal): Promise<{ items: T[]; next: string | null }> {
  const items: T[] = [];
  let next = from;
  while (next !== null && items.length < count) {
    const answer: Page<T> = await request<Page<T>>(page(path, limit, next), { signal });
    items.push(...answer.items);
    next = answer.next;
  }
  return { items, next };
}

/** A list by cursor pages. `path` has the filters; `after` and `limit` are added here. */
export function useList<T>(path: string | null, options: ResourceOptions & { limit?: number } = {}): List<T> {
  const limit = options.limit ?? 50;
  const firstPath = path === null ? null : page(path, limit, null);
  const first = useResource<Page<T> & Record<string, unknown>>(firstPath, options);
  const [rest, setRest] = useState<Rest<T>>(noRest);
  const newest = useRef(rest);
  newest.current = rest;
  const reading = useRef<AbortController | null>(null);
  const mine = rest.path === firstPath ? rest : null;
  const cursor = first.data?.next ?? null;
  const next = mine ? mine.next : cursor;

  /** Reads what follows the first page, `count` items of it at least; `added` to those that are there, or instead of them. */
  const read = (from: string | null, count: number, added: boolean, loading: boolean) => {
    if (path === null) return;
    reading.current?.abort();
    const control = new AbortController();
    reading.current = control;
    setRest((old) => ({ ...(old.path === firstPath ? old : { ...noRest, path: firstPath, next: from }), loading, error: null, readAt: first.readAt }));
    readRest<T>(path, limit, from, count, control.signal).then(
      (found) => {
        if (control.signal.aborted) return;
        reading.current = null;
        setRest((old) => (old.path === firstPath
          ? { ...old, items: added ? [...old.items, ...found.items] : found.items, next: found.next, loading: false, error: null } : old));
      },
      (error: unknown) => {
        if (control.signal.aborted) return;
        reading.current = null;
        setRest((old) => (old.path === firstPath ? { ...old, loading: false, error: asProblem(error) } : old));
      },
    );
  };

  const more = () => {
    if ((next === null && !mine?.error) || mine?.loading) return;
    if (reading.current || mine?.error) read(cursor, (mine?.items.length ?? 0) + 1, false, true);
    else read(next, 1, true, true);
  };

  // When the first page was read anew, what follows it is too, as far as it was shown: rows may have moved between them.
  useEffect(() => {
    const old = newest.current;
    if (old.path !== firstPath || old.readAt === first.readAt || (old.items.length === 0 && !old.loading)) return;
    read(cursor, old.items.length + (old.loading ? 1 : 0), false, old.loading);
  }, [firstPath, first.readAt]);
  useEffect(() => () => {
    reading.current?.abort();
    reading.current = null;
  }, [firstPath]);

  const [head, tail] = [first.data?.items, mine?.items];
  const data = useMemo(() => (head && tail?.length ? [...head, ...tail] : head), [head, tail]);
  return {
    data,
    error: first.error, loading: first.loading, readAt: first.readAt, stale: first.stale, follows: first.follows,
    reload: () => {
      reading.current?.abort();
      reading.current = null;
      setRest(noRest);
      first.reload();
    },
    patch: (change) => {
      first.patch((old) => withItems(old, change(old.items)));
      setRest((old) => withItems(old, old.items.length ? change(old.items) : old.items));
    },
    hasMore: next !== null, loadingMore: mine?.loading ?? false, moreError: mine?.error ?? null, more, first: first.data,
  };
}

function withItems<T, P extends { items: T[] }>(page: P, items: T[]): P {
  return items === page.items ? page : { ...page, items };
}

function page(path: string, limit: number, after: string | null): string {
  const [base, query] = path.split('?') as [string, string | undefined];
  return withQuery(base, { ...Object.fromEntries(new URLSearchParams(query)), limit, after });
}
