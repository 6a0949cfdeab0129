// What a check consists of, in the order in which it is shown.

export type StepName = 'entry' | 'leaf' | 'path' | 'head' | 'signature' | 'kept' | 'rule';

/**
 * good: it holds; broken: it does not; open: what it takes to check it is missing; elsewhere: it is checked by other
 * programs and not by this page; none: there is nothing to check.
 */
export type StepState = 'good' | 'broken' | 'open' | 'elsewhere' | 'none';

export interface Step {
  name: StepName;
  title: string;
  state: StepState;
  text: string;
  /** What to run in a terminal to check it, in this order. */
  commands: readonly string[];
}

const TITLES: Record<StepName, string> = {
  entry: 'Bytes of the entry',
  leaf: 'Leaf of the tree',
  path: 'Path to the root',
  head: 'Head of the log',
  signature: 'Signature of the head',
  kept: 'Same log as before',
  rule: 'Rule of the verdict',
};

export function step(name: StepName, state: StepState, text: string, commands: readonly string[] = []): Step {
  return { name, title: TITLES[name], state, text, commands };
}
