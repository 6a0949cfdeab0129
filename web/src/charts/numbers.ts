// Numbers as the API spells them, and as people read them.

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
  if (value === Infinity) return '∞';
  if (value === -Infinity) return '−∞';
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) {
    const [mantissa, exponent] = value.toExponential(2).split('e') as [string, string];
    const power = exponent.replace('+', '').replace('-', '−');
    return `${trimZeros(mantissa).replace('-', '−')}e${power}`;
  }
  return trimZeros(value.toPrecision(4)).replace('-', '−');
}

function trimZeros(text: string): string {
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}

/** 12345 becomes "12,345". */
export function count(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return '–';
  return Math.round(value)
    .toString()
    .replace(/\B(?=(\d{3})+(?!\d))/g, ',');
}

/** Basis points as a percentage: 250 becomes "2.5%". */
export function shareText(basisPoints: number | null | undefined): string {
  if (basisPoints === null || basisPoints === undefined) return '–';
  return `${trimZeros((basisPoints / 100).toFixed(2))}%`;
}

/** Milliseconds as people say them: "850 ms", "12 s", "4 min 10 s", "2 h 5 min", "3 d 4 h". */
export function durationText(milliseconds: number | null | undefined): string {
  if (milliseconds === null || milliseconds === undefined || !Number.isFinite(milliseconds)) return '–';
  if (milliseconds < 0) return '0 s';
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  const seconds = Math.round(milliseconds / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return pair(minutes, 'min', seconds % 60, 's');
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return pair(hours, 'h', minutes % 60, 'min');
  return pair(Math.floor(hours / 24), 'd', hours % 24, 'h');
}

function pair(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large} ${largeUnit}` : `${large} ${largeUnit} ${small} ${smallUnit}`;
}

/** The local time of day of a moment in seconds since the epoch, with the date where `withDate`. */
export function clockText(seconds: number, withDate = false): string {
  const at = new Date(seconds * 1000);
  const two = (part: number) => String(part).padStart(2, '0');
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return withDate ? `${day} ${time}` : time;
}
