// The four stages with their clauses, failing first, and every number that a verdict followed from.
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { useResource } from '../../api/resource';
import type { OpenVerdict, StageName, StageRun } from '../../api/types';
import { Link } from '../../app/router';
import { STAGES, StageChips, VerdictChip, stageLook, Chip } from '../../ui/chip';
import { plural } from '../../ui/format';
import { Name, Sentence } from '../../ui/name';
import { ErrorBox, Section } from '../../ui/page';
import { Elapsed } from '../../ui/time';
import { figure } from '../../charts/numbers';
import { jobText } from './job';
import { liveVerdicts, readReport, whereText, worstSlice, type Report } from './report';
import { promotionPath, runsOf, slicesPath, useStable, type PromotionStore } from './store';
import { VerdictTable } from './verdicts';

export function Stages({ store }: { store: PromotionStore }) {
  const shown = useStable(() => {
    const { state, stage, stages } = store.promotion.value;
    return { state, stage, stages: stages.map(({ summary: _, ...rest }) => rest) };
  });
  return (
    <Section title="Stages" aside={<WorstSlice store={store} />}>
      <div class="stage-row"><StageChips promotion={shown} /></div>
      {STAGES.map(({ stage, long }) => <StageBlock key={stage} store={store} stage={stage} title={long} />)}
    </Section>
  );
}

/** The way to the worst slice in one step. */
function WorstSlice({ store }: { store: PromotionStore }) {
  const worst = useStable(() => {
    const known = STAGES.flatMap(({ stage }) => {
      const report = store.reports.value[stage];
      return report ? [{ stage, report }] : [];
    });
    return worstSlice(known);
  });
  if (!worst) return null;
  const { rank, stage } = worst;
  const slice = whereText(rank.where);
  return (
    <Link to={slicesPath(store.id, { stage, clause: rank.clause, slice })} class="worst-link">
      Worst slice: <Name>{slice}</Name>, {figure(rank.estimate)} against {figure(rank.limit)}
    </Link>
  );
}

function StageBlock({ store, stage, title }: { store: PromotionStore; stage: StageName; title: string }) {
  const { newest, earlier, open } = useStable(() => {
    const promotion = store.promotion.value;
    const runs = runsOf(promotion, stage);
    // The exact progress changes all the time and is shown by itself.
    const newest = runs.newest ? { ...runs.newest, progress: null } : null;
    return { newest, earlier: runs.earlier, open: promotion.stage === stage };
  });
  const report = useReport(store, stage, newest?.report_digest ?? null);
  if (!newest) {
    return (
      <div class="stage-block">
        <h3>{title}</h3>
        <p class="muted">Not reached.</p>
      </div>
    );
  }
  return (
    <div class="stage-block" id={`stage-${stage}`}>
      <div class="stage-title">
        <h3>{title}</h3>
        <Look store={store} stage={stage} />
        {newest.started_us !== undefined && <span class="muted"><Elapsed us={newest.started_us} until={newest.ended_us} /></span>}
        {newest.attempt > 1 && <span class="muted">attempt {newest.attempt}</span>}
      </div>
      <Progress store={store} stage={stage} />
      {report.error && !report.report && <ErrorBox problem={report.error} retry={report.reload} title="The report could not be read" />}
      {report.report
        ? <Reported store={store} stage={stage} report={report.report} open={open} />
        : <Unreported store={store} stage={stage} run={newest} />}
      {earlier.map((run) => <Earlier key={run.attempt} run={run} />)}
    </div>
  );
}

function Look({ store, stage }: { store: PromotionStore; stage: StageName }) {
  const look = useStable(() => stageLook(store.promotion.value, stage));
  return <Chip tone={look.tone} icon={look.icon}>{look.word}</Chip>;
}

