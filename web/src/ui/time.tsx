// Times as ages that go on, with the exact time at hand.

import { computed, signal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import { ago, clock, duration, utc } from './format';

/** The time of day in ms, renewed every second while the page is visible. */
export const now = signal(Date.now());

if (typeof document !== 'undefined') {
  setInterval(() => {
    if (!document.hidden) now.value = Date.now();
  }, 1000);
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) now.value = Date.now();
  });
}

/** `3 min ago` with the exact time as tooltip; `none` when there is no time. */
export function Time({ us, none = 'never' }: { us: number | null | undefined; none?: string }) {
  // A computed text changes its own text node, and only when the words change; the row around it is not drawn again.
  const text = useMemo(() => computed(() => (us === null || us === undefined ? '' : ago(us, now.value))), [us]);
  if (us === null || us === undefined) return <span class="muted">{none}</span>;
  return <time dateTime={iso(us)} title={`${clock(us)} (${utc(us)})`}>{text}</time>;
}

/** The exact time, with its age as tooltip. */
export function Clock({ us }: { us: number }) {
  return <time dateTime={iso(us)} title={utc(us)}>{clock(us)}</time>;
}

/** How long it has been since `us`, or until `until`. */
export function Elapsed({ us, until }: { us: number; until?: number | null }) {
  const text = useMemo(() => computed(() => duration(((until ? until / 1000 : now.value) - us / 1000) / 1000)), [us, until]);
  return <span>{text}</span>;
}

function iso(us: number): string {
  const at = new Date(us / 1000);
  return Number.isNaN(at.getTime()) ? '' : at.toISOString();
}
