// Holds of models and blocks of pairs, with who may lift them.

import { useList } from '../../api/resource';
import type { Block, StatusItem } from '../../api/types';
import { ActionButton, liftBlock, liftHold } from '../../app/actions';
import { Link, segment } from '../../app/router';
import { Digest, Name, Sentence } from '../../ui/name';
import { Empty, Loaded, More, Section } from '../../ui/page';
import { Table, type Column } from '../../ui/table';
import { Time } from '../../ui/time';
import type { LiveEvent } from '../../api/events';

const KINDS = new Set(['hold_set', 'hold_lifted', 'block_set', 'block_lifted']);

export function changesHolds(event: LiveEvent): boolean {
  return event.type === 'entry' && KINDS.has(event.entry.kind);
}

function holdColumns(onDone: () => void): Column<StatusItem>[] {
  return [
    { head: 'Model', header: true, cell: (item) => <Link to={`/models/${segment(item.model)}`}><Name>{item.model}</Name></Link> },
    { head: 'Why', cell: (item) => <Sentence>{item.hold?.reason}</Sentence> },
    { head: 'Held by', cell: (item) => <Name>{item.hold?.by}</Name> },
    { head: 'Since', cell: (item) => <Time us={item.hold?.since_us} /> },
    { head: 'Promotion', cell: (item) => (item.hold?.promotion ? <Link to={`/p/${segment(item.hold.promotion)}`}><Name>{item.hold.promotion}</Name></Link> : <span class="muted">none</span>) },
    { head: 'Lift (operator)', cell: (item) => <ActionButton action={liftHold({ name: item.model, hold: item.hold })} onDone={onDone} quiet /> },
  ];
}

function blockColumns(onDone: () => void): Column<Block>[] {
  return [
    { head: 'Block', header: true, cell: (block) => <Name>{block.id}</Name> },
    { head: 'Kernel', cell: (block) => <Name>{block.kernel}</Name> },
    { head: 'Checkpoint', cell: (block) => <Digest>{block.checkpoint}</Digest> },
    { head: 'Contract', cell: (block) => <Link to={`/c/${segment(block.contract)}`}><Digest copy={false}>{block.contract}</Digest></Link> },
    { head: 'Why', cell: (block) => <Sentence>{block.reason}</Sentence> },
    { head: 'Set by', cell: (block) => <><Name>{block.by}</Name> <Time us={block.since_us} /></> },
    { head: 'Promotion', cell: (block) => <Link to={`/p/${segment(block.promotion)}`}><Name>{block.promotion}</Name></Link> },
    {
      head: 'Lift (operator)',
      cell: (block) => block.lifted
        ? <>lifted by <Name>{block.lifted.by}</Name> <Time us={block.lifted.since_us} />: <Sentence>{block.lifted.reason}</Sentence></>
        : <ActionButton action={liftBlock(block)} onDone={onDone} quiet />,
    },
  ];
}

/** Both tables. `brief` leaves out lifted blocks, and everything when there is neither hold nor block. */
export function HoldsAndBlocks({ models, onDone, brief }: { models: StatusItem[]; onDone: () => void; brief?: boolean }) {
  const blocks = useList<Block>('/v1/blocks', { live: changesHolds, limit: 200 });
  const held = models.filter((item) => item.hold);
  const shown = blocks.data?.filter((block) => !brief || !block.lifted);
  if (brief && !held.length && !shown?.length) return null;
  const done = () => {
    onDone();
    blocks.reload();
  };
  return (
    <>
      {(!brief || held.length > 0) && (
        <Section title="Holds">
          {held.length ? <Table caption="Models on hold" columns={holdColumns(done)} rows={held} id={(item) => item.model} keys />
            : <Empty title="No model is on hold"><p>A rollback puts its model on hold, so that nothing is promoted before somebody has looked.</p></Empty>}
        </Section>
      )}
      {(!brief || !!shown?.length) && (
        <Section title="Blocks">
          <Loaded of={blocks}>
            {() => shown?.length ? <><Table caption="Blocked pairs of checkpoint and kernel" columns={blockColumns(done)} rows={shown} id={(block) => block.id} keys /><More of={blocks} /></>
              : <Empty title="No pair is blocked"><p>A checkpoint and kernel that did harm are blocked under their contract.</p></Empty>}
          </Loaded>
        </Section>
      )}
    </>
  );
}
