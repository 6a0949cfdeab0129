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

/** How wide segments are: true to time, or so that seconds are still seen beside weeks. */
export type Axis = 'true' | 'stretched';

/** Where each segment begins and ends on an axis from 0 to 1. */
export function spansOf(segments: readonly Segment[], axis: Axis): [number, number][] {
  const seconds = segments.map(({ fromUs, untilUs }) => (untilUs - fromUs) / 1e6);
  const weights = axis === 'true' ? seconds : seconds.map((one) => 1 + Math.log10(1 + one));
  const sum = weights.reduce((total, one) => total + one, 0) || 1;
  let at = 0;
  return weights.map((weight) => {
    const begin = at;
    at += weight / sum;
    return [begin, at];
  });
}

/** Rectangles of a picture of `width` × `height`: time to the right, shares stacked, the incumbent at the bottom. */
export function boxesOf(segments: readonly Segment[], axis: Axis, width: number, height: number): Box[] {
  const spans = spansOf(segments, axis);
  const least = 1; // so that a short step is still seen
  return segments.flatMap(({ seq, arms }, at) => {
    const [begin, end] = spans[at] ?? [0, 0];
    let below = height;
    return arms.map(({ role, shareBp }) => {
      const tall = (shareBp / 10_000) * height;
      below -= tall;
      return { seq, role, x: begin * width, y: below, width: Math.max((end - begin) * width, least), height: tall };
    });
  });
}

/** The time at a place of that picture, from 0 to 1. */
export function timeAt(segments: readonly Segment[], axis: Axis, place: number): number {
  const inside = Math.min(Math.max(place, 0), 1);
  const spans = spansOf(segments, axis);
  const found = spans.findIndex(([, end]) => inside <= end);
  const at = found < 0 ? segments.length - 1 : found;
  const [segment, span] = [segments[at], spans[at]];
  if (!segment || !span) return 0;
  const share = span[1] > span[0] ? (inside - span[0]) / (span[1] - span[0]) : 0;
  return Math.round(segment.fromUs + share * (segment.untilUs - segment.fromUs));
}

/** The place of a time; undefined when it lies outside. */
export function placeOf(segments: readonly Segment[], axis: Axis, us: number): number | undefined {
  const at = segments.findIndex(({ fromUs, untilUs }) => us >= fromUs && us <= untilUs);
  const [segment, span] = [segments[at], spansOf(segments, axis)[at]];
  if (!segment || !span) return undefined;
  const share = segment.untilUs > segment.fromUs ? (us - segment.fromUs) / (segment.untilUs - segment.fromUs) : 0;
  return span[0] + share * (span[1] - span[0]);
}
