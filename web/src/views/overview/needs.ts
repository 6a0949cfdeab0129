// What waits for whom, and how live events change the lists.

import type { LiveEvent } from '../../api/events';
import { may } from '../../api/session';
import { isOpen } from '../../ui/chip';
import type { Need, PromotionItem, Session, StatusItem } from '../../api/types';

type Waiting = Pick<PromotionItem, 'needs' | 'requester' | 'request'>;

/** What this person can do so that the promotion goes on. Nobody approves or waives what they asked for, or what took from
 * a recipe that they set. */
export function needsOf(item: Waiting, who: Session | null): Need[] {
  if (!who) return [];
  const own = [item.requester, item.request?.recipe?.set_by].some((name) => name?.toLowerCase() === who.name.toLowerCase());
  return (item.needs ?? []).filter((need) => may(need.scope, who) && !(own && (need.action === 'approve' || need.action === 'waive')));
}

/** The same needs, those of this person first, each with whether it is theirs. */
export function sortedNeeds(item: Waiting, who: Session | null): { need: Need; mine: boolean }[] {
  const mine = needsOf(item, who);
  const rest = (item.needs ?? []).filter((need) => !mine.includes(need));
  return [...mine.map((need) => ({ need, mine: true })), ...rest.map((need) => ({ need, mine: false }))];
}

const KINDS = new Set([
  'promotion_requested', 'state_changed', 'verdict_reached', 'approval_given', 'waiver_given', 'hold_set', 'hold_lifted', 'block_set',
  'block_lifted', 'schedule_set', 'schedule_deleted', 'schedule_fired', 'schedule_skipped', 'model_bootstrapped', 'guard_armed',
  'guard_alarmed', 'guard_ended', 'route_applied',
]);

/** Whether an event changes what the overview shows in another way than by a promotion's new state in place. */
export function changesOverview(event: LiveEvent): boolean {
  return event.type === 'entry' && KINDS.has(event.entry.kind);
}

/** Whether an event changes which promotions are listed, or those that are not open any more. */
export function changesPromotions(event: LiveEvent): boolean {
  return event.type === 'entry' && (event.entry.kind === 'promotion_requested' || event.entry.kind === 'state_changed');
}

/** The list with the promotion as it is now; the same list when it is not in it. */
export function withPromotion(list: PromotionItem[], item: PromotionItem): PromotionItem[] {
  const at = list.findIndex((one) => one.id === item.id);
  return at < 0 ? list : replaced(list, at, item);
}

/** The same for models. A model shows its open promotion, or else a queued one. */
export function withModelPromotion(list: StatusItem[], item: PromotionItem): StatusItem[] {
  const takesOver = isOpen(item.state) && item.state !== 'queued';
  const at = list.findIndex((one) => {
    if (one.model !== item.model || one.promotion?.id === item.id) return one.model === item.model;
    return one.promotion === null ? isOpen(item.state) : takesOver && one.promotion.state === 'queued';
  });
  return at < 0 ? list : replaced(list, at, { ...(list[at] as StatusItem), promotion: item });
}

function replaced<T>(list: T[], at: number, item: T): T[] {
  const copy = [...list];
  copy[at] = item;
  return copy;
}
