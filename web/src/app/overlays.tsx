// The dialogs that keys open: search and help. Loaded when first opened.

import { signal } from '@preact/signals';
import type { ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { onSessionChange, session } from '../api/session';

export type Overlay = 'search' | 'help' | null;
export const overlay = signal<Overlay>(null);

let person = session.value?.token;
onSessionChange(() => {
  if (session.value?.token !== person) overlay.value = null;
  person = session.value?.token;
});

interface OverlayProps {
  onClose: () => void;
}

const loads: Record<'search' | 'help', () => Promise<{ default: ComponentType<OverlayProps> }>> = {
  search: () => import('./search'),
  help: () => import('./help'),
};

export function Overlays() {
  const wanted = overlay.value;
  const [shown, setShown] = useState<{ name: Overlay; view: ComponentType<OverlayProps> } | null>(null);
  useEffect(() => {
    if (!wanted) return setShown(null);
    let gone = false;
    loads[wanted]().then(
      (module) => { if (!gone) setShown({ name: wanted, view: module.default }); },
      () => { overlay.value = null; },
    );
    return () => { gone = true; };
  }, [wanted]);
  if (!wanted || shown?.name !== wanted) return null;
  const View = shown.view;
  return <View onClose={() => { overlay.value = null; }} />;
}