function Progress({ store, stage }: { store: PromotionStore; stage: StageName }) {
  const progress = useStable(() => runsOf(store.promotion.value, stage).newest?.progress ?? null);
  if (!progress) return null;
  const of = progress.total > 0 ? `${progress.done} of ${progress.total} ${progress.unit}` : progress.done > 0 ? `${progress.done} ${progress.unit}` : '';
  return (
    <p class="stage-progress">
      {progress.total > 0 && <progress max={progress.total} value={progress.done} aria-label="Progress of the stage" />}
      <Sentence>{[progress.text, of].filter(Boolean).join(', ')}</Sentence>
      {progress.job && <span class="muted"><Name>{jobText(progress)}</Name></span>}
    </p>
  );
}

/** Reads a stage's report once there is one, and again when another takes its place. */
function useReport(store: PromotionStore, stage: StageName, digest: string | null) {
  const resource = useResource<unknown>(digest ? `${promotionPath(store.id)}/stages/${stage}/report` : null);
  const seen = useRef(digest);
  useEffect(() => {
    if (digest && seen.current && digest !== seen.current) resource.reload();
    seen.current = digest;
  }, [digest]);
  const data = digest ? resource.data : undefined;
  const parsed = useRef<{ data: unknown; report: Report } | null>(null);
  if (data !== undefined && parsed.current?.data !== data) parsed.current = { data, report: readReport(data) };
  const report = data === undefined ? null : (parsed.current?.report ?? null);
  useLayoutEffect(() => {
    if (report) store.reports.value = { ...store.reports.value, [stage]: report };
  }, [report]);
  return { report, error: resource.error, reload: resource.reload };
}

const SHOWN = 40;

function Reported({ store, stage, report, open }: { store: PromotionStore; stage: StageName; report: Report; open: boolean }) {
  if (report.nothingDemanded) return <p>The contract demands nothing of this stage.</p>;
  // Slices that pass have a view of their own.
  const listed = report.verdicts.filter((one) => Object.keys(one.where).length === 0 || one.verdict !== 'pass');
  const left = report.verdicts.length - Math.min(listed.length, SHOWN);
  const failing = listed.filter((one) => one.verdict !== 'pass').length;
  const table = <VerdictTable verdicts={listed} most={SHOWN} title={stage} />;
  return (
    <>
      {failing > 0 || open ? table : (
        <details class="stage-passed">
          <summary>{plural(listed.length, 'clause')} {listed.length === 1 ? 'passes' : 'pass'}</summary>
          {table}
        </details>
      )}
      {left > 0 && (
        <p><Link to={slicesPath(store.id, { stage })}>{plural(left, 'more verdict')} on slices</Link></p>
      )}
      {report.notes.length > 0 && (
        <details class="stage-notes">
          <summary>{plural(report.notes.length, 'note')}</summary>
          <ul>{report.notes.map((note, at) => <li key={at}><Sentence>{note}</Sentence></li>)}</ul>
        </details>
      )}
    </>
  );
}

/** A stage without a report yet: what its live clauses say, or the verdicts that the promotion's own view lists. */
function Unreported({ store, stage, run }: { store: PromotionStore; stage: StageName; run: StageRun }) {
  const verdicts = useStable(() => (store.series.value.stage === stage ? liveVerdicts(store.series.value.clauses) : []));
  if (verdicts.length > 0) return <VerdictTable verdicts={verdicts} most={SHOWN} title={stage} />;
  const open = run.summary?.open ?? [];
  return open.length > 0 ? <OpenList open={open} /> : null;
}

function OpenList({ open }: { open: OpenVerdict[] }) {
  return (
    <ul class="open-verdicts">
      {open.map((one) => (
        <li key={`${one.clause} ${one.slice}`}>
          <VerdictChip verdict={one.verdict} /> <Name>{one.slice ? `${one.clause} on ${one.slice}` : one.clause}</Name>: <Sentence>{one.message}</Sentence>
        </li>
      ))}
    </ul>
  );
}

function Earlier({ run }: { run: StageRun }) {
  const open = run.summary?.open ?? [];
  return (
    <details class="stage-earlier">
      <summary>Attempt {run.attempt}: {run.verdict ?? run.state}</summary>
      {open.length > 0 ? <OpenList open={open} /> : <p class="muted">No clause failed.</p>}
    </details>
  );
}
