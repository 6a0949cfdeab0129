// The contract's text beside what it means, clause by clause, and what lint warns of.

import { Chip, stageTitle } from '../../ui/chip';
import { Sentence, visible } from '../../ui/name';
import { type Block, blocksOf, type ExplainedClause, type Warning } from './blocks';

export interface Explanation {
  digest: string;
  name: string;
  yaml: string;
  lint: { valid?: boolean; faults?: Warning[]; warnings: Warning[] };
  clauses: ExplainedClause[];
  stages?: unknown[];
  text: string;
}

export function ContractText({ of }: { of: Explanation }) {
  const faults = (of.lint.faults ?? []).map((fault) => ({ ...fault, isFault: true }));
  const warnings = [...faults, ...of.lint.warnings];
  return (
    <>
      {warnings.length === 0 && <p class="muted">Lint has nothing to say against it.</p>}
      {of.lint.valid === false && <p class="fault">It was registered under older rules, and would be refused today: see the faults beside it.</p>}
      <div class="contract-blocks">
        {blocksOf(of.yaml, of.clauses, warnings).map((block) => <BlockRow key={block.first} of={block} />)}
      </div>
      <Stages of={of.stages ?? []} />
      <details class="explain-text"><summary>All that <code>driftgate contract explain</code> says</summary><pre tabIndex={0} aria-label="Explanation"><bdi>{lines(of.text)}</bdi></pre></details>
    </>
  );
}

/** Text whose line ends stay line ends, and whose other unseen characters are shown. */
function lines(text: string): string {
  return text.split('\n').map(visible).join('\n');
}

function BlockRow({ of }: { of: Block }) {
  const marked = new Set(of.warnings.map(({ line }) => line));
  return (
    <div class="contract-block">
      <ol class="yaml" start={of.first} aria-label={`Contract from line ${of.first}`}>
        {of.lines.map((line, at) => {
          const number = of.first + at;
          return <li key={number} id={`line-${number}`} class={marked.has(number) ? 'warned' : undefined}><span class="line-number" aria-hidden="true">{number}</span><code><bdi>{visible(line) || ' '}</bdi></code></li>;
        })}
      </ol>
      <div class="meaning">
        {of.clauses.map((clause) => <Meaning key={clause.clause} of={clause} />)}
        {of.warnings.map((warning, at) => (
          <p key={at} class="warning"><Chip tone={warning.isFault ? 'bad' : 'warn'} icon={warning.isFault ? 'error' : 'info'}>{warning.isFault ? 'fault' : 'lint'}</Chip> {warning.line > 0 ? `Line ${warning.line}: ` : ''}<Sentence>{warning.message}</Sentence></p>
        ))}
      </div>
    </div>
  );
}

function Meaning({ of }: { of: ExplainedClause }) {
  const needs = typeof of.needs === 'string' ? [{ stage: '', text: of.needs }] : of.needs ?? [];
  return (
    <div class="clause-meaning">
      <h3><bdi>{visible(of.clause)}</bdi>{of.severity && <> <span class="muted small">{of.severity}</span></>}</h3>
      <p class="clause-text"><bdi>{lines(of.text)}</bdi></p>
      {needs.length > 0 && (
        <ul class="needs small">{needs.map(({ stage, text }, at) => <li key={at}>{stage && <span class="muted">{stageTitle(stage)}: </span>}<Sentence>{text}</Sentence></li>)}</ul>
      )}
    </div>
  );
}

/** What a stage's plan says, in whichever of its forms. */
function planOf(item: unknown): { stage: string; text: string } {
  if (typeof item === 'string') return { stage: '', text: item };
  const { stage, text, plan } = (item ?? {}) as { stage?: unknown; text?: unknown; plan?: unknown };
  const said = text ?? (Array.isArray(plan) ? plan.join('\n') : plan);
  return { stage: typeof stage === 'string' ? stage : '', text: typeof said === 'string' ? said : '' };
}

function Stages({ of }: { of: unknown[] }) {
  const told = of.map(planOf).filter(({ text }) => text !== '');
  if (told.length === 0) return null;
  return (
    <dl class="facts contract-stages">
      {told.map(({ stage, text }, at) => <div key={at}><dt>{stage ? stageTitle(stage) : 'Plan'}</dt><dd class="clause-text"><bdi>{lines(text)}</bdi></dd></div>)}
    </dl>
  );
}
