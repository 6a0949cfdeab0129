// A promotion's stored evidence decided again under this contract; nothing is run and nothing changed.

import { useEffect, useState } from 'preact/hooks';
import { asProblem, request, withQuery, type Problem } from '../../api/client';
import { useResource } from '../../api/resource';
import type { Contract, Page, PromotionItem } from '../../api/types';
import { Link, segment, setQuery } from '../../app/router';
import { Button } from '../../ui/button';
import { stageTitle, VerdictChip } from '../../ui/chip';
import { clock, plural, words } from '../../ui/format';
import { Name, Sentence, visible } from '../../ui/name';
import { ErrorBox, Section } from '../../ui/page';
import { Table } from '../../ui/table';

interface ChangedVerdict {
  clause: string;
  slice: string;
  before: string | null;
  after: string | null;
  message: string;
}

interface StageAgain {
  stage: string;
  attempt: number;
  before: string | null;
  after: string | null;
  rules?: { before: number; after: number };
  changes: ChangedVerdict[];
  same: number;
  notes: string[];
}

interface WhatIfAnswer {
  promotion: string;
  contract: { before: string; after: string };
  verdict: string;
  not_begun: string[];
  stages: StageAgain[];
}

type Asked = { state: 'asking' } | { state: 'done'; answer: WhatIfAnswer } | { state: 'failed'; problem: Problem };

export function WhatIf({ contract, promotion }: { contract: Contract; promotion: string }) {
  const list = useResource<Page<PromotionItem>>(withQuery('/v1/promotions', { order: 'newest', limit: 100 }));
  const [asked, setAsked] = useState<Asked | null>(null);
  useEffect(() => setAsked(null), [promotion, contract.digest]);
  const items = list.data?.items ?? [];
  const run = () => {
    setAsked({ state: 'asking' });
    request<WhatIfAnswer>(`/v1/promotions/${segment(promotion)}/what-if`, { method: 'POST', body: contract.document }).then(
      (answer) => setAsked({ state: 'done', answer }),
      (error: unknown) => setAsked({ state: 'failed', problem: asProblem(error) }),
    );
  };
  const refused = !promotion ? 'Choose a promotion first.' : contract.document === undefined ? 'The contract’s document could not be read.' : null;
  return (
    <Section title="What if" id="what-if">
      <p>Decides the stored evidence of a promotion again as if it had been made under this contract. It runs nothing and changes nothing.</p>
      <div class="filters">
        <div class="field">
          <label for="what-if-promotion">Promotion</label>
          <select id="what-if-promotion" value={promotion} onChange={(event) => setQuery({ promotion: event.currentTarget.value || null })}>
            <option value="">choose a promotion</option>
            {promotion && !items.some(({ id }) => id === promotion) && <option value={promotion}>{visible(promotion)}</option>}
            {items.map((one) => <option key={one.id} value={one.id}>{visible(one.model)}: {visible(one.engine)}, {words(one.state)}, {clock(one.created_us)}</option>)}
          </select>
        </div>
        <div class="filter-buttons"><Button onClick={run} refused={refused} quiet busy={asked?.state === 'asking'}>{asked?.state === 'asking' ? 'Deciding…' : 'Decide again'}</Button></div>
      </div>
      {list.error && <ErrorBox problem={list.error} retry={list.reload} />}
      {asked?.state === 'failed' && <ErrorBox problem={asked.problem} />}
      {asked?.state === 'done' && <Answer of={asked.answer} />}
    </Section>
  );
}

function Answer({ of }: { of: WhatIfAnswer }) {
  const changes = of.stages.reduce((sum, stage) => sum + stage.changes.length, 0);
  return (
    <div role="status">
      <p class="row">Under this contract <Link to={`/p/${segment(of.promotion)}`}><Name>{of.promotion}</Name></Link> would be <VerdictChip verdict={of.verdict} /> with {plural(changes, 'other verdict')}.</p>
      {of.not_begun.length > 0 && <p>It never began {of.not_begun.map(stageTitle).join(', ')}, which this contract demands.</p>}
      {of.stages.map((stage) => <StageOf key={stage.stage} of={stage} />)}
    </div>
  );
}

function StageOf({ of }: { of: StageAgain }) {
  return (
    <div class="what-if-stage">
      <h3>{stageTitle(of.stage)}</h3>
      <p class="row"><Verdict of={of.before} /> before, <Verdict of={of.after} /> under this contract; {plural(of.same, 'verdict')} the same.
        {of.rules && of.rules.before !== of.rules.after && <span class="muted">Decided by version {of.rules.after} of the rules, then by {of.rules.before}.</span>}</p>
      {of.notes.map((note, at) => <p key={at} class="muted"><Sentence>{note}</Sentence></p>)}
      {of.changes.length > 0 && (
        <Table caption={`Verdicts of ${stageTitle(of.stage)} that differ`} rows={of.changes} id={({ clause, slice }) => `${clause} ${slice}`} columns={[
          { head: 'Clause', header: true, cell: ({ clause }) => <Name>{clause}</Name> },
          { head: 'Slice', cell: ({ slice }) => (slice ? <Name>{slice}</Name> : <span class="muted">all</span>) },
          { head: 'Before', cell: ({ before }) => <Verdict of={before} /> },
          { head: 'After', cell: ({ after }) => <Verdict of={after} /> },
          { head: 'Why', cell: ({ message }) => <Sentence>{message}</Sentence> },
        ]} />
      )}
    </div>
  );
}

function Verdict({ of }: { of: string | null }) {
  return of ? <VerdictChip verdict={of} /> : <span class="muted">none</span>;
}
