// One polite live region for what happens without the reader's doing.

import { signal } from '@preact/signals';

const said = signal({ text: '', turn: 0 });

/** Has screen readers say `text` when they come to it. */
export function announce(text: string): void {
  said.value = { text, turn: said.value.turn + 1 };
}

/** Stands once in the shell. The turn makes the same sentence count as new when it is said twice. */
export function Announcer() {
  const { text, turn } = said.value;
  return <div class="offscreen" role="status" aria-live="polite">{text && <span key={turn}>{text}</span>}</div>;
}
