// `/p/ID`: one promotion, what was decided and on which figures, and what a person can do about it.
import type { ComponentChild } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { concerns, useEvents } from '../../api/events';
import { useResource } from '../../api/resource';
import type { Promotion } from '../../api/types';
import { Link, type ViewProps } from '../../app/router';
import { readSeries } from '../../charts/series';
import { Loaded, PageHead } from '../../ui/page';
import { Bounds } from './bounds';
import { Live } from './live';
import { Parties } from './parties';
import { Ramp } from './ramp';
import { Stages } from './stages';
import { Standing } from './standing';
import { createStore, promotionPath, slicesPath, withProgress, type PromotionStore } from './store';

/** Points of a series: more could not be told apart at the width of a chart. */
const POINTS = 256;
/** Least time between two readings of the series that progress asks for. */
const SERIES_MS = 1500;

export default function View({ params }: ViewProps) {
  const id = params['id'] ?? '';
  return <PromotionPage key={id} id={id} />;
}

function PromotionPage({ id }: { id: string }) {
  const path = promotionPath(id);
  const promotion = useResource<Promotion>(path, { live: (event) => event.type === 'entry' && concerns(event, id) });
  const looked = useRef(0);
  const series = useResource<unknown>(`${path}/series?points=${POINTS}`, {
    live: (event) => {
      // Entries say that something was decided; progress comes all the time and is followed at a calm pace.
      if (!concerns(event, id) || (event.type === 'progress' && Date.now() - looked.current < SERIES_MS)) return false;
      looked.current = Date.now();
      return true;
    },
  });
  useEvents((event) => {
    if (event.type === 'progress' && event.item.id === id) promotion.patch((known) => withProgress(known, event.item));
  });
  const newest = useRef(promotion);
  newest.current = promotion;
  const store = useRef<PromotionStore | null>(null);
  if (promotion.data && !store.current) {
    store.current = createStore(id, promotion.data, (now) => {
      if (now) newest.current.patch(() => now);
      else newest.current.reload();
    });
  }
  useLayoutEffect(() => {
    if (store.current && promotion.data) store.current.promotion.value = promotion.data;
  }, [promotion.data]);
  useLayoutEffect(() => {
    if (store.current && series.data !== undefined) store.current.series.value = readSeries(series.data);
  }, [series.data, !promotion.data]);
  const known = store.current;
  const body = useMemo(() => known && <Body store={known} />, [known]);
  return (
    <>
      <PageHead title={promotion.data ? `Promotion of ${promotion.data.model}` : 'Promotion'}>
        <Link class="button" to={slicesPath(id)}>Slices</Link>
      </PageHead>
      <Loaded of={promotion} what="Reading the promotion…">{() => body}</Loaded>
    </>
  );
}

function Body({ store }: { store: PromotionStore }) {
  return (
    <InTurn parts={[
      <Standing store={store} />, <Parties store={store} />, <Stages store={store} />, <Ramp store={store} />, <Live store={store} />, <Bounds store={store} />,
    ]} />
  );
}

/** Shows its parts one after another, each in a task of its own: what is read first is there first, and a click in
 * between does not wait for what is still below the window. */
function InTurn({ parts }: { parts: ComponentChild[] }) {
  const [shown, setShown] = useState(1);
  useEffect(() => {
    if (shown >= parts.length) return;
    const timer = setTimeout(() => setShown(shown + 1));
    return () => clearTimeout(timer);
  }, [shown]);
  return <>{parts.slice(0, shown)}{shown < parts.length && <div aria-busy="true" />}</>;
}
