// What came of a schedule's fire time.

import type { FireOutcome } from '../../api/types';
import { Link, segment } from '../../app/router';
import { Chip, StateChip } from '../../ui/chip';
import { words } from '../../ui/format';
import { Name, Sentence } from '../../ui/name';
import { Time } from '../../ui/time';

/** The same with the whole reason, and how its promotion ended or where it stands. */
export function FireInFull({ fire }: { fire: FireOutcome }) {
  const { standing } = fire;
  return (
    <>
      <Fire fire={fire} />
      {fire.reason && <div class="muted"><Sentence>{fire.reason}</Sentence></div>}
      {standing && (
        <div>
          <StateChip state={standing.state} /> {standing.ended_us !== null ? <Time us={standing.ended_us} /> : <Name>{standing.stage}</Name>}{' '}
          <span class="muted"><Sentence>{standing.why}</Sentence></span>
        </div>
      )}
    </>
  );
}

export function Fire({ fire }: { fire: FireOutcome | null | undefined }) {
  if (!fire) return <span class="muted">not yet</span>;
  const fired = fire.outcome === 'fired';
  return (
    <span>
      <Chip tone={fired ? 'good' : 'warn'} icon={fired ? 'pass' : 'paused'}>{fire.outcome}</Chip> <Time us={fire.fire_us} />
      {fire.promotion && <> <Link to={`/p/${segment(fire.promotion)}`}><Name>{fire.promotion}</Name></Link></>}
      {fire.why && <> <span class="muted"><Sentence>{words(fire.why)}</Sentence></span></>}
      {!!fire.missed && <> <span class="muted">{fire.missed} missed before it</span></>}
    </span>
  );
}
