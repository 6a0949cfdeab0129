// The result of a check: its sentence, then each step with what it compared.

import { useEffect, useRef } from 'preact/hooks';
import type { Checked } from '../../proof/check';
import type { Comparison } from '../../proof/rules';
import type { Step, StepState } from '../../proof/steps';
import { num } from '../../ui/format';
import { Icon } from '../../ui/icons';
import { visible } from '../../ui/name';
import { iconOf } from './pinned';

const WORDS: Record<StepState, string> = { good: 'holds', broken: 'broken', open: 'cannot be checked', none: 'nothing to check' };

/** Numbers with as many digits as it takes to tell them from what they are compared with. */
function told({ leftValue, rightValue }: Comparison): [string, string] {
  for (let digits = 4; digits < 17; digits += 2) {
    const [a, b] = [num(leftValue, digits), num(rightValue, digits)];
    if (a !== b || leftValue === rightValue) return [a, b];
  }
  return [String(leftValue), String(rightValue)];
}

function Compared({ of }: { of: Comparison }) {
  const [left, right] = told(of);
  return (
    <li>
      <Icon name={of.holds ? 'pass' : 'violated'} /> <bdi>{visible(of.left)}</bdi> {left} {of.sign} {right} <bdi>{visible(of.right)}</bdi>: {of.holds ? 'yes' : 'no'}
    </li>
  );
}

function StepLine({ of }: { of: Step }) {
  return (
    <li class={`step ${of.state}`}>
      <p class="step-title"><Icon name={iconOf(of.state)} /> <strong>{of.title}</strong> <span class="step-word">{WORDS[of.state]}</span></p>
      <p class="step-text"><bdi>{visible(of.text)}</bdi></p>
      {of.comparisons && of.comparisons.length > 0 && <ul class="comparisons">{of.comparisons.map((one, at) => <Compared key={at} of={one} />)}</ul>}
    </li>
  );
}

export function sentenceOf(checked: Checked): string {
  const broken = checked.steps.find(({ state }) => state === 'broken');
  if (checked.continuity === 'rollback') return 'Broken: the log was rolled back.';
  if (checked.continuity === 'fork') return 'Broken: the log is a fork of the one seen before.';
  if (broken) return `Broken at: ${broken.title.toLowerCase()}.`;
  const open = checked.steps.filter(({ state }) => state === 'open');
  if (open.length > 0) return `What could be checked holds; not checked: ${open.map(({ title }) => title.toLowerCase()).join(', ')}.`;
  return 'Verified in this browser.';
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
