// Names, digests and other text that people or files chose. It is untrusted: each piece is isolated, so that marks for
// right-to-left text in it cannot reorder what stands around it, and invisible characters are shown.

import { useEffect, useRef, useState } from 'preact/hooks';
import { announce } from './announce';
import { Icon } from './icons';

// Controls, zero-width and direction characters, line separators, tags: all that takes no visible room.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

/** The text with each character that cannot be seen written as ⟨U+202E⟩. */
export function visible(text: string): string {
  return text.replace(UNSEEN, (character) => `⟨U+${(character.codePointAt(0) as number).toString(16).toUpperCase().padStart(4, '0')}⟩`);
}

/** A name in running text. */
export function Name({ children, class: name }: { children: string | null | undefined; class?: string }) {
  return <bdi class={name ? `name ${name}` : 'name'}>{visible(children ?? '')}</bdi>;
}

/** A sentence that holds names (why, next, a reason, a problem's detail). */
export function Sentence({ children }: { children: string | null | undefined }) {
  return <bdi class="sentence">{visible(children ?? '')}</bdi>;
}

/** A digest, shortened, with its whole text for the copy button, in the tooltip and for screen readers on demand. */
export function Digest({ children, copy = true, whole = false }: { children: string | null | undefined; copy?: boolean; whole?: boolean }) {
  if (!children) return <span class="muted">none</span>;
  const shown = whole ? children : shortDigest(children);
  return (
    <span class="digest">
      <code title={visible(children)}>{visible(shown)}</code>
      {copy && <Copy text={children} label={`Copy ${shown}`} />}
    </span>
  );
}

/** `sha256:0123456789ab…` for a long digest; anything else as it is. */
export function shortDigest(digest: string): string {
  const hex = /^(sha256:)?([0-9a-f]{64})$/.exec(digest);
  return hex ? `${hex[1] ?? ''}${(hex[2] as string).slice(0, 12)}…` : digest;
}

async function toClipboard(text: string): Promise<boolean> {
  try {
    if (navigator.clipboard) {
      await navigator.clipboard.writeText(text);
      return true;
    }
  } catch {
    // Refused: the older way may still work.
  }
  // The clipboard's own interface is absent on plain http beyond localhost.
  const area = document.createElement('textarea');
  area.value = text;
  area.className = 'offscreen';
  (document.querySelector('dialog[open]') ?? document.body).append(area);
  const focused = document.activeElement as HTMLElement | null;
  area.select();
  const done = document.execCommand('copy');
  area.remove();
  focused?.focus();
  return done;
}

/** A button that copies `text`. */
export function Copy({ text, label = 'Copy', word = false }: { text: string; label?: string; word?: boolean }) {
  const [state, setState] = useState<'' | 'Copied' | 'Not copied'>('');
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const copy = async () => {
    const done = await toClipboard(text);
    setState(done ? 'Copied' : 'Not copied');
    announce(done ? 'Copied.' : 'The browser refused to copy.');
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setState(''), 2000);
  };
  return (
    <button type="button" class="copy" onClick={copy} aria-label={visible(label)} title={visible(label)}>
      <Icon name={state === 'Copied' ? 'pass' : 'copy'} />
      {(word || state) && <span>{state || 'Copy'}</span>}
    </button>
  );
}

/** A command to run in a terminal, ready to copy. */
export function Command({ children }: { children: string }) {
  return (
    <div class="command">
      <pre tabIndex={0} aria-label="Command"><code>{visible(children)}</code></pre>
      <Copy text={children} label="Copy the command" word />
    </div>
  );
}
