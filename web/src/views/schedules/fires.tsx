// What came of a schedule's fire time.

import type { FireOutcome } from '../../api/types';
import { Link, segment } from '../../app/router';
import { Chip } from '../../ui/chip';
import { words } from '../../ui/format';
import { Name, Sentence } from '../../ui/name';
import { Time } from '../../ui/time';

export function Fire({ fire }: { fire: FireOutcome | null | undefined }) {
  if (!fire) return <span class="muted">not yet</span>;
  const fired = fire.outcome === 'fired';
  return (
    <span>
      <Chip tone={fired ? 'good' : 'warn'} icon={fired ? 'pass' : 'paused'}>{fire.outcome}</Chip> <Time us={fire.fire_us} />
      {fire.promotion && <> <Link to={`/p/${segment(fire.promotion)}`}><Name>{fire.promotion}</Name></Link></>}
      {fire.why && <> <span class="muted"><Sentence>{words(fire.why)}</Sentence></span></>}
    </span>
  );
}
