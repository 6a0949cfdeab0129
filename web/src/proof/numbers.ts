// Measured numbers of entries: {"dec": shortest decimal, "hex": 16 digits of the IEEE-754 bits}.

import type { Value } from './canonical';

const view = new DataView(new ArrayBuffer(8));
const CANONICAL_NAN = '7ff8000000000000';
const HEX = /^[0-9a-f]{16}$/;

/** Undefined for anything but 16 lower-case digits, and for a NaN with other bits than entries have. */
export function doubleOfHex(hex: string): number | undefined {
  if (!HEX.test(hex)) return undefined;
  view.setBigUint64(0, BigInt('0x' + hex));
  const value = view.getFloat64(0);
  return Number.isNaN(value) && hex !== CANONICAL_NAN ? undefined : value;
}

/**
 * The shortest decimal that reads back: in fixed notation, or in scientific where that is shorter. A whole number in
 * fixed notation has all its digits.
 */
export function decimalOfDouble(value: number): string {
  if (Number.isNaN(value)) return 'NaN';
  if (!Number.isFinite(value)) return value > 0 ? 'Infinity' : '-Infinity';
  if (value === 0) return Object.is(value, -0) ? '-0' : '0';
  const sign = value < 0 ? '-' : '';
  const [mantissa = '', power = '0'] = Math.abs(value).toExponential().split('e');
  const exponent = Number(power);
  const fixed = Number.isInteger(value)
    ? BigInt(Math.abs(value)).toString()
    : fixedDigits(mantissa.replace('.', ''), exponent);
  const scientific = `${mantissa}e${exponent < 0 ? '-' : '+'}${String(Math.abs(exponent)).padStart(2, '0')}`;
  return sign + (scientific.length < fixed.length ? scientific : fixed);
}

/** 0.d₁d₂… · 10^(exponent + 1) of a number that is not whole. */
function fixedDigits(digits: string, exponent: number): string {
  if (exponent < 0) return '0.' + '0'.repeat(-exponent - 1) + digits;
  return digits.slice(0, exponent + 1) + '.' + digits.slice(exponent + 1);
}

export function isMeasured(value: Value): value is { dec: string; hex: string } {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  return Object.keys(value).length === 2 && typeof value['dec'] === 'string' && typeof value['hex'] === 'string';
}

/** Whether both texts are of one number. */
export function isOneNumber(dec: string, hex: string): boolean {
  const value = doubleOfHex(hex);
  return value !== undefined && decimalOfDouble(value) === dec;
}
