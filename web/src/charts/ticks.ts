// Ticks of axes.
import { clockText } from './numbers';

/** A tick of a time axis whose ticks are `step` seconds apart. */
export function timeTick(seconds: number, step: number): string {
  const text = clockText(seconds, true);
  if (step >= 86_400) return text.slice(5, 10);
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
