// A promotion that waits for an approval, with the members that a test changes.

import type { Promotion, Session } from '../src/api/types';

export function promotion(change: Partial<Promotion> = {}): Promotion {
  const version = { version: 've-2', engine: 'bf16', kernel: 'tinylm-bf16', checkpoint: `sha256:${'a'.repeat(64)}` };
  return {
    id: 'pr-1', model: 'tinylm', engine: 'bf16', contract: `sha256:${'c'.repeat(64)}`, contract_name: 'demo', requester: 'ana',
    state: 'awaiting_approval', stage: 'canary', attempt: 1, traffic: 'live', reason: '', why: 'step 2 waits', next: '', share_bp: 5000,
    needs: [{ action: 'approve', scope: 'approver', text: 'Somebody has to approve.' }, { action: 'abort', scope: 'operator', text: 'Or abort.' }],
    created_us: 1, updated_us: 2, candidate: version, baseline: { ...version, version: 've-1', engine: 'f32' }, evidence_shown: 'sha256:shown',
    stages: [
      { stage: 'offline-numeric', attempt: 1, state: 'pass', verdict: 'pass' },
      { stage: 'statistical-slice', attempt: 1, state: 'pass', verdict: 'pass' },
      { stage: 'shadow-runtime', attempt: 1, state: 'pass', verdict: 'pass' },
      { stage: 'canary', attempt: 1, state: 'running', verdict: null },
    ],
    canary: { step: 1, steps: 3, phase: 'step', share_bp: 5000 },
    approval: { needed: 2, given: [], step: 1, evidence_digest: 'sha256:approval', deadline_us: null },
    waiver: null,
    ...change,
  };
}

export function sessionOf(name: string, ...scopes: Session['scopes']): Session {
  return { name, scopes, token: `tk-${name}`, csrf: 'csrf', expires_us: null, server: { version: '1', started_us: 1 } };
}
