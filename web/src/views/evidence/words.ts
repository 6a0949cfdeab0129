// Kinds of entries in words, and where the things that an entry names are shown.

/** Kinds in the order in which people look for them. */
export const KINDS: readonly string[] = [
  'verdict_reached',    'state_changed',     'promotion_requested', 'approval_given',  'waiver_given',
  'escalation_decided', 'job_finished',      'route_desired',       'route_applied',   'contract_registered',
  'kernel_registered',  'engine_registered', 'model_bootstrapped',  'hold_set',        'hold_lifted',
  'block_set',          'block_lifted',      'recipe_set',          'recipe_deleted',  'schedule_set',
  'schedule_deleted',   'schedule_fired',    'schedule_skipped',    'guard_armed',     'guard_alarmed',
  'guard_decided',      'guard_ended',       'breaker_changed',     'router_replaced', 'token_granted',
  'token_revoked',      'key_rotated',       'epoch_changed',       'evidence_read',   'evidence_redacted',
  'daemon_started',     'clock_stepped',
];

/** What a verdict can be. */
export const VERDICTS: readonly string[] = ['pass', 'violated', 'inconclusive', 'error'];

interface Told {
  kind: string;
  subject: Record<string, unknown>;
  body: Record<string, unknown>;
}

const text = (value: unknown) => (typeof value === 'string' ? value : '');

/** What an entry says in a few words beside its verdict, if it has one; '' where its kind says all. */
export function summary({ kind, subject, body }: Told): string {
  switch (kind) {
    case 'verdict_reached': {
      if (body['scope'] === 'stage') return `the whole of ${text(subject['stage'])}${body['action'] ? `, ${text(body['action'])}` : ''}`;
      const slice = text(body['slice']);
      return `${text(body['clause'])}${slice ? ` on ${slice}` : ''}`;
    }
    case 'state_changed':
      return `${text(body['from'])} to ${text(body['to'])}${body['reason'] ? `: ${text(body['reason'])}` : ''}`;
    case 'route_desired':
    case 'route_applied':
      return `candidate ${Number(body['candidate_bp'] ?? 0) / 100}%: ${text(body['reason'])}`;
    case 'escalation_decided':
      return `${text(body['action'])}: ${text(body['reason'])}`;
    case 'evidence_read':
      return text(body['what']);
    case 'job_finished':
      return `${text(body['name'])}${body['ok'] === false ? ' failed' : ''}`;
    case 'breaker_changed':
      return `${text(body['engine'])}: ${text(body['state'])}`;
    default:
      return text(body['reason']) || text(body['name']) || text(body['clause']) || text(body['schedule']);
  }
}
