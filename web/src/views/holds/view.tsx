// Holds and blocks: what may not be promoted, why, and who may change that.

import { useEffect } from 'preact/hooks';
import { useList } from '../../api/resource';
import type { StatusItem } from '../../api/types';
import { Loaded, PageHead } from '../../ui/page';
import { changesHolds, HoldsAndBlocks } from './tables';

export default function View() {
  const status = useList<StatusItem>('/v1/status', { live: changesHolds, limit: 200 });
  // Holds stand in the list of models, which is read to its end.
  useEffect(() => {
    if (status.hasMore && !status.loadingMore && !status.moreError) status.more();
  });
  return (
    <>
      <PageHead title="Holds and blocks" />
      <p class="muted">Whoever has the scope operator may lift them, with a reason that becomes evidence.</p>
      <Loaded of={status}>{(models) => <HoldsAndBlocks models={models} onDone={status.reload} />}</Loaded>
    </>
  );
}
