// What a check consists of, in the order in which it is shown.

import type { Comparison } from './rules';

export type StepName = 'entry' | 'leaf' | 'path' | 'head' | 'signature' | 'kept' | 'rule';

/** good: it holds; broken: it does not; open: what it takes to check it is missing; none: there is nothing to check. */
export type StepState = 'good' | 'broken' | 'open' | 'none';

export interface Step {
  name: StepName;
  title: string;
  state: StepState;
  text: string;
  comparisons?: Comparison[];
}

const TITLES: Record<StepName, string> = {
  entry: 'Bytes of the entry',
  leaf: 'Leaf of the tree',
  path: 'Path to the root',
  head: 'Head of the log',
  signature: 'Signature of the head',
  kept: 'Same log as before',
  rule: 'Verdict from its numbers',
};

export function step(name: StepName, state: StepState, text: string, comparisons?: Comparison[]): Step {
  return { name, title: TITLES[name], state, text, ...(comparisons ? { comparisons } : {}) };
}
