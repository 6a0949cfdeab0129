// Buttons. One that is refused stays in the tab order and says why.

import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';
import { visible } from './name';

export interface ButtonProps {
  children: ComponentChildren;
  onClick?: (event: MouseEvent) => void;
  kind?: 'plain' | 'primary' | 'danger' | 'link';
  type?: 'button' | 'submit';
  /** Why it cannot be used; shown under the button, or only told and in its tooltip when `quiet`. */
  refused?: string | null;
  quiet?: boolean;
  busy?: boolean;
  label?: string;
  pressed?: boolean;
}

export function Button({ children, onClick, kind = 'plain', type = 'button', refused, quiet, busy, label, pressed }: ButtonProps) {
  const why = useId();
  const off = !!refused || !!busy;
  const click = (event: MouseEvent) => {
    if (off) event.preventDefault();
    else onClick?.(event);
  };
  const button = (
    <button type={type} class={`button ${kind}`} aria-disabled={off || undefined} aria-busy={busy || undefined} aria-label={label}
      aria-pressed={pressed} aria-describedby={refused ? why : undefined} title={refused ? visible(refused) : undefined} onClick={click}>
      {children}
    </button>
  );
  // What may be refused stands in the same place when it is not, so that it keeps the focus.
  if (refused === undefined) return button;
  return <span class="refusable">{button}{refused && <span id={why} class={quiet ? 'offscreen' : 'refusal'}><bdi>{visible(refused)}</bdi></span>}</span>;
}
