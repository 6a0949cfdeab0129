// Schedules: when they fire next, what came of the last times, and who answers for them.

import { useState } from 'preact/hooks';
import { asProblem, type Problem } from '../../api/client';
import type { LiveEvent } from '../../api/events';
import { useList, useResource } from '../../api/resource';
import type { Schedule } from '../../api/types';
import { scheduleAction, startAction, whyNot } from '../../app/actions';
import { readTagged } from '../../app/actions/action';
import { Link, segment, setQuery, type ViewProps } from '../../app/router';
import { Button } from '../../ui/button';
import { Chip } from '../../ui/chip';
import { Command, Name } from '../../ui/name';
import { Empty, ErrorBox, Facts, Loaded, More, PageHead, Section } from '../../ui/page';
import { Table, type Column } from '../../ui/table';
import { Clock, Time } from '../../ui/time';
import { Fire, FireInFull } from './fires';

function changesSchedules(event: LiveEvent): boolean {
  return event.type === 'entry' && event.entry.kind.startsWith('schedule_');
}

const columns: Column<Schedule>[] = [
  { head: 'Schedule', header: true, cell: (one) => <Link to={`/schedules?name=${encodeURIComponent(one.name)}`}><Name>{one.name}</Name></Link> },
  { head: 'Model', cell: (one) => <ModelLink schedule={one} /> },
  { head: 'When', cell: (one) => <><code>{one.cron}</code> <span class="muted"><Name>{one.timezone}</Name></span></> },
  { head: 'Next', cell: (one) => (one.paused ? <Chip tone="warn" icon="paused">paused</Chip> : <Time us={one.next_us} />) },
  { head: 'Last', cell: (one) => <Fire fire={one.fires[0]} /> },
  { head: 'Owner', cell: (one) => <Name>{one.owner}</Name> },
];

function modelOf(one: Schedule): string | undefined {
  const asked = one.promotion['model'];
  return one.model ?? (typeof asked === 'string' ? asked : undefined);
}

function ModelLink({ schedule }: { schedule: Schedule }) {
  const model = modelOf(schedule);
  return model ? <Link to={`/models/${segment(model)}`}><Name>{model}</Name></Link> : <span class="muted">none</span>;
}

export default function View({ query }: ViewProps) {
  const list = useList<Schedule>('/v1/schedules', { live: changesSchedules });
  const name = query.get('name');
  return (
    <>
      <PageHead title="Schedules" />
      {name && <One key={name} name={name} onDone={list.reload} />}
      <Section title="All schedules">
        <Loaded of={list}>
          {(items) => items.length ? <><Table caption="Schedules" columns={columns} rows={items} id={(one) => one.name} keys /><More of={list} /></> : (
            <Empty title="No schedule yet">
              <p>This asks for a promotion by night:</p>
              <Command>{"driftgate schedule create NAME --cron '0 2 * * mon-fri' --timezone Europe/Berlin --request request.json"}</Command>
            </Empty>
          )}
        </Loaded>
      </Section>
    </>
  );
}

function One({ name, onDone }: { name: string; onDone: () => void }) {
  const path = `/v1/schedules/${encodeURIComponent(name)}`;
  const schedule = useResource<Schedule>(path, { live: changesSchedules });
  const times = useResource<{ items: { fire_us: number; local: string }[] }>(`${path}/next`, { live: changesSchedules });
  const done = () => {
    schedule.reload();
    times.reload();
    onDone();
  };
  return (
    <Section title={<>Schedule <Name>{name}</Name></>} aside={<Button kind="link" onClick={() => setQuery({ name: null })}>Close</Button>}>
      <Loaded of={schedule}>
        {(one) => (
          <>
            <Facts items={[
              ['Model', <ModelLink schedule={one} />],
              ['Expression', <><code>{one.cron}</code> <Name>{one.timezone}</Name></>],
              ['Owner (counts as the requester)', <Name>{one.owner}</Name>],
              ['When a time was missed', one.misfire === 'run_once' ? `run once, up to ${one.grace_s} s late` : 'skip it'],
              ['When one is running', one.if_running === 'queue' ? 'queue behind it' : 'skip it'],
              ['State', one.paused ? <Chip tone="warn" icon="paused">paused</Chip> : <Chip tone="good" icon="running">fires</Chip>],
            ]} />
            <h3>Next times</h3>
            <Loaded of={times}>
              {(next) => next.items.length ? <ol>{next.items.map((at) => <li key={at.fire_us}><Time us={at.fire_us} /> <span class="muted"><Clock us={at.fire_us} /> (<Name>{at.local}</Name>)</span></li>)}</ol> : <p class="muted">It fires no more.</p>}
            </Loaded>
            <h3>Last times</h3>
            {one.fires.length ? <ul>{one.fires.map((fire) => <li key={fire.fire_us}><FireInFull fire={fire} /></li>)}</ul> : <p class="muted">It has not fired yet.</p>}
            <h3>What it asks for</h3>
            <pre tabIndex={0} aria-label="The request"><code>{JSON.stringify(one.promotion, null, 2)}</code></pre>
            <ScheduleActions schedule={one} onDone={done} />
          </>
        )}
      </Loaded>
    </Section>
  );
}

/** A change names the revision that was read, so the schedule is read again, with its tag, before the dialog opens. */
function ScheduleActions({ schedule, onDone }: { schedule: Schedule; onDone: () => void }) {
  const [fault, setFault] = useState<Problem | null>(null);
  const start = async (what: 'pause' | 'resume' | 'delete') => {
    setFault(null);
    try {
      const { value, etag } = await readTagged<Schedule>(`/v1/schedules/${encodeURIComponent(schedule.name)}`);
      const action = scheduleAction(what, value, etag);
      if (whyNot(action)) return onDone(); // changed meanwhile: show it as it is
      startAction(action, () => {
        if (what === 'delete') setQuery({ name: null });
        onDone();
      });
    } catch (error) {
      setFault(asProblem(error));
    }
  };
  const whats = [schedule.paused ? 'resume' : 'pause', 'delete'] as const;
  return (
    <>
      {fault && <ErrorBox problem={fault} />}
      <div class="actions">
        {whats.map((what) => {
          const action = scheduleAction(what, schedule, '*');
          return <Button key={what} kind={action.kind} refused={whyNot(action)} onClick={() => void start(what)}>{action.verb}</Button>;
        })}
      </div>
    </>
  );
}
