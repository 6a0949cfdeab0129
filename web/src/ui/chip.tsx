// Chips: an icon and a word. Colour is never the only sign.

import type { PromotionItem, PromotionState, StageItem, StageName } from '../api/types';
import { plural, words } from './format';
import { Icon, type IconName } from './icons';

export type Tone = 'good' | 'bad' | 'warn' | 'info' | 'quiet';

export interface ChipProps {
  tone: Tone;
  icon: IconName;
  children: string;
  title?: string;
}

export function Chip({ tone, icon, children, title }: ChipProps) {
  return <span class={`chip ${tone}`} title={title}><Icon name={icon} /><span>{children}</span></span>;
}

const VERDICTS: Record<string, [Tone, IconName]> = {
  pass: ['good', 'pass'],
  violated: ['bad', 'violated'],
  inconclusive: ['warn', 'inconclusive'],
  error: ['bad', 'error'],
};

export function VerdictChip({ verdict, title }: { verdict: string; title?: string }) {
  const [tone, icon] = VERDICTS[verdict] ?? ['quiet', 'none'];
  return <Chip tone={tone} icon={icon} title={title}>{words(verdict)}</Chip>;
}

const STATES: Record<PromotionState, [Tone, IconName]> = {
  queued: ['quiet', 'waiting'],
  running: ['info', 'running'],
  paused: ['warn', 'paused'],
  awaiting_approval: ['warn', 'person'],
  inconclusive: ['warn', 'inconclusive'],
  rolling_back: ['bad', 'back'],
  finalizing: ['info', 'running'],
  succeeded: ['good', 'pass'],
  rejected: ['bad', 'violated'],
  errored: ['bad', 'error'],
  aborted: ['quiet', 'violated'],
  expired: ['quiet', 'waiting'],
  superseded: ['quiet', 'none'],
};

export function StateChip({ state }: { state: PromotionState }) {
  const [tone, icon] = STATES[state] ?? ['quiet', 'none'];
  return <Chip tone={tone} icon={icon}>{words(state)}</Chip>;
}

const OPEN = new Set<PromotionState>(['queued', 'running', 'paused', 'awaiting_approval', 'inconclusive', 'rolling_back', 'finalizing']);

/** Whether a promotion has not ended. */
export function isOpen(state: PromotionState): boolean {
  return OPEN.has(state);
}

export const STAGES: { stage: StageName; short: string; long: string }[] = [
  { stage: 'offline-numeric', short: 'numeric', long: 'Offline numeric' },
  { stage: 'statistical-slice', short: 'slices', long: 'Statistical slices' },
  { stage: 'shadow-runtime', short: 'shadow', long: 'Shadow runtime' },
  { stage: 'canary', short: 'canary', long: 'Canary' },
];

export function stageTitle(stage: string | null | undefined): string {
  return STAGES.find((one) => one.stage === stage)?.long ?? stage ?? 'no stage';
}

export interface StageLook {
  tone: Tone;
  icon: IconName;
  word: string;
  detail: string;
}

/** How one stage of a promotion stands: its newest attempt, or why there is none. */
export function stageLook(promotion: Pick<PromotionItem, 'state' | 'stage' | 'stages'>, stage: StageName): StageLook {
  const run = promotion.stages.filter((one) => one.stage === stage).at(-1);
  if (!run) return { tone: 'quiet', icon: 'none', word: 'not reached', detail: 'not reached' };
  const verdict = run.verdict ?? (run.state in VERDICTS ? run.state : null);
  if (verdict && verdict in VERDICTS) {
    const [tone, icon] = VERDICTS[verdict] as [Tone, IconName];
    return { tone, icon, word: words(verdict), detail: details(run) };
  }
  if (run.state === 'stopped') return { tone: 'quiet', icon: 'paused', word: 'stopped', detail: details(run) };
  if (run.stage === promotion.stage && (promotion.state === 'awaiting_approval' || promotion.state === 'paused')) {
    const approval = promotion.state === 'awaiting_approval';
    return { tone: 'warn', icon: approval ? 'person' : 'paused', word: approval ? 'waiting' : 'paused', detail: details(run) };
  }
  if (!isOpen(promotion.state)) return { tone: 'quiet', icon: 'paused', word: 'stopped', detail: details(run) };
  return { tone: 'info', icon: 'running', word: 'running', detail: details(run) };
}

function details(run: StageItem): string {
  const parts: string[] = [];
  if (run.counts) {
    for (const word of ['violated', 'error', 'inconclusive', 'pass'] as const) {
      if (run.counts[word]) parts.push(`${plural(run.counts[word], 'clause')} ${word}`);
    }
  }
  if (run.progress?.text) parts.push(run.progress.text);
  if (run.attempt > 1) parts.push(`attempt ${run.attempt}`);
  return parts.join(', ') || words(run.state);
}

/** The four stages of a promotion as chips. */
export function StageChips({ promotion }: { promotion: Pick<PromotionItem, 'state' | 'stage' | 'stages'> }) {
  return (
    <ol class="stages" aria-label="Stages">
      {STAGES.map(({ stage, short }) => {
        const look = stageLook(promotion, stage);
        return (
          <li key={stage}>
            <span class="stage-name">{short}</span>
            <Chip tone={look.tone} icon={look.icon} title={look.detail}>{look.word}</Chip>
          </li>
        );
      })}
    </ol>
  );
}
