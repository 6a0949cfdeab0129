// Which job a stage waits for, and where that is.
import type { Progress } from '../../api/types';

/** "job-1 at slurm 1234 on n1"; the progress itself says what it waits for. Empty while no job runs. */
export function jobText(progress: Progress): string {
  if (!progress.job) return '';
  const place = progress.place;
  if (!place?.runner) return progress.job;
  const where = [place.runner, place.remote].filter(Boolean).join(' ');
  return `${progress.job} at ${where}${place.nodes ? ` on ${place.nodes}` : ''}`;
}
