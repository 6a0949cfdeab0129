// Keys: they move and open, and never change anything.

import { effect, signal } from '@preact/signals';
import { overlay } from './overlays';
import { go } from './router';

const STORED = 'driftgate-keys';
const SEQUENCE_MS = 1200;

/** Whether keys of one letter do anything; people who use speech input turn them off. Kept by this browser. */
export const keysOn = signal(readStored());

function readStored(): boolean {
  try {
    return localStorage.getItem(STORED) !== 'off';
  } catch {
    return true;
  }
}

const GO: Record<string, string> = { p: '/', c: '/c/', e: '/evidence' };

/** Whether a key belongs to what has the focus. */
function isTyping(target: EventTarget | null): boolean {
  const element = target as HTMLElement | null;
  return !!element?.closest?.('input, textarea, select, [contenteditable], [role="listbox"], [data-keys]');
}

export function startKeys(): void {
  effect(() => {
    try {
      localStorage.setItem(STORED, keysOn.value ? 'on' : 'off');
    } catch {
      // Not kept: it holds for this page only.
    }
  });
  let prefix = 0;
  addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (!keysOn.value || isTyping(event.target) || document.querySelector('dialog[open]') || !document.getElementById('main')) return;
    const after = performance.now() - prefix < SEQUENCE_MS;
    prefix = 0;
    if (after && GO[event.key]) go(GO[event.key] as string);
    else if (event.key === 'g') prefix = performance.now();
    else if (event.key === '/') overlay.value = 'search';
    else if (event.key === '?') overlay.value = 'help';
    else if (event.key === 'j' || event.key === 'k') moveRow(event.key === 'j' ? 1 : -1);
    else return;
    event.preventDefault();
  });
}

/** Moves the focus to the marked link, or else the first, of the next or previous row; Enter then opens it as any link. */
export function moveRow(step: 1 | -1): void {
  const rows = [...document.querySelectorAll<HTMLElement>('[data-row]')].filter((row) => row.querySelector('a, button'));
  if (!rows.length) return;
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const next = at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + step));
  const target = rows[next]?.querySelector<HTMLElement>('[data-open]') ?? rows[next]?.querySelector<HTMLElement>('a, button');
  target?.focus();
  rows[next]?.scrollIntoView({ block: 'nearest' });
}
