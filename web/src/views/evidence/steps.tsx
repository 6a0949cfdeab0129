// The result of a check: its sentence, then each step.

import { useEffect, useRef } from 'preact/hooks';
import type { Checked } from '../../proof/check';
import type { Step, StepState } from '../../proof/steps';
import { num } from '../../ui/format';
import { Icon } from '../../ui/icons';
import { Command, visible } from '../../ui/name';
import { iconOf } from './pinned';

const WORDS: Record<StepState, string> = { good: 'holds', broken: 'broken', open: 'cannot be checked', elsewhere: 'not checked here', none: 'nothing to check' };

function StepLine({ of }: { of: Step }) {
  return (
    <li class={`step ${of.state}`}>
      <p class="step-title"><Icon name={iconOf(of.state)} /> <strong>{of.title}</strong> <span class="step-word">{WORDS[of.state]}</span></p>
      <p class="step-text"><bdi>{visible(of.text)}</bdi></p>
      {of.commands.map((one) => <Command key={one}>{one}</Command>)}
    </li>
  );
}

export function sentenceOf(checked: Checked): string {
  const broken = checked.steps.find(({ state }) => state === 'broken');
  if (checked.continuity === 'rollback') return 'Broken: the log was rolled back.';
  if (checked.continuity === 'fork') return 'Broken: the log is a fork of the one seen before.';
  if (broken) return `Broken at: ${broken.title.toLowerCase()}.`;
  const left = checked.steps.filter(({ state }) => state === 'open' || state === 'elsewhere').map(({ title }) => title.toLowerCase()).join(', ');
  if (checked.state === 'open') return `What could be checked holds; not checked: ${left}.`;
  return left === '' ? 'Verified in this browser.' : `Verified in this browser; not checked here: ${left}.`;
}

export function Result({ checked }: { checked: Checked }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => box.current?.scrollIntoView({ block: 'nearest' }), [checked]);
  return (
    <div ref={box} class={`check-result ${checked.state}`} role="status">
      <p class="check-sentence"><Icon name={iconOf(checked.state)} /> {sentenceOf(checked)} <span class="muted small">Computed in {num(Math.max(checked.ms, 0.1), 2)} ms.</span></p>
      <ol class="steps">{checked.steps.map((step) => <StepLine key={step.name} of={step} />)}</ol>
    </div>
  );
}
