// Why the promotion stands where it stands, what comes next, and what people can do about it.
import type { Given, Waiver } from '../../api/types';
import { ActionButton, PromotionActions, waive } from '../../app/actions';
import { isOpen, StateChip } from '../../ui/chip';
import { plural } from '../../ui/format';
import { Digest, Name, Sentence } from '../../ui/name';
import { Section } from '../../ui/page';
import { ShareBar } from '../../ui/share';
import { Clock, Time } from '../../ui/time';
import { useStable, type PromotionStore } from './store';

export function Standing({ store }: { store: PromotionStore }) {
  const of = useStable(() => {
    const p = store.promotion.value;
    return { state: p.state, why: p.why ?? '', next: p.next ?? '', reason: p.reason, needs: p.needs ?? [], updated: p.updated_us, digest: p.evidence_shown ?? null };
  });
  return (
    <Section title="Where it stands" aside={<span class="row"><StateChip state={of.state} /><Share store={store} /></span>}>
      <div class="standing">
        <p class="standing-why"><Sentence>{of.why || of.reason || 'Nothing is said of it yet.'}</Sentence></p>
        {of.next && <p><span class="muted">Next: </span><Sentence>{of.next}</Sentence></p>}
        {of.reason && of.reason !== of.why && <p><span class="muted">Reason: </span><Sentence>{of.reason}</Sentence></p>}
        {isOpen(of.state) && of.needs.length > 0 && (
          <ul class="needs">
            {of.needs.map((need) => <li key={`${need.action} ${need.text}`}><Sentence>{need.text}</Sentence> <span class="muted">({need.scope})</span></li>)}
          </ul>
        )}
        <Approvals store={store} />
        <Actions store={store} />
        <Waivers store={store} />
        <p class="muted small">
          Changed <Time us={of.updated} />.{of.digest && isOpen(of.state) && <> Decisions made here are bound to what is shown: <Digest>{of.digest}</Digest></>}
        </p>
      </div>
    </Section>
  );
}

function Share({ store }: { store: PromotionStore }) {
  const share = useStable(() => store.promotion.value.share_bp ?? store.promotion.value.canary?.share_bp ?? null);
  return share === null ? null : <ShareBar bp={share} />;
}

function Actions({ store }: { store: PromotionStore }) {
  const promotion = useStable(() => store.promotion.value);
  return <PromotionActions promotion={promotion} onDone={store.changed} />;
}

function Approvals({ store }: { store: PromotionStore }) {
  const approval = useStable(() => store.promotion.value.approval ?? null);
  if (!approval) return null;
  const missing = Math.max(0, approval.needed - approval.given.length);
  return (
    <div class="approvals">
      <p>
        Step {approval.step + 1} needs {plural(approval.needed, 'approval')}; {missing === 0 ? 'all are given' : `${missing} ${missing === 1 ? 'is' : 'are'} missing`}
        {approval.deadline_us ? <>, until <Clock us={approval.deadline_us} /></> : ''}. Evidence <Digest>{approval.evidence_digest}</Digest>
      </p>
      <People given={approval.given} />
    </div>
  );
}

function People({ given }: { given: Given[] }) {
  if (given.length === 0) return null;
  return (
    <ul>
      {given.map((one) => (
        <li key={`${one.who} ${one.given_us}`}><Name>{one.who}</Name>, <Time us={one.given_us} />: <Sentence>{one.reason}</Sentence></li>
      ))}
    </ul>
  );
}

function Waivers({ store }: { store: PromotionStore }) {
  const waiver = useStable(() => store.promotion.value.waiver ?? null);
  if (!waiver || waiver.clauses.length === 0) return null;
  return <WaiverList store={store} waiver={waiver} />;
}

function WaiverList({ store, waiver }: { store: PromotionStore; waiver: Waiver }) {
  const promotion = useStable(() => store.promotion.value);
  return (
    <div class="waivers">
      <h3>Inconclusive clauses</h3>
      <p>Each can be waived by {plural(waiver.needed, 'person', 'people')}{waiver.deadline_us ? <>, until <Clock us={waiver.deadline_us} /></> : ''}. Report <Digest>{waiver.evidence_digest}</Digest></p>
      <ul class="waiver-list">
        {waiver.clauses.map((one) => (
          <li key={one.clause}>
            <span><Name>{one.clause}</Name> <span class="muted">waived by {one.given.length} of {waiver.needed}</span></span>
            <ActionButton action={waive(promotion, one.clause)} onDone={(answer) => store.changed(answer as typeof promotion | undefined)} />
            <People given={one.given} />
          </li>
        ))}
      </ul>
    </div>
  );
}
