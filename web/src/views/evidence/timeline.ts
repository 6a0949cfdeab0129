// What served when, from the routes that were read back from the data plane.

import type { Entry } from '../../api/types';

export interface Arm {
  role: 'incumbent' | 'candidate' | 'fallback';
  version: string;
  kernel: string;
  shareBp: number;
}

export interface Segment {
  seq: number;
  fromUs: number;
  untilUs: number;
  arms: Arm[];
  /** Slices of traffic with a share of their own. */
  slices: number;
  mirrorBp: number;
  reason: string;
}

type Part = Record<string, unknown>;
const part = (value: unknown): Part | undefined => (typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Part) : undefined);
const text = (value: unknown) => (typeof value === 'string' ? value : '');
const share = (value: unknown) => (typeof value === 'number' ? Math.min(Math.max(value, 0), 10_000) : 0);

function armsOf(route: Part): Arm[] {
  const toFallback = route['all_to_fallback'] === true;
  const candidateBp = toFallback || !part(route['candidate']) ? 0 : share(route['candidate_bp']);
  const shares = { incumbent: toFallback ? 0 : 10_000 - candidateBp, candidate: candidateBp, fallback: toFallback ? 10_000 : 0 };
  return (['incumbent', 'candidate', 'fallback'] as const).flatMap((role) => {
    const version = part(route[role]);
    if (!version || shares[role] === 0) return [];
    return [{ role, version: text(version['version']), kernel: text(version['kernel']), shareBp: shares[role] }];
  });
}

/** One segment for each applied route, oldest first; the newest reaches to `endUs`. */
export function segmentsOf(entries: readonly Entry[], endUs: number): Segment[] {
  const applied = entries.filter(({ kind }) => kind === 'route_applied').sort((a, b) => a.seq - b.seq);
  return applied.map((entry, at) => {
    const route = part(entry.body['route']) ?? {};
    const until = applied[at + 1]?.time_us ?? Math.max(endUs, entry.time_us);
    return {
      seq: entry.seq,
      fromUs: entry.time_us,
      untilUs: Math.max(until, entry.time_us),
      arms: armsOf(route),
      slices: Array.isArray(route['slices']) ? route['slices'].length : 0,
      mirrorBp: share(route['mirror_bp']),
      reason: text(entry.body['reason']),
    };
  });
}

export interface Box {
  seq: number;
  role: Arm['role'];
  x: number;
  y: number;
  width: number;
  height: number;
}

/** Rectangles of a picture of `width` × `height`: time to the right, shares stacked, the incumbent at the bottom. */
export function boxesOf(segments: readonly Segment[], width: number, height: number): Box[] {
  const [first, last] = [segments[0], segments.at(-1)];
  if (!first || !last) return [];
  const span = Math.max(last.untilUs - first.fromUs, 1);
  const least = 1; // so that a short step is still seen
  return segments.flatMap(({ seq, fromUs, untilUs, arms }) => {
    const x = ((fromUs - first.fromUs) / span) * width;
    let below = height;
    return arms.map(({ role, shareBp }) => {
      const tall = (shareBp / 10_000) * height;
      below -= tall;
      return { seq, role, x, y: below, width: Math.max(((untilUs - fromUs) / span) * width, least), height: tall };
    });
  });
}

/** The time at a place of that picture. */
export function timeAt(segments: readonly Segment[], share01: number): number {
  const [first, last] = [segments[0], segments.at(-1)];
  if (!first || !last) return 0;
  return Math.round(first.fromUs + Math.min(Math.max(share01, 0), 1) * (last.untilUs - first.fromUs));
}
