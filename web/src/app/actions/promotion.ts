// The actions on a promotion. Each names the evidence that is shown, so that nobody decides on what they have not seen.

import { request } from '../../api/client';
import { session } from '../../api/session';
import type { Promotion } from '../../api/types';
import { isOpen, stageTitle } from '../../ui/chip';
import { count, percent, words } from '../../ui/format';
import type { Action, Shown } from './action';

export type PromotionAction = 'approve' | 'abort' | 'rollback' | 'pause' | 'resume' | 'redact';

/** Whether two names are one person's: they are told apart as the daemon does, not by case. The daemon decides. */
function isMe(name: string): boolean {
  return session.value?.name.toLowerCase() === name.toLowerCase();
}

function pathOf(promotion: Promotion): string {
  return `/v1/promotions/${encodeURIComponent(promotion.id)}`;
}

function shownOf(promotion: Promotion, digest: string | undefined): Shown[] {
  const candidate = promotion.candidate;
  const shown: Shown[] = [
    { name: 'Model', value: promotion.model },
    { name: 'Candidate', value: candidate ? `${candidate.engine} (${candidate.kernel})` : promotion.engine },
    { name: 'State', value: words(promotion.state) },
    { name: 'Stage', value: stageText(promotion) },
    { name: 'Share of the candidate', value: percent(promotion.share_bp ?? promotion.canary?.share_bp ?? 0) },
  ];
  if (promotion.approval) {
    shown.push({ name: 'Approved by', value: `${promotion.approval.given.map((one) => one.who).join(', ') || 'nobody yet'} (${count(promotion.approval.given.length)} of ${count(promotion.approval.needed)})` });
  }
  if (digest) shown.push({ name: 'Evidence that you decide on', value: digest, digest: true });
  return shown;
}

function stageText(promotion: Promotion): string {
  if (!promotion.stage) return 'none';
  const canary = promotion.stage === 'canary' ? promotion.canary : null;
  let step = '';
  if (canary) step = canary.steps > 0 && canary.step >= canary.steps ? ', bake' : `, step ${canary.step + 1} of ${canary.steps}`;
  const attempt = (promotion.attempt ?? 1) > 1 ? `, attempt ${promotion.attempt}` : '';
  return stageTitle(promotion.stage) + step + attempt;
}

function look(promotion: Promotion, make: (fresh: Promotion) => Action): () => Promise<Action> {
  return async () => make(await request<Promotion>(pathOf(promotion)));
}

function ended(promotion: Promotion): string {
  return `It has ended: ${words(promotion.state)}.`;
}

/** What became of an order to end: the daemon answers while the candidate's traffic is still being taken back. */
function doneText(promotion: Promotion, answer: unknown): string {
  const now = answer as Partial<Promotion> | undefined;
  const state = now?.state;
  if (state === 'succeeded') {
    return now?.traffic === 'reverted' ? `${promotion.id} is rolled back: the version before it serves.` : `The rollback of ${promotion.id} is ordered.`;
  }
  if (state && isOpen(state) && now?.traffic === 'never_exposed') return `Ordered for ${promotion.id}: it is being ended. Its candidate has had no traffic.`;
  if (!state || state === 'rolling_back' || isOpen(state)) return `Ordered for ${promotion.id}: the candidate's traffic is being taken back. The page shows when it is at 0%.`;
  return `${promotion.id} is now ${words(state)}.`;
}

function base(promotion: Promotion, name: PromotionAction, digest: string | undefined) {
  return {
    name, method: 'POST' as const, path: `${pathOf(promotion)}/${name}`, reason: true, shown: shownOf(promotion, digest),
    body: (reason: string) => (digest ? { reason, evidence_digest: digest } : { reason }),
  };
}

export function approve(promotion: Promotion): Action {
  const approval = promotion.approval;
  return {
    ...base(promotion, 'approve', approval?.evidence_digest),
    verb: 'Approve', title: `Approve ${promotion.id}`, scope: 'approver', kind: 'primary',
    refused: approveRefused(promotion),
    effect: approveEffect(promotion),
    look: look(promotion, approve), done: `You approved ${promotion.id}.`,
  };
}

function approveRefused(promotion: Promotion): string | null {
  if (!isOpen(promotion.state)) return ended(promotion);
  if (promotion.state !== 'awaiting_approval' || !promotion.approval) return `It does not wait for an approval: it is ${words(promotion.state)}.`;
  if (isMe(promotion.requester)) return 'You asked for this promotion; another person must approve it.';
  if (isMe(promotion.request?.recipe?.set_by ?? '')) return 'You set the recipe that parts of it came from; another person must approve it.';
  if (promotion.approval.given.some((one) => isMe(one.who))) return 'You have approved this step; another person must.';
  return null;
}

function approveEffect(promotion: Promotion): string {
  const approval = promotion.approval;
  const missing = approval ? approval.needed - approval.given.length - 1 : 0;
  if (missing > 0) return `Your approval counts for this step and this evidence. It then still needs ${count(missing)} more.`;
  const canary = promotion.canary;
  if (canary && canary.step >= canary.steps) return 'The promotion finishes: the candidate becomes the incumbent. What was sent to the fallback stays there.';
  if (canary && canary.step + 1 >= canary.steps) return 'The bake begins: the candidate keeps its share and is watched until the promotion finishes.';
  return 'The candidate gets the share of the next step at once.';
}

