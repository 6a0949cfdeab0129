// What the bytes of an entry say (docs/evidence.md, "An entry").

import { type Members, NotCanonical, parseCanonical, type Value } from './canonical';

export interface LogEntry {
  seq: number;
  time_us: number;
  kind: string;
  actor: string;
  subject: Subject;
  body: Members;
}

export interface Subject {
  model?: string;
  promotion?: string;
  stage?: string;
  attempt?: number;
  checkpoint?: string;
  contract?: string;
  prior?: number;
}

const SUBJECT: Record<keyof Subject, 'string' | 'number'> = {
  model: 'string',
  promotion: 'string',
  stage: 'string',
  attempt: 'number',
  checkpoint: 'string',
  contract: 'string',
  prior: 'number',
};
/** How the program names promotions. */
export const PROMOTION = /^pr-[0-9a-z]+$/;

const MEMBERS = ['actor', 'body', 'kind', 'seq', 'subject', 'time_us', 'v'];

export function isMembers(value: Value | undefined): value is Members {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isCount(value: Value | undefined): value is number {
  return typeof value === 'number' && value >= 0;
}

/** Throws NotCanonical for bytes that are no entry in canonical form. */
export function readEntry(bytes: Uint8Array): LogEntry {
  const value = parseCanonical(bytes);
  if (!isMembers(value) || Object.keys(value).join() !== MEMBERS.join()) {
    throw new NotCanonical('it has other members than an entry');
  }
  const { actor, body, kind, seq, subject, time_us, v } = value;
  if (v !== 1) throw new NotCanonical('its version is not 1');
  if (!isCount(seq) || !isCount(time_us) || typeof actor !== 'string' || actor === '' || typeof kind !== 'string') {
    throw new NotCanonical('a member of it has another type');
  }
  if (!isMembers(body) || !isMembers(subject)) throw new NotCanonical('its subject or body is no object');
  return { seq, time_us, kind, actor, subject: readSubject(subject), body };
}

function readSubject(members: Members): Subject {
  for (const [name, value] of Object.entries(members)) {
    const type = Object.hasOwn(SUBJECT, name) ? SUBJECT[name as keyof Subject] : undefined;
    if (type === undefined || typeof value !== type || (type === 'number' && !isCount(value))) {
      throw new NotCanonical(`its subject has '${name}' as no subject has it`);
    }
  }
  return members as Subject;
}
