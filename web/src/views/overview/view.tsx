// The first page: what needs you, every model and its promotion, schedules, holds and blocks.

import { useEvents } from '../../api/events';
import { useList, type List } from '../../api/resource';
import { withQuery } from '../../api/client';
import { session } from '../../api/session';
import type { PromotionItem, StatusItem, StatusPage } from '../../api/types';
import { Link, type ViewProps } from '../../app/router';
import { Command } from '../../ui/name';
import { Aged, Empty, Loaded, More, PageHead, Section } from '../../ui/page';
import { plural } from '../../ui/format';
import { Table } from '../../ui/table';
import { HoldsAndBlocks } from '../holds/tables';
import { SchedulesOfModels } from '../schedules/of_models';
import { modelColumns, promotionColumns } from './columns';
import { Filters, isFiltered, shownOf, Tabs, type Shown } from './filters';
import { changesOverview, changesPromotions, needsOf, withModelPromotion, withPromotion } from './needs';

/** How many of those that wait for the reader stand before the models. */
const FIRST = 5;
const NEEDS = '/v1/promotions?needs=true&order=oldest';

/** The models, or only the counts for the tabs. */
function useStatus(shown: Shown, q: string | null): List<StatusItem> {
  return useList<StatusItem>(withQuery('/v1/status', { q: shown ? null : q }), { live: changesOverview, limit: shown ? 1 : 50 });
}

function pathOf(shown: Shown, query: URLSearchParams): string | null {
  if (!shown) return null;
  const filters = Object.fromEntries(['q', 'model', 'state', 'requester', 'contract', 'order'].map((name) => [name, query.get(name)]));
  if (shown !== 'all') filters['state'] = null;
  return withQuery('/v1/promotions', { ...filters, needs: shown === 'needs', open: shown === 'open' });
}

export default function View({ query }: ViewProps) {
  const shown = shownOf(query);
  const status = useStatus(shown, query.get('q'));
  const needs = useList<PromotionItem>(NEEDS, { live: changesPromotions });
  const listed = useList<PromotionItem>(pathOf(shown, query), { live: changesPromotions });
  useEvents((event) => {
    if (event.type !== 'progress') return;
    const { item } = event;
    status.patch((list) => withModelPromotion(list, item));
    needs.patch((list) => withPromotion(list, item));
    listed.patch((list) => withPromotion(list, item));
  });
  const counts = (status.first as StatusPage | undefined)?.counts;
  const mine = needs.data?.filter((item) => needsOf(item, session.value).length > 0);
  const who = mine?.length || !needs.data?.length ? 'Needs you' : 'Needs people';
  const tabs = [
    { show: '' as const, text: 'Models', count: counts?.models ?? null },
    { show: 'needs' as const, text: who, count: needs.data ? `${mine?.length || needs.data.length}${needs.hasMore ? '+' : ''}` : null },
    { show: 'open' as const, text: 'Open promotions', count: counts?.open ?? null },
    { show: 'all' as const, text: 'All promotions', count: null },
  ];
  // What waits for the reader comes first.
  const ordered = [tabs[1], tabs[0], tabs[2], tabs[3]] as typeof tabs;
  // What waits stands above the models: they are shown together, so that nothing moves under the reader's hand.
  if (!shown && !needs.data && !needs.error) {
    return (
      <>
        <PageHead title="Models and promotions" />
        <Tabs tabs={ordered} shown={shown} />
        <p class="muted loading" aria-busy="true">Loading…</p>
      </>
    );
  }
  return (
    <>
      <PageHead title="Models and promotions" />
      <Tabs tabs={ordered} shown={shown} />
      {!shown && mine && mine.length > 0 && (
        <Section title={`Needs you: ${plural(mine.length, 'promotion')}${needs.hasMore ? ' and more' : ''}`}>
          <Aged><Table caption="Promotions that wait for you" columns={promotionColumns} rows={mine.slice(0, FIRST)} id={idOf} class="overview-table roomy" keys /></Aged>
          {mine.length > FIRST && <p class="more"><Link to="/?show=needs">All that wait</Link></p>}
        </Section>
      )}
      <Section title={titleOf(shown)}>
        <Filters query={query} shown={shown} />
        {shown ? <Promotions list={listed} shown={shown} filtered={isFiltered(query)} /> : <Models list={status} filtered={isFiltered(query)} />}
      </Section>
      {!shown && status.data && (
        <Aged>
          <SchedulesOfModels models={status.data} />
          <HoldsAndBlocks models={status.data} onDone={status.reload} brief />
        </Aged>
      )}
    </>
  );
}

function idOf(item: PromotionItem): string {
  return item.id;
}

function modelOf(item: StatusItem): string {
  return item.model;
}

function titleOf(shown: Shown): string {
  if (shown === 'needs') return 'Promotions that wait for people';
  if (shown === 'open') return 'Open promotions';
  return shown === 'all' ? 'All promotions' : 'Models';
}

function Models({ list, filtered }: { list: List<StatusItem>; filtered: boolean }) {
  return (
    <Loaded of={list}>
      {(items) => items.length ? (
        <>
          <Table caption="Models and their promotions" columns={modelColumns} rows={items} id={modelOf} class="overview-table roomy" keys />
          <More of={list} />
        </>
      ) : filtered ? <Empty title="No model has this name" /> : (
        <Empty title="No model yet">
          <p>Register a kernel and an engine, then install the first version:</p>
          <Command>{'driftgate model create MODEL --engine ENGINE --reason "first version"'}</Command>
          <p>After that, this starts a promotion:</p>
          <Command>driftgate promote MODEL --engine ENGINE --contract CONTRACT --wait</Command>
        </Empty>
      )}
    </Loaded>
  );
}

function Promotions({ list, shown, filtered }: { list: List<PromotionItem>; shown: Shown; filtered: boolean }) {
  return (
    <Loaded of={list}>
      {(items) => items.length ? (
        <>
          <Table caption={titleOf(shown)} columns={promotionColumns} rows={items} id={idOf} class="overview-table roomy" keys />
          <More of={list} />
        </>
      ) : filtered ? <Empty title="No promotion matches the filters" /> : shown === 'needs' ? (
        <Empty title="Nothing waits for people"><p>Promotions that wait for an approval, are paused or inconclusive stand here.</p></Empty>
      ) : (
        <Empty title={shown === 'open' ? 'No promotion is open' : 'No promotion yet'}>
          <p>This starts one:</p>
          <Command>driftgate promote MODEL --engine ENGINE --contract CONTRACT --wait</Command>
        </Empty>
      )}
    </Loaded>
  );
}
