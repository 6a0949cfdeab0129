// The candidate's share of the traffic as a bar with its number.

import { percent } from './format';

export function ShareBar({ bp, label = 'share of the candidate' }: { bp: number | null | undefined; label?: string }) {
  const known = typeof bp === 'number';
  const value = known ? Math.min(10000, Math.max(0, bp)) : 0;
  return (
    <span class="share">
      <svg class="share-bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label={known ? `${label}: ${percent(value)}` : `${label}: unknown`}>
        <rect class="share-all" width="100" height="8" />
        <rect class="share-now" width={value / 100} height="8" />
      </svg>
      <span class="share-text" aria-hidden="true">{known ? percent(value) : '–'}</span>
    </span>
  );
}