export function waive(promotion: Promotion, clause: string): Action {
  const waiver = promotion.waiver;
  const own = waiver?.clauses.find((one) => one.clause === clause);
  const given = own?.given ?? [];
  const digest = waiver?.evidence_digest;
  let refused: string | null = null;
  if (!isOpen(promotion.state)) refused = ended(promotion);
  else if (!waiver || !own) refused = 'Only an inconclusive clause of a stage before the canary can be waived.';
  else if (isMe(promotion.requester)) refused = 'You asked for this promotion; other people must waive its clauses.';
  else if (isMe(promotion.request?.recipe?.set_by ?? '')) refused = 'You set the recipe that parts of it came from; other people must waive its clauses.';
  else if (given.some((one) => isMe(one.who))) refused = 'You have waived this clause; another person must too.';
  return {
    name: 'waive', method: 'POST', path: `${pathOf(promotion)}/waive`, reason: true,
    verb: 'Waive', title: `Waive ${clause} of ${promotion.id}`, scope: 'approver', kind: 'plain', refused,
    effect: `The clause stays inconclusive and is passed over once ${count(waiver?.needed ?? 2)} people have waived it. The end of the promotion names it.`,
    shown: [
      ...shownOf(promotion, undefined), { name: 'Clause', value: clause },
      { name: 'Waived by', value: given.map((one) => one.who).join(', ') || 'nobody yet' },
      ...(digest ? [{ name: 'Report that you decide on', value: digest, digest: true }] : []),
    ],
    body: (reason) => ({ reason, clause, evidence_digest: digest }),
    look: look(promotion, (fresh) => waive(fresh, clause)), done: `You waived ${clause}.`,
  };
}

export function abort(promotion: Promotion): Action {
  return {
    ...base(promotion, 'abort', promotion.evidence_shown),
    verb: 'Abort', title: `Abort ${promotion.id}`, scope: 'operator', kind: 'danger',
    refused: isOpen(promotion.state) ? null : ended(promotion),
    effect: 'The candidate goes to 0% of the traffic first, then the promotion ends as aborted. The model is not put on hold.',
    look: look(promotion, abort), done: (answer) => doneText(promotion, answer),
  };
}

export function rollback(promotion: Promotion): Action {
  const serves = promotion.state === 'succeeded' && promotion.traffic !== 'reverted';
  let refused: string | null = null;
  if (!isOpen(promotion.state) && !serves) refused = `${ended(promotion)} Its candidate serves no traffic.`;
  return {
    ...base(promotion, 'rollback', promotion.evidence_shown),
    verb: 'Roll back', title: `Roll back ${promotion.id}`, scope: 'operator', kind: 'danger', refused,
    effect: serves
      ? 'The version that served before serves all traffic again, and the model is put on hold until an operator lifts it.'
      : 'The candidate goes to 0% of the traffic at once, the promotion ends as rejected, and the model is put on hold until an operator lifts it.',
    look: look(promotion, rollback), done: (answer) => doneText(promotion, answer),
  };
}

export function pause(promotion: Promotion): Action {
  const can = promotion.state === 'running' || promotion.state === 'awaiting_approval';
  return {
    ...base(promotion, 'pause', promotion.evidence_shown),
    verb: 'Pause', title: `Pause ${promotion.id}`, scope: 'operator', kind: 'plain',
    refused: can ? null : !isOpen(promotion.state) ? ended(promotion) : `Only a running promotion can be paused; it is ${words(promotion.state)}.`,
    effect: 'The shares stay as they are. Tests for harm go on and can still roll it back.',
    look: look(promotion, pause), done: `${promotion.id} is paused.`,
  };
}

export function resume(promotion: Promotion): Action {
  const again = promotion.state === 'inconclusive';
  const can = again || promotion.state === 'paused';
  return {
    ...base(promotion, 'resume', promotion.evidence_shown),
    verb: again ? 'Repeat the stage' : 'Resume', title: again ? `Repeat the stage of ${promotion.id}` : `Resume ${promotion.id}`,
    scope: 'operator', kind: 'plain',
    refused: can ? null : !isOpen(promotion.state) ? ended(promotion) : `Only a paused or inconclusive promotion can be resumed; it is ${words(promotion.state)}.`,
    effect: again ? 'The stage that was inconclusive is measured again, as a new attempt.' : 'The ramp goes on from where it stopped.',
    look: look(promotion, resume), done: `${promotion.id} goes on.`,
  };
}

export function redact(promotion: Promotion): Action {
  return {
    ...base(promotion, 'redact', undefined),
    verb: 'Redact', title: `Redact ${promotion.id}`, scope: 'operator', kind: 'danger',
    refused: isOpen(promotion.state) ? `It is ${words(promotion.state)}: abort it or wait for its end.` : null,
    effect: 'What is stored of single requests (outcomes and latencies by hashed key, target tokens) is destroyed and cannot be had back. Verdicts, their numbers and digests stay.',
    look: look(promotion, redact), done: `${promotion.id} is redacted.`,
  };
}

/** All actions on a promotion in the order in which they stand; abort and rollback always. */
export function actionsOf(promotion: Promotion): Action[] {
  const open = isOpen(promotion.state);
  const list: Action[] = [];
  if (promotion.state === 'awaiting_approval') list.push(approve(promotion));
  if (open) list.push(promotion.state === 'paused' || promotion.state === 'inconclusive' ? resume(promotion) : pause(promotion));
  list.push(abort(promotion), rollback(promotion));
  if (!open) list.push(redact(promotion));
  return list;
}
