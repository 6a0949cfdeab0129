// `/p/ID/slices`: where it drifts. A forest plot or a heat map of the slices of one stage; a row opens its distribution.
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { concerns } from '../../api/events';
import { useResource } from '../../api/resource';
import type { Promotion, StageName } from '../../api/types';
import { Link, segment, setQuery, type ViewProps } from '../../app/router';
import { stageTitle, STAGES } from '../../ui/chip';
import { Name } from '../../ui/name';
import { Empty, Loaded, PageHead, Section } from '../../ui/page';
import { readReport, type Report } from '../promotion/report';
import { promotionPath, runsOf } from '../promotion/store';
import { ForestTable } from './forest';
import { chooseBy, choicesOf, forestOf } from './forest_model';
import { HeatMap } from './heat_map';

export default function View({ params, query }: ViewProps) {
  const id = params['id'] ?? '';
  const promotion = useResource<Promotion>(promotionPath(id), { live: (event) => event.type === 'entry' && concerns(event, id) });
  const model = promotion.data?.model;
  return (
    <>
      <PageHead title={model ? `Slices of ${model}` : 'Slices'}>
        <Link class="button" to={`/p/${segment(id)}`}>Back to the promotion</Link>
      </PageHead>
      <Loaded of={promotion} what="Reading the promotion…">{(data) => <Stages promotion={data} query={query} />}</Loaded>
    </>
  );
}

/** Stages that have a report, the one that compares slices first. */
function stagesOf(promotion: Promotion): StageName[] {
  const order: StageName[] = ['statistical-slice', 'offline-numeric', 'shadow-runtime', 'canary'];
  return order.filter((stage) => runsOf(promotion, stage).newest?.report_digest);
}

function Stages({ promotion, query }: { promotion: Promotion; query: URLSearchParams }) {
  const stages = stagesOf(promotion);
  const wanted = query.get('stage');
  const stage = stages.find((one) => one === wanted) ?? stages[0];
  if (!stage) {
    return (
      <Empty title="No stage has a report yet">
        <p>Slices are compared once the captures have been measured, in the stage {stageTitle('statistical-slice')}.</p>
      </Empty>
    );
  }
  const digest = runsOf(promotion, stage).newest?.report_digest ?? '';
  return <OfStage key={stage} id={promotion.id} stage={stage} digest={digest} stages={stages} query={query} />;
}

interface StageProps {
  id: string;
  stage: StageName;
  digest: string;
  stages: StageName[];
  query: URLSearchParams;
}

function OfStage({ id, stage, digest, stages, query }: StageProps) {
  const resource = useResource<unknown>(`${promotionPath(id)}/stages/${stage}/report`);
  const read = useRef<{ digest: string; data: unknown } | null>(null);
  const parsed = useRef<{ digest: string; report: Report } | null>(null);
  // A report never changes under its digest: what is read again is the same and is not drawn again.
  if (resource.data !== undefined && (parsed.current?.digest !== digest || !parsed.current) && read.current?.data !== resource.data) {
    read.current = { digest, data: resource.data };
    parsed.current = { digest, report: readReport(resource.data) };
  }
  const begun = useRef(digest);
  useEffect(() => {
    if (begun.current !== digest) resource.reload();
    begun.current = digest;
  }, [digest]);
  return (
    <Loaded of={resource} what="Reading the report…">
      {() => parsed.current && <Slices id={id} stage={stage} stages={stages} report={parsed.current.report} query={query} />}
    </Loaded>
  );
}

function Slices({ id, stage, stages, report, query }: { id: string; stage: StageName; stages: StageName[]; report: Report; query: URLSearchParams }) {
  const heat = query.get('view') === 'heat';
  const choices = useMemo(() => choicesOf(report), [report]);
  const key = chooseBy(report, query.get('clause'));
  const forest = useMemo(() => forestOf(report, key), [report, key]);
  const open = query.get('slice') ?? '';
  return (
    <Section title={heat ? 'Heat map: slice × metric' : <>Forest: <Name>{forest.title}</Name></>} aside={(
      <div class="row">
        <label class="inline-field">Stage{' '}
          <select value={stage} onChange={(event) => setQuery({ stage: event.currentTarget.value, clause: null, slice: null })}>
            {STAGES.filter((one) => stages.includes(one.stage)).map((one) => <option key={one.stage} value={one.stage}>{one.long}</option>)}
          </select>
        </label>
        {!heat && choices.length > 0 && (
          <label class="inline-field">Figure{' '}
            <select value={key} onChange={(event) => setQuery({ clause: event.currentTarget.value, slice: null })}>
              {choices.map((choice) => <option key={choice.key} value={choice.key}>{choice.title}</option>)}
            </select>
          </label>
        )}
        <div class="switch" role="group" aria-label="Form">
          <button type="button" class="button" aria-pressed={!heat} onClick={() => setQuery({ view: null })}>Forest</button>
          <button type="button" class="button" aria-pressed={heat} onClick={() => setQuery({ view: 'heat', slice: null })}>Heat map</button>
        </div>
      </div>
    )}>
      {heat
        ? <HeatMap report={report} />
        : <ForestTable id={id} stage={stage} forest={forest} open={open} />}
    </Section>
  );
}
