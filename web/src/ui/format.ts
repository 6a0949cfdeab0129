// Numbers, shares, sizes and times as text.

import type { Num } from '../api/types';

const UNITS: [string, number][] = [['d', 86400], ['h', 3600], ['min', 60], ['s', 1]];

/** 93784 s as `1 d 2 h`: the two largest units. */
export function duration(seconds: number): string {
  let rest = Math.max(0, Math.round(seconds));
  if (rest === 0) return '0 s';
  const parts: string[] = [];
  for (const [unit, length] of UNITS) {
    const count = Math.floor(rest / length);
    rest -= count * length;
    if (count || parts.length) parts.push(count ? `${count} ${unit}` : '');
    if (parts.length === 2) break;
  }
  return parts.filter(Boolean).join(' ');
}

/** `3 min ago`, `in 2 h`, `just now`. */
export function ago(us: number, nowMs: number): string {
  const seconds = (nowMs - us / 1000) / 1000;
  if (Math.abs(seconds) < 2) return 'just now';
  const coarse = largest(Math.abs(seconds));
  return seconds > 0 ? `${coarse} ago` : `in ${coarse}`;
}

function largest(seconds: number): string {
  for (const [unit, length] of UNITS) {
    if (seconds >= length) return `${Math.floor(seconds / length)} ${unit}`;
  }
  return '0 s';
}

const two = (value: number) => String(value).padStart(2, '0');

/** `2026-03-01 14:02:11` in the reader's time zone. */
export function clock(us: number): string {
  const at = new Date(us / 1000);
  if (Number.isNaN(at.getTime())) return 'not a time';
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** The same in UTC with microseconds, as evidence has it. */
export function utc(us: number): string {
  const at = new Date(Math.floor(us / 1000));
  if (Number.isNaN(at.getTime())) return 'not a time';
  return `${at.toISOString().slice(0, 19)}.${String(us % 1_000_000).padStart(6, '0')}Z`;
}

/** Basis points as a percentage: 1250 is `12.5%`. */
export function percent(bp: number): string {
  return `${Number((bp / 100).toPrecision(4))}%`;
}

/** A number with four significant digits; `inf` and the like as ∞, −∞ and “not a number”. */
export function num(value: Num | null | undefined, digits = 4): string {
  if (value === null || value === undefined) return '–';
  const known = toNumber(value);
  if (Number.isNaN(known)) return 'not a number';
  if (!Number.isFinite(known)) return known > 0 ? '∞' : '−∞';
  const size = Math.abs(known);
  if (size === 0) return '0';
  const text = size >= 1e6 || size < 1e-4 ? known.toExponential(digits - 1) : group(Number(known.toPrecision(digits)));
  return text.replace('-', '−');
}

function group(value: number): string {
  const [whole, fraction] = String(value).split('.') as [string, string | undefined];
  return whole.replace(/\B(?=(\d{3})+(?!\d))/g, '\u202f') + (fraction ? `.${fraction}` : '');
}

/** A count: 12 345. */
export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? '–' : group(Math.round(value));
}

/** A number of the API as a number that can be drawn; NaN for what is none. */
export function toNumber(value: Num | null | undefined): number {
  if (typeof value === 'number') return value;
  if (value === 'inf' || value === 'Infinity') return Infinity;
  return value === '-inf' || value === '-Infinity' ? -Infinity : NaN;
}

/** `1 promotion`, `2 promotions`. */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** `awaiting_approval` as `awaiting approval`. */
export function words(text: string): string {
  return text.replace(/_/g, ' ');
}
