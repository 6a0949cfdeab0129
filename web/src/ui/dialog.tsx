// A modal dialog: the browser's own, which keeps the focus inside and gives it back.

import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';

export interface DialogProps {
  title: ComponentChildren;
  /** Called when the reader wants to leave: Escape or the close button. */
  onClose: () => void;
  children: ComponentChildren;
  /** While it is set, Escape does not close (a request is on its way). */
  busy?: boolean;
  wide?: boolean;
}

export function Dialog({ title, onClose, children, busy, wide }: DialogProps) {
  const box = useRef<HTMLDialogElement>(null);
  const id = useId();
  const left = useRef(false);
  // Taken before the dialog is there, since a field in it may take the focus as soon as it is.
  const from = useRef(document.activeElement as HTMLElement | null);
  useEffect(() => {
    const dialog = box.current;
    if (dialog && !dialog.open) dialog.showModal();
    return () => {
      left.current = true;
      if (dialog?.open) dialog.close();
      if (from.current?.isConnected) from.current.focus();
      // The button may be gone, or go with the next drawing: the focus then stays on the page's content.
      requestAnimationFrame(() => {
        if (document.activeElement === document.body) document.getElementById('main')?.focus();
      });
    };
  }, []);
  return (
    <dialog ref={box} class={wide ? 'dialog wide' : 'dialog'} aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        if (!busy) onClose();
      }}
      onClose={() => {
        if (left.current) return; // told late of being closed when it went
        // The browser may close it without asking, such as at a second Escape.
        if (busy) box.current?.showModal();
        else onClose();
      }}>
      <div class="dialog-head">
        <h2 id={id}>{title}</h2>
        <button type="button" class="button link" onClick={() => !busy && onClose()} aria-label="Close">×</button>
      </div>
      {children}
    </dialog>
  );
}
