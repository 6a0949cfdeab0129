// Addresses and views: the browser's history, links that stay in the page, and views that are loaded when first shown.

import { signal } from '@preact/signals';
import type { ComponentChildren, ComponentType } from 'preact';

export interface ViewProps {
  params: Record<string, string>;
  query: URLSearchParams;
}
export type View = ComponentType<ViewProps>;

export interface Place {
  path: string;
  query: URLSearchParams;
}

function here(): Place {
  return { path: location.pathname, query: new URLSearchParams(location.search) };
}

export const place = signal<Place>(typeof location === 'undefined' ? { path: '/', query: new URLSearchParams() } : here());
/** Counts moves to another path; the shell moves the focus to the new heading when it changes. */
export const moves = signal(0);

/** Goes to `to`, an address of the page. */
export function go(to: string, options: { replace?: boolean } = {}): void {
  const before = location.pathname;
  if (options.replace) history.replaceState(null, '', to);
  else history.pushState(null, '', to);
  place.value = here();
  if (location.pathname !== before) {
    moves.value += 1;
    scrollTo(0, 0);
  }
}

/** Changes members of the query ('' or null takes one away) and stays on the path. */
export function setQuery(change: Record<string, string | null>, options: { replace?: boolean } = {}): void {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(change)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString();
  go(text ? `${location.pathname}?${text}` : location.pathname, options);
}

export function startRouter(): void {
  addEventListener('popstate', () => {
    const moved = place.value.path !== location.pathname;
    place.value = here();
    if (moved) moves.value += 1;
  });
}

/** A name as one segment of a path. */
export function segment(name: string): string {
  return encodeURIComponent(name).replace(/%3A/g, ':').replace(/%40/g, '@');
}

/** What `pattern` ('/p/:id', '/models/*name' for the whole rest) finds in `path`; null when it does not match. */
export function match(pattern: string, path: string): Record<string, string> | null {
  const wanted = pattern.split('/');
  const given = path.replace(/(.)\/+$/, '$1').split('/');
  const params: Record<string, string> = {};
  for (let i = 0; i < wanted.length; ++i) {
    const part = wanted[i] as string;
    try {
      if (part.startsWith('*')) {
        const rest = given.slice(i).map(decodeURIComponent).join('/');
        if (!rest) return null;
        params[part.slice(1)] = rest;
        return params;
      }
      const value = given[i];
      if (value === undefined) return null;
      if (part.startsWith(':')) {
        if (!value) return null;
        params[part.slice(1)] = decodeURIComponent(value);
      } else if (part !== value) return null;
    } catch {
      return null; // not valid percent-encoding
    }
  }
  return given.length === wanted.length ? params : null;
}

export interface LinkProps {
  to: string;
  children: ComponentChildren;
  class?: string;
  title?: string;
  'aria-label'?: string;
  'aria-current'?: 'page' | 'true';
  /** Of several links in a row, the one that `j`, `k` and Enter are for. */
  'data-open'?: boolean;
}

/** A link to an address of the page. A click with a modifier, or the middle button, does what the browser does. */
export function Link({ to, children, ...rest }: LinkProps) {
  const follow = (event: MouseEvent) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(to);
  };
  return <a {...rest} href={to} onClick={follow}>{children}</a>;
}
