// Ticks of axes.
import { clockText } from './numbers';

const DAY = 86_400;
/** How far apart, in seconds, the ticks of a time axis may be. */
export const TIME_STEPS = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 28 * DAY, 91 * DAY, 365 * DAY,
];

/** A tick of a time axis whose ticks are `step` seconds apart. */
export function timeTick(seconds: number, step: number): string {
  const text = clockText(seconds, true);
  if (step >= DAY) return text.slice(5, 10);
  return step < 60 ? text.slice(11) : text.slice(11, 16);
}

/** Powers of ten between two values, with 2 and 5 between them where there is `room` for so many ticks. */
export function logTicks(low: number, high: number, room: number): number[] {
  if (!(low > 0) || !(high > low)) return [];
  const first = Math.floor(Math.log10(low) + 1e-9);
  const last = Math.ceil(Math.log10(high) - 1e-9);
  const between = (last - first) * 3 <= room ? [1, 2, 5] : [1];
  const every = Math.max(1, Math.ceil((last - first + 1) / Math.max(2, room)));
  const ticks: number[] = [];
  for (let power = first; power <= last; power += every) {
    for (const factor of between) {
      const tick = Number(`${factor}e${power}`);
      if (tick >= low * 0.999999 && tick <= high * 1.000001) ticks.push(tick);
    }
  }
  return ticks.length > 0 ? ticks : [low, high];
}
