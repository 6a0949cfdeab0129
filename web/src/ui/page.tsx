// What views are made of: the heading, sections, facts, and what stands where there is nothing, an error, or old data.

import type { ComponentChildren } from 'preact';
import { useEffect, useId } from 'preact/hooks';
import type { Problem } from '../api/client';
import { awaySince, comebackAt, connection } from '../api/events';
import type { List, Resource } from '../api/resource';
import { Button } from './button';
import { ago } from './format';
import { Icon } from './icons';
import { visible } from './name';
import { now } from './time';

/** The view's h1. The shell moves the focus to it after a navigation; `title` also names the browser's tab. */
export function PageHead({ title, before, children }: { title: string; before?: ComponentChildren; children?: ComponentChildren }) {
  useEffect(() => {
    document.title = `${visible(title)} – driftgate`;
  }, [title]);
  return (
    <div class="page-head">
      {before}
      <h1 id="page-title" tabIndex={-1}><bdi>{visible(title)}</bdi></h1>
      {children}
    </div>
  );
}

export function Section({ title, children, aside, id }: { title: ComponentChildren; children: ComponentChildren; aside?: ComponentChildren; id?: string }) {
  const own = useId();
  const name = id ? `${id}-title` : own;
  return (
    <section class="section" id={id} aria-labelledby={name}>
      <div class="section-head"><h2 id={name}>{title}</h2>{aside}</div>
      {children}
    </section>
  );
}

/** Pairs of a name and a value. */
export function Facts({ items }: { items: [string, ComponentChildren][] }) {
  return <dl class="facts">{items.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>;
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return <div class="empty"><p class="empty-title">{title}</p>{children}</div>;
}

/** Says what went wrong, and what to do as far as the daemon said. */
export function ErrorBox({ problem, retry, title }: { problem: Problem; retry?: () => void; title?: string }) {
  return (
    <div class="error-box" role="alert">
      <p class="error-title"><Icon name="error" /> {title ?? headline(problem)}</p>
      <p class="error-detail"><bdi>{visible(problem.detail)}</bdi></p>
      {problem.errors.length > 1 && (
        <ul>{problem.errors.map((one, at) => <li key={at}><bdi>{visible(one.detail)}</bdi></li>)}</ul>
      )}
      {retry && <Button onClick={retry}>Try again</Button>}
    </div>
  );
}

function headline(problem: Problem): string {
  if (problem.away) return 'The daemon does not answer';
  if (problem.status === 403) return 'Your token does not allow this';
  if (problem.status === 404) return 'There is no such thing';
  if (problem.status === 409) return 'It has changed in the meantime';
  if (problem.status === 401) return 'You are signed out';
  return 'That did not work';
}

/** Whether the daemon has been silent for so long that what stands on the page may be out of date. */
function isOld(): boolean {
  return connection.value === 'away' || (connection.value === 'connecting' && awaySince.value !== null);
}

/** Whether what was read before the connection was lost is being read again. */
function isReread(of: Pick<Resource<never>, 'readAt'>): boolean {
  return of.readAt !== null && of.readAt < comebackAt.value;
}

/** Shows what a resource holds: a placeholder, the data (greyed with its age when it is out of date), or the error. */
export function Loaded<T>({ of, children, what = 'Loading…' }: { of: Resource<T>; children: (data: T) => ComponentChildren; what?: string }) {
  if (of.data === undefined) {
    if (of.error) return <ErrorBox problem={of.error} retry={of.reload} />;
    return <p class="muted loading" aria-busy="true">{what}</p>;
  }
  const old = of.stale || isOld() || isReread(of);
  return (
    <>
      {old && <Stale of={of} />}
      <div class={old ? 'stale' : undefined}>{children(of.data)}</div>
    </>
  );
}

function Stale({ of }: { of: Pick<Resource<never>, 'error' | 'follows' | 'readAt' | 'reload'> }) {
  const problem = of.error;
  // Events kept it up to date for as long as they came.
  const asOf = Math.max(of.readAt ?? 0, of.follows ? awaySince.value ?? 0 : 0);
  const silent = problem?.away || isOld();
  const fault = problem && !problem.away ? <bdi>{visible(problem.detail)}</bdi> : silent ? 'The daemon does not answer.' : 'It is being read again.';
  return (
    <p class="stale-note" role="note">
      <Icon name="waiting" /> As of {ago(asOf * 1000, now.value)}. {fault} <Button kind="link" onClick={of.reload}>Read again</Button>
    </p>
  );
}

/** Greys what stands in it while the daemon does not answer, for what is shown outside of Loaded. */
export function Aged({ children }: { children: ComponentChildren }) {
  return <div class={isOld() ? 'stale' : undefined}>{children}</div>;
}

/** The button for the next page of a list. */
export function More<T>({ of }: { of: List<T> }) {
  if (of.moreError) return <ErrorBox problem={of.moreError} retry={of.more} />;
  if (!of.hasMore) return null;
  return <p class="more"><Button onClick={of.more} busy={of.loadingMore}>{of.loadingMore ? 'Loading…' : 'Show more'}</Button></p>;
}

/** What only some may see. */
export function NotAllowed({ scope, what }: { scope: string; what: string }) {
  return <Empty title={`${what} needs the scope ${scope}`}><p>Your token does not have it. An admin can issue one that does.</p></Empty>;
}
