// The rows of models and of promotions.

import { session } from '../../api/session';
import type { PromotionItem, StatusItem } from '../../api/types';
import { Link, segment } from '../../app/router';
import { Chip, StageChips, StateChip } from '../../ui/chip';
import { Name, Sentence } from '../../ui/name';
import { ShareBar } from '../../ui/share';
import { VersionName } from '../../ui/version';
import type { Column } from '../../ui/table';
import { Time } from '../../ui/time';
import { sortedNeeds } from './needs';

function Versions({ incumbent, candidate }: { incumbent: StatusItem['incumbent']; candidate: PromotionItem['candidate'] | undefined }) {
  return (
    <dl class="overview-versions">
      <div><dt>incumbent</dt><dd><VersionName version={incumbent} /></dd></div>
      {candidate && <div><dt>candidate</dt><dd><VersionName version={candidate} /></dd></div>}
    </dl>
  );
}

function PromotionLink({ item }: { item: Pick<PromotionItem, 'id'> }) {
  return <Link to={`/p/${segment(item.id)}`} class="id" data-open><Name>{item.id}</Name></Link>;
}

function Progress({ item }: { item: PromotionItem }) {
  return <><StageChips promotion={item} /><ShareBar bp={item.share_bp ?? item.canary?.share_bp} /></>;
}

function Why({ item }: { item: PromotionItem }) {
  const needs = sortedNeeds(item, session.value);
  return (
    <>
      <Sentence>{item.why || item.reason}</Sentence>
      {needs.length > 0 && (
        <ul class="overview-needs">
          {needs.map(({ need, mine }) => (
            <li key={need.action} class={mine ? 'mine' : undefined}>{mine && <strong>You: </strong>}<Sentence>{need.text}</Sentence></li>
          ))}
        </ul>
      )}
    </>
  );
}

export const promotionColumns: Column<PromotionItem>[] = [
  {
    head: 'Promotion', header: true, class: 'overview-name',
    cell: (item) => (
      <>
        <PromotionLink item={item} />
        <div class="row"><StateChip state={item.state} /> <Link to={`/models/${segment(item.model)}`}><Name>{item.model}</Name></Link></div>
      </>
    ),
  },
  { head: 'Versions', class: 'overview-versions-cell', cell: (item) => <Versions incumbent={item.baseline} candidate={item.candidate} /> },
  { head: 'Stages and share', class: 'overview-stages', cell: (item) => <Progress item={item} /> },
  { head: 'Why it stands there', class: 'overview-why', cell: (item) => <Why item={item} /> },
  { head: 'Age', class: 'overview-time', cell: (item) => <Time us={item.created_us} /> },
  { head: 'Next', class: 'overview-next', cell: (item) => (item.ended_us ? <>ended <Time us={item.ended_us} /></> : <Sentence>{item.next}</Sentence>) },
];

function ModelMarks({ item }: { item: StatusItem }) {
  return (
    <span class="row">
      {item.hold && <Chip tone="warn" icon="hold" title={item.hold.reason}>on hold</Chip>}
      {item.guard && item.guard.alarms > 0 && <Chip tone="bad" icon="bell">{item.guard.alarms === 1 ? '1 alarm' : `${item.guard.alarms} alarms`}</Chip>}
      {item.guard?.armed && <Chip tone="info" icon="running" title="The version is watched since its promotion">watched</Chip>}
      {!item.route_agrees && <Chip tone="bad" icon="error" title="What the data plane applies is not what is wanted">route differs</Chip>}
    </span>
  );
}

/** Why a model without an open promotion stands as it does. */
function Rest({ item }: { item: StatusItem }) {
  if (item.hold) return <>On hold: <Sentence>{item.hold.reason}</Sentence></>;
  if (!item.last) return <span class="muted">No promotion yet.</span>;
  return <>Last: <Link to={`/p/${segment(item.last.id)}`} data-open><Name>{item.last.id}</Name></Link> <StateChip state={item.last.state} /> <Time us={item.last.ended_us} />. <Sentence>{item.last.why}</Sentence></>;
}

function NextOfModel({ item }: { item: StatusItem }) {
  if (item.promotion) return <Sentence>{item.promotion.next}</Sentence>;
  const due = item.schedules.filter((one) => !one.paused && one.next_us !== null).sort((a, b) => (a.next_us as number) - (b.next_us as number))[0];
  return due ? <>schedule <Name>{due.name}</Name> <Time us={due.next_us} /></> : <span class="muted">nothing planned</span>;
}

export const modelColumns: Column<StatusItem>[] = [
  {
    head: 'Model', header: true, class: 'overview-name',
    cell: (item) => (
      <>
        <Link to={`/models/${segment(item.model)}`}><Name>{item.model}</Name></Link>
        {item.promotion && <div><PromotionLink item={item.promotion} /> <StateChip state={item.promotion.state} /></div>}
        <ModelMarks item={item} />
      </>
    ),
  },
  { head: 'Versions', class: 'overview-versions-cell', cell: (item) => <Versions incumbent={item.incumbent} candidate={item.promotion?.candidate} /> },
  { head: 'Stages and share', class: 'overview-stages', cell: (item) => (item.promotion ? <Progress item={item.promotion} /> : null) },
  { head: 'Why it stands there', class: 'overview-why', cell: (item) => (item.promotion ? <Why item={item.promotion} /> : <Rest item={item} />) },
  { head: 'Age', class: 'overview-time', cell: (item) => (item.promotion ? <Time us={item.promotion.created_us} /> : null) },
  { head: 'Next', class: 'overview-next', cell: (item) => <NextOfModel item={item} /> },
];
