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
  useEffect(() => {
    const dialog = box.current;
    const from = document.activeElement as HTMLElement | null;
    if (dialog && !dialog.open) dialog.showModal();
    return () => {
      if (dialog?.open) dialog.close();
      if (from?.isConnected) from.focus();
    };
  }, []);
  return (
    <dialog ref={box} class={wide ? 'dialog wide' : 'dialog'} aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        if (!busy) onClose();
      }}>
      <div class="dialog-head">
        <h2 id={id}>{title}</h2>
        <button type="button" class="button link" onClick={() => !busy && onClose()} aria-label="Close">×</button>
      </div>
      {children}
    </dialog>
  );
}
