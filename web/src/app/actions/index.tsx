// Actions: buttons that open the one dialog. See action.ts.

import { Button } from '../../ui/button';
import type { Promotion } from '../../api/types';
import { startAction, whyNot, type Action } from './action';
import { actionsOf } from './promotion';

export { ActionHost } from './dialog';
export { startAction, whyNot, type Action, type Shown } from './action';
export { abort, actionsOf, approve, pause, redact, resume, rollback, waive } from './promotion';
export { issueToken, liftBlock, liftHold, revokeToken, scheduleAction, webhookAction, type TokenDraft } from './others';

export interface ActionButtonProps {
  action: Action;
  /** Called with the answer when it is done, and with undefined when what is shown should be read again. */
  onDone?: (answer: unknown) => void;
  /** Say why it is refused only in the tooltip and to screen readers (rows of a table). */
  quiet?: boolean;
}

export function ActionButton({ action, onDone, quiet }: ActionButtonProps) {
  return (
    <Button kind={action.kind ?? 'plain'} refused={whyNot(action)} quiet={quiet} onClick={() => startAction(action, onDone)}>{action.verb}</Button>
  );
}

/** All actions on a promotion. `onDone` gets the promotion as it is after one, or undefined to read it again. */
export function PromotionActions({ promotion, onDone }: { promotion: Promotion; onDone?: (now: Promotion | undefined) => void }) {
  return (
    <div class="actions" role="group" aria-label="Actions">
      {actionsOf(promotion).map((action) => (
        <ActionButton key={action.name} action={action} onDone={(answer) => onDone?.(answer as Promotion | undefined)} />
      ))}
    </div>
  );
}
