// Numbers as the API spells them, and as people read them.
import type { Num } from '../api/types';
import { count as countOf, num as format, percent } from '../ui/format';

/** A JSON number, or one of the texts that stand for numbers that are not finite; null for anything else. */
export function num(value: unknown): number | null {
  if (typeof value === 'number') return Number.isNaN(value) ? null : value;
  if (typeof value !== 'string') return null;
  switch (value) {
    case 'inf':
    case 'Infinity':
      return Infinity;
    case '-inf':
    case '-Infinity':
      return -Infinity;
    default:
      return null;
  }
}

/** Four significant digits; very large and very small figures in powers of ten. */
export function figure(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  return format(value as Num).replace(/\.?0*e/, 'e');
}

/** A count with its thousands apart. */
export function count(value: number | null | undefined): string {
  return value === null || value === undefined || !Number.isFinite(value) ? '–' : countOf(value);
}

/** Basis points as a percentage: 250 becomes "2.5%". */
export function shareText(basisPoints: number | null | undefined): string {
  if (basisPoints === null || basisPoints === undefined) return '–';
  return percent(basisPoints);
}

/** The local time of day of a moment in seconds since the epoch, with the date where `withDate`. */
export function clockText(seconds: number, withDate = false): string {
  const at = new Date(seconds * 1000);
  const two = (part: number) => String(part).padStart(2, '0');
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return withDate ? `${day} ${time}` : time;
}
