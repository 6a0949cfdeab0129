// The actions on models, blocks, schedules, tokens and webhooks.

import { request, withQuery } from '../../api/client';
import type { Block, Model, Page, Schedule, Scope, Token, Webhook } from '../../api/types';
import { clock } from '../../ui/format';
import { readTagged, type Action } from './action';

export function liftHold(model: Pick<Model, 'name' | 'hold'>): Action {
  const path = `/v1/models/${encodeURIComponent(model.name)}`;
  return {
    name: 'lift-hold', verb: 'Lift the hold', title: `Lift the hold of ${model.name}`, scope: 'operator', kind: 'plain', reason: true,
    refused: model.hold ? null : 'The model is not on hold.',
    effect: 'Promotions of the model can run again; a queued one starts at once.',
    shown: [
      { name: 'Model', value: model.name }, { name: 'Held because', value: model.hold?.reason ?? 'not on hold' },
      { name: 'Held by', value: model.hold?.by ?? '–' }, { name: 'Since', value: model.hold ? clock(model.hold.since_us) : '–' },
    ],
    method: 'POST', path: `${path}/lift-hold`, body: (reason) => ({ reason }),
    look: async () => liftHold(await request<Model>(path)), done: `The hold of ${model.name} is lifted.`,
  };
}

export function liftBlock(block: Block): Action {
  return {
    name: 'lift-block', verb: 'Lift the block', title: `Lift the block ${block.id}`, scope: 'operator', kind: 'plain', reason: true,
    refused: block.lifted ? 'The block is lifted.' : null,
    effect: 'This checkpoint and kernel can be promoted again under the contract.',
    shown: [
      { name: 'Kernel', value: block.kernel }, { name: 'Checkpoint', value: block.checkpoint, digest: true },
      { name: 'Contract', value: block.contract, digest: true }, { name: 'Blocked because', value: block.reason },
      { name: 'Lifted', value: block.lifted ? `by ${block.lifted.by}` : 'no' },
    ],
    method: 'POST', path: `/v1/blocks/${encodeURIComponent(block.id)}/lift`, body: (reason) => ({ reason }),
    look: async () => {
      let after: string | null = null;
      do {
        const page: Page<Block> = await request<Page<Block>>(withQuery('/v1/blocks', { limit: 200, after }));
        const found = page.items.find((one) => one.id === block.id);
        if (found) return liftBlock(found);
        after = page.next;
      } while (after);
      return { ...liftBlock(block), refused: 'The block does not exist any more.' };
    },
    done: `The block ${block.id} is lifted.`,
  };
}

type ScheduleVerb = 'pause' | 'resume' | 'delete';

const SCHEDULE: Record<ScheduleVerb, { verb: string; scope: Scope; effect: string; done: string }> = {
  pause: { verb: 'Pause', scope: 'operator', effect: 'It asks for no promotion until somebody resumes it.', done: 'is paused' },
  resume: { verb: 'Resume', scope: 'operator', effect: 'It fires again at its next time. What it missed is not made up for.', done: 'fires again' },
  delete: { verb: 'Delete', scope: 'promoter', effect: 'The schedule is gone. What it has asked for stays.', done: 'is deleted' },
};

/** An action on a schedule as it was read with `etag`, which the daemon compares. */
export function scheduleAction(what: ScheduleVerb, schedule: Schedule, etag: string): Action {
  const words = SCHEDULE[what];
  const path = `/v1/schedules/${encodeURIComponent(schedule.name)}`;
  let refused: string | null = null;
  if (what === 'pause' && schedule.paused) refused = 'It is paused.';
  if (what === 'resume' && !schedule.paused) refused = 'It is not paused.';
  return {
    name: `${what}-schedule`, verb: words.verb, title: `${words.verb} the schedule ${schedule.name}`, scope: words.scope,
    kind: what === 'delete' ? 'danger' : 'plain', reason: false, refused, effect: words.effect,
    shown: [
      { name: 'Schedule', value: schedule.name }, { name: 'Expression', value: `${schedule.cron} (${schedule.timezone})` },
      { name: 'Owner', value: schedule.owner }, { name: 'Paused', value: schedule.paused ? 'yes' : 'no' },
      { name: 'Revision', value: String(schedule.revision) },
    ],
    method: what === 'delete' ? 'DELETE' : 'POST', path: what === 'delete' ? path : `${path}/${what}`, headers: { 'If-Match': etag },
    look: async () => {
      const fresh = await readTagged<Schedule>(path);
      return scheduleAction(what, fresh.value, fresh.etag);
    },
    repeatable: false, done: `The schedule ${schedule.name} ${words.done}.`,
  };
}

export function revokeToken(token: Token, mine: boolean): Action {
  return {
    name: 'revoke-token', verb: 'Revoke', title: `Revoke the token ${token.id}`, scope: 'admin', kind: 'danger', reason: false,
    refused: token.revoked_us ? 'It is revoked.' : null,
    effect: mine ? 'This is the token that you are signed in with: you are signed out at once.' : 'Whoever uses it is refused from now on, and its sessions end at once.',
    shown: [
      { name: 'Name', value: token.name }, { name: 'Token', value: token.id }, { name: 'Scopes', value: token.scopes.join(', ') },
    ],
    method: 'DELETE', path: `/v1/tokens/${encodeURIComponent(token.id)}`, look: null, repeatable: false,
    done: `The token ${token.id} is revoked.`,
  };
}

export interface TokenDraft {
  name: string;
  scopes: Scope[];
  expires_in_s: number | null;
}

export function issueToken(draft: TokenDraft, lifetime: string): Action {
  return {
    name: 'issue-token', verb: 'Issue', title: `Issue a token to ${draft.name}`, scope: 'admin', kind: 'primary', reason: false, refused: null,
    effect: 'The token is shown once, here. Only its hash is stored.',
    shown: [{ name: 'Name', value: draft.name }, { name: 'Scopes', value: draft.scopes.join(', ') }, { name: 'Lasts', value: lifetime }],
    method: 'POST', path: '/v1/tokens', body: () => ({ name: draft.name, scopes: draft.scopes, ...(draft.expires_in_s ? { expires_in_s: draft.expires_in_s } : {}) }),
    look: null, repeatable: false, done: `A token is issued to ${draft.name}.`,
  };
}

export function webhookAction(what: 'test' | 'enable', webhook: Webhook): Action {
  const test = what === 'test';
  return {
    name: `${what}-webhook`, verb: test ? 'Send a test' : 'Enable', title: `${test ? 'Send a test to' : 'Enable'} ${webhook.name}`, scope: 'operator',
    kind: 'plain', reason: false, refused: test || webhook.disabled ? null : 'It is not disabled.',
    effect: test ? 'A message of type driftgate.test is queued for delivery.' : 'Messages are delivered to it again.',
    shown: [{ name: 'Endpoint', value: webhook.url }],
    method: 'POST', path: `/v1/webhooks/${encodeURIComponent(webhook.name)}/${what}`, look: null, repeatable: false,
    done: test ? `A test message to ${webhook.name} is queued.` : `${webhook.name} is enabled.`,
  };
}
