// The bus between the one stream of events (live.ts) and the views.

import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import type { Entry, PromotionItem, Server } from './types';

export type LiveEvent =
  /** An entry of the log, or what may be shown of it. */
  | { type: 'entry'; entry: Entry }
  /** An open promotion as it is now. */
  | { type: 'progress'; item: PromotionItem }
  /** Events may have been missed: read everything again. */
  | { type: 'reset'; why: string; /** By performance.now(): what was asked for later is not concerned. */ at: number };

export type Connection = 'connecting' | 'live' | 'away';

export const connection = signal<Connection>('connecting');
/** Since when the daemon has not answered, in ms since the epoch; null while it does. */
export const awaySince = signal<number | null>(null);
/** How often the connection came back after it was lost. Resources read again when it changes. */
export const comebacks = signal(0);
/** When it last came back, in ms since the epoch: what was read before that may be out of date. 0: never lost. */
export const comebackAt = signal(0);
/** Why there are no live events although the daemon answers; '' otherwise. */
export const liveFault = signal('');
/** The daemon that the stream comes from. */
export const daemon = signal<Server | null>(null);
/** Set when another daemon process answers than before. */
export const restarted = signal<{ at: number; version: string; before: string } | null>(null);
/** Size of the evidence log as far as this browser has heard. */
export const treeSize = signal<number | null>(null);

const listeners = new Set<(event: LiveEvent) => void>();

export function onEvent(listener: (event: LiveEvent) => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function emit(event: LiveEvent): void {
  for (const listener of [...listeners]) listener(event);
}

/** Calls `handler` with every event while the component is mounted. */
export function useEvents(handler: (event: LiveEvent) => void): void {
  const newest = useRef(handler);
  newest.current = handler;
  useEffect(() => onEvent((event) => newest.current(event)), []);
}

/** Whether an event concerns this promotion. */
export function concerns(event: LiveEvent, promotion: string): boolean {
  if (event.type === 'reset') return true;
  if (event.type === 'progress') return event.item.id === promotion;
  return event.entry.subject?.['promotion'] === promotion;
}
