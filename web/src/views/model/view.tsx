// One model: what serves it, its route as wanted and as applied, its hold, its guard, its promotions and schedules.

import { concerns, useEvents, type LiveEvent } from '../../api/events';
import { useList, useResource } from '../../api/resource';
import { withQuery } from '../../api/client';
import type { Guard, Model, PromotionItem, RouteState, Schedule } from '../../api/types';
import { ActionButton, liftHold } from '../../app/actions';
import { Link, segment, type ViewProps } from '../../app/router';
import { Chip } from '../../ui/chip';
import { count, duration, percent } from '../../ui/format';
import { Command, Digest, Name, Sentence } from '../../ui/name';
import { Empty, Facts, Loaded, More, PageHead, Section } from '../../ui/page';
import { Table } from '../../ui/table';
import { Time } from '../../ui/time';
import { VersionName } from '../../ui/version';
import { promotionColumns } from '../overview/columns';
import { changesOverview, changesPromotions, withPromotion } from '../overview/needs';
import { Fire } from '../schedules/fires';

function about(name: string): (event: LiveEvent) => boolean {
  return (event) => changesOverview(event) && event.type === 'entry' && (event.entry.subject['model'] === name || !event.entry.subject['model']);
}

export default function View({ params }: ViewProps) {
  const name = params['name'] ?? '';
  const model = useResource<Model>(`/v1/models/${encodeURIComponent(name)}`, { live: about(name) });
  const promotions = useList<PromotionItem>(withQuery('/v1/promotions', { model: name }), { live: changesPromotions, limit: 20 });
  useEvents((event) => {
    if (event.type === 'progress' && promotions.data?.some((one) => concerns(event, one.id))) promotions.patch((list) => withPromotion(list, event.item));
  });
  return (
    <>
      <PageHead title={name}>
        <Link to={`/evidence?model=${encodeURIComponent(name)}`}>Evidence</Link>
      </PageHead>
      <Loaded of={model}>{(data) => <Serving model={data} onDone={model.reload} />}</Loaded>
      <Section title="Promotions">
        <Loaded of={promotions}>
          {(items) => items.length ? <><Table caption={'Promotions of this model'} columns={promotionColumns} rows={items} id={(item) => item.id} class="overview-table roomy" keys /><More of={promotions} /></> : (
            <Empty title="No promotion yet"><p>This starts one:</p><Command>{`driftgate promote ${name} --engine ENGINE --contract CONTRACT --wait`}</Command></Empty>
          )}
        </Loaded>
      </Section>
      <Schedules model={name} />
    </>
  );
}

function Serving({ model, onDone }: { model: Model; onDone: () => void }) {
  const version = model.incumbent;
  return (
    <>
      {model.hold && (
        <Section title="On hold" aside={<ActionButton action={liftHold(model)} onDone={onDone} />}>
          <p><Sentence>{model.hold.reason}</Sentence></p>
          <p class="muted">
            Held by <Name>{model.hold.by}</Name> <Time us={model.hold.since_us} />
            {model.hold.promotion && <>, of <Link to={`/p/${segment(model.hold.promotion)}`}><Name>{model.hold.promotion}</Name></Link></>}. An operator may lift it.
          </p>
        </Section>
      )}
      <Section title="What serves">
        <Facts items={[
          ['Incumbent', <VersionName version={version} />],
          ['Checkpoint', <Digest>{version?.checkpoint}</Digest>],
          ['Version', version ? <Name>{version.version}</Name> : <span class="muted">none</span>],
          ['Promotion under way', model.promotion ? <Link to={`/p/${segment(model.promotion)}`}><Name>{model.promotion}</Name></Link> : <span class="muted">none</span>],
          ['Route', <RouteText route={model.route} />],
          ['Changed', <Time us={model.updated_us} />],
        ]} />
      </Section>
      {model.guard && <GuardSection guard={model.guard} />}
    </>
  );
}

function share(route: Record<string, unknown> | null): string {
  const bp = route?.['candidate_bp'];
  return typeof bp === 'number' ? percent(bp) : 'unknown';
}

function RouteText({ route }: { route: RouteState | null | undefined }) {
  if (!route) return <span class="muted">unknown</span>;
  if (route.agree) return <Chip tone="good" icon="pass">as wanted</Chip>;
  return <><Chip tone="bad" icon="error">differs</Chip> wanted {share(route.desired)} for the candidate, applied {route.observed ? share(route.observed) : 'nothing'}</>;
}

function GuardSection({ guard }: { guard: Guard }) {
  const between = guard.mean_time_between_false_alarms_ms;
  return (
    <Section title="Guard">
      <Facts items={[
        ['State', guard.armed ? <Chip tone="info" icon="running">watches</Chip> : <Chip tone="quiet" icon="none">ended</Chip>],
        ['Since', <Time us={guard.since_us} />],
        ['Alarms', guard.alarms ? <Chip tone="bad" icon="bell">{count(guard.alarms)}</Chip> : '0'],
        ['Promotion', guard.promotion ? <Link to={`/p/${segment(guard.promotion)}`}><Name>{guard.promotion}</Name></Link> : '–'],
        ['A false alarm is expected every', between ? duration(between / 1000) : '–'],
        ['Reason', <Sentence>{guard.reason ?? ''}</Sentence>],
      ]} />
      {guard.watches?.length ? (
        <details><summary>What is watched ({guard.watches.length})</summary><pre tabIndex={0} aria-label="Watches"><code>{JSON.stringify(guard.watches, null, 2)}</code></pre></details>
      ) : null}
    </Section>
  );
}

function Schedules({ model }: { model: string }) {
  const list = useList<Schedule>('/v1/schedules', { live: (event) => event.type === 'entry' && event.entry.kind.startsWith('schedule_'), limit: 200 });
  const mine = list.data?.filter((one) => (one.model ?? one.promotion['model']) === model) ?? [];
  if (!mine.length) return null;
  return (
    <Section title="Schedules">
      <ul>
        {mine.map((one) => (
          <li key={one.name}>
            <Link to={`/schedules?name=${encodeURIComponent(one.name)}`}><Name>{one.name}</Name></Link> <code>{one.cron}</code>,{' '}
            {one.paused ? <Chip tone="warn" icon="paused">paused</Chip> : <>next <Time us={one.next_us} /></>}; last: <Fire fire={one.fires[0]} />
          </li>
        ))}
      </ul>
    </Section>
  );
}
