// Short notices of what the reader has just done.

import { signal } from '@preact/signals';

const notices = signal<{ id: number; text: string }[]>([]);
let last = 0;
const SHOWN_MS = 6000;

export function notify(text: string): void {
  const id = ++last;
  notices.value = [...notices.value.slice(-2), { id, text }];
  setTimeout(() => {
    notices.value = notices.value.filter((one) => one.id !== id);
  }, SHOWN_MS);
}

/** Stands once in the shell. The text is announced separately, so it is hidden from screen readers here. */
export function Notices() {
  return <div class="notices" aria-hidden="true">{notices.value.map((one) => <p key={one.id} class="notice"><bdi>{one.text}</bdi></p>)}</div>;
}
