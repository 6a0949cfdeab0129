// What /v1 answers, as far as the page reads it. Members that older or other answers may lack are optional.

export type Scope = 'viewer' | 'promoter' | 'approver' | 'operator' | 'auditor' | 'admin';

/** A number; those that are not finite come as words: Infinity, -Infinity, NaN (some reports: inf, -inf, nan). */
export type Num = number | 'Infinity' | '-Infinity' | 'NaN' | 'inf' | '-inf' | 'nan';

export interface Server {
  version: string;
  started_us: number;
}

export interface Session {
  name: string;
  scopes: Scope[];
  token: string;
  csrf: string | null;
  expires_us: number | null;
  server: Server;
}

export interface Page<T> {
  items: T[];
  next: string | null;
}

export type StageName = 'offline-numeric' | 'statistical-slice' | 'shadow-runtime' | 'canary';
export type VerdictWord = 'pass' | 'violated' | 'inconclusive' | 'error';

export type PromotionState =
  | 'queued' | 'running' | 'paused' | 'awaiting_approval' | 'inconclusive' | 'rolling_back' | 'finalizing'
  | 'succeeded' | 'rejected' | 'errored' | 'aborted' | 'expired' | 'superseded';

export interface Version {
  version: string;
  engine: string;
  kernel: string;
  checkpoint: string;
  url?: string;
}

export type Counts = Record<VerdictWord, number>;

/** Where a job is. */
export interface JobPlace {
  runner: string;
  /** Slurm's number of the job, or the worker's process id. */
  remote: string;
  state: string;
  reason: string;
  nodes: string;
}

export interface Progress {
  done: number;
  total: number;
  unit: string;
  text: string;
  /** While a job runs for the stage. */
  job?: string;
  place?: JobPlace | null;
}

export interface StageItem {
  stage: StageName;
  attempt: number;
  state: string;
  verdict?: string | null;
  counts?: Counts;
  progress?: Progress | null;
}

export interface OpenVerdict {
  clause: string;
  slice: string;
  verdict: VerdictWord;
  evidence: number;
  severity: string;
  message: string;
}

export interface StageRun extends StageItem {
  started_us?: number;
  ended_us?: number | null;
  summary?: { verdicts: Counts; open?: OpenVerdict[] } | null;
  report_digest?: string | null;
}

export interface Need {
  action: string;
  scope: Scope;
  text: string;
}

export interface Canary {
  step: number;
  steps: number;
  phase: string;
  share_bp: number;
  frozen?: boolean;
  advance_proven?: boolean;
  keys?: number;
  exposed_requests?: number;
  exposed_keys?: number;
  failures?: number;
  incumbent_failures?: number;
  e_value?: Num;
  waits_for?: string[];
  step_started_us?: number;
}

export interface Given {
  who: string;
  given_us: number;
  reason: string;
}

export interface Approval {
  needed: number;
  given: Given[];
  step: number;
  evidence_digest: string;
  deadline_us: number | null;
}

export interface Waiver {
  needed: number;
  evidence_digest: string;
  deadline_us: number | null;
  clauses: { clause: string; given: Given[] }[];
}

/** What a promotion took from its model's recipe, and who had set that. */
export interface RecipeUse {
  revision: number;
  set_by?: string;
  parts: string[];
}

export interface PromotionItem {
  id: string;
  model: string;
  engine: string;
  contract: string;
  contract_name?: string;
  requester: string;
  state: PromotionState;
  stage: StageName | null;
  attempt?: number;
  traffic: 'never_exposed' | 'reverted' | 'live';
  reason: string;
  why?: string;
  next?: string;
  needs?: Need[];
  share_bp?: number;
  created_us: number;
  updated_us: number;
  ended_us?: number | null;
  deadline_us?: number | null;
  candidate: Version | null;
  baseline: Version | null;
  evidence_shown?: string;
  stages: StageItem[];
  canary?: Canary | null;
  request?: (Record<string, unknown> & { recipe?: RecipeUse }) | null;
}

export interface Promotion extends PromotionItem {
  stages: StageRun[];
  approval?: Approval | null;
  waiver?: Waiver | null;
  outcome?: Record<string, unknown> | null;
  paused?: boolean;
  frozen?: boolean;
  revision?: number;
  seed?: number | string;
}

export interface Hold {
  reason: string;
  by: string;
  since_us: number;
  promotion: string | null;
}

export interface FireOutcome {
  fire_us: number;
  outcome: 'fired' | 'skipped';
  why: string;
  /** In full; null when it fired. */
  reason?: string | null;
  missed?: number;
  promotion: string | null;
  evidence?: number;
  /** Of its promotion; null in lists. */
  standing?: { state: PromotionState; stage: string; traffic: string; ended_us: number | null; why: string } | null;
}

export interface StatusItem {
  model: string;
  incumbent: Version | null;
  hold: Hold | null;
  guard: { armed: boolean; alarms: number } | null;
  route_agrees: boolean;
  promotion: PromotionItem | null;
  last: { id: string; state: PromotionState; ended_us: number; why: string } | null;
  schedules: { name: string; next_us: number | null; paused: boolean; last: FireOutcome | null }[];
}

export interface StatusPage extends Page<StatusItem> {
  counts: { models: number; open: number; need_people: number; holds: number; alarms: number };
  tree_size: number;
}

export interface RouteState {
  desired: Record<string, unknown> | null;
  observed: Record<string, unknown> | null;
  agree: boolean;
}

export interface Guard {
  id?: string;
  promotion?: string;
  version?: string;
  armed?: boolean;
  since_us?: number;
  ended_us?: number | null;
  reason?: string;
  alarms?: number;
  mean_time_between_false_alarms_ms?: number;
  watches?: Record<string, unknown>[];
  [member: string]: unknown;
}

export interface Model {
  name: string;
  incumbent: Version | null;
  promotion: string | null;
  hold: Hold | null;
  route?: RouteState | null;
  guard?: Guard | null;
  created_us?: number;
  updated_us?: number;
}

export interface Block {
  id: string;
  checkpoint: string;
  kernel: string;
  contract: string;
  promotion: string;
  reason: string;
  by: string;
  since_us: number;
  lifted: { by: string; reason: string; since_us: number } | null;
}

export interface Contract {
  digest: string;
  name: string;
  registrant?: string;
  registered_us?: number;
  document?: unknown;
}

export interface Engine {
  name: string;
  url: string;
  kernel: string;
  checkpoint?: string;
  registered_us?: number;
}

export interface Schedule {
  name: string;
  cron: string;
  timezone: string;
  model?: string;
  promotion: Record<string, unknown>;
  misfire: string;
  grace_s: number;
  if_running: string;
  paused: boolean;
  owner: string;
  revision: number;
  next_us: number | null;
  updated_us?: number;
  fires: FireOutcome[];
}

export interface Token {
  id: string;
  name: string;
  scopes: Scope[];
  granted_by: string;
  created_us: number;
  expires_us: number | null;
  revoked_us: number | null;
}

export interface Webhook {
  name: string;
  url: string;
  events: string[];
  disabled: { since_us: number; reason: string } | null;
  pending: number;
  delivered: number;
  failed: number;
  dropped: number;
  last_error: string;
}

export interface Setting {
  name: string;
  value: unknown;
  default: unknown;
  text: string;
  changed: boolean;
}

/** An entry of the evidence log, or what a feed shows of it to those who may not read the log. */
export interface Entry {
  v: number;
  seq: number;
  time_us: number;
  kind: string;
  actor?: string;
  subject: Record<string, unknown>;
  body: Record<string, unknown>;
}
