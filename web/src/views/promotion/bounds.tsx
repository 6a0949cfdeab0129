// The bound chain: each link with what it means, its figure and what it assumes.
import { useSignal } from '@preact/signals';
import { figure } from '../../charts/numbers';
import { Chip, type Tone } from '../../ui/chip';
import { STAGES, stageTitle } from '../../ui/chip';
import type { IconName } from '../../ui/icons';
import { Name, Sentence } from '../../ui/name';
import { Section } from '../../ui/page';
import { Table, type Column } from '../../ui/table';
import { linkMeaning } from './meanings';
import { whereText, type BoundChain, type BoundLink } from './report';
import type { PromotionStore } from './store';

const STATUS: Record<string, [Tone, IconName]> = {
  checked: ['good', 'pass'],
  unchecked: ['warn', 'inconclusive'],
  suspicious: ['warn', 'inconclusive'],
  broken: ['bad', 'violated'],
};

const COLUMNS: Column<BoundLink>[] = [
  { head: 'Link', numeric: true, cell: (link) => link.number },
  {
    head: 'Name', header: true, class: 'bound-name',
    cell: (link) => (
      <>
        <Name>{link.name}</Name>{link.horizon === 'sequence' && <span class="muted"> (whole responses)</span>}
        <p class="bound-meaning">{linkMeaning(link.name)}</p>
      </>
    ),
  },
  { head: 'Figure', numeric: true, cell: (link) => figure(link.value) },
  { head: 'Upper limit', numeric: true, cell: (link) => figure(link.upper) },
  { head: 'Noise floor', numeric: true, cell: (link) => floorText(link.floors) },
  { head: 'Assumes', class: 'bound-assumes', cell: (link) => <Sentence>{link.assumption}</Sentence> },
  {
    head: 'Assumption',
    cell: (link) => {
      const [tone, icon] = STATUS[link.status] ?? ['quiet', 'none'];
      return <Chip tone={tone} icon={icon}>{link.status || 'unknown'}</Chip>;
    },
  },
  {
    head: 'Method',
    cell: (link) => (
      <Sentence>{[link.method, link.alpha !== null && link.upper !== null ? `α ${figure(link.alpha)}` : '', link.approximate ? 'approximate' : '', link.from ? `from ${link.from}` : '']
        .filter(Boolean).join(', ')}</Sentence>
    ),
  },
];

function floorText(floors: Record<string, number>): string {
  const parts = Object.entries(floors).map(([side, value]) => `${side} ${figure(value)}`);
  return parts.length > 0 ? parts.join(', ') : '–';
}

export function Bounds({ store }: { store: PromotionStore }) {
  const reports = store.reports.value;
  const with_ = STAGES.filter(({ stage }) => (reports[stage]?.bounds.length ?? 0) > 0).map(({ stage }) => stage);
  const chosen = useSignal<string>('');
  if (with_.length === 0) return null;
  const places = with_.flatMap((stage) => (reports[stage]?.bounds ?? []).map((chain, at) => ({ key: `${stage} ${at}`, stage, chain })));
  const place = places.find(({ key }) => key === chosen.value) ?? places[0];
  if (!place) return null;
  const many = places.length > 1;
  return (
    <Section title="Bound chain" aside={many && (
      <label class="inline-field">Of{' '}
        <select value={place.key} onChange={(event) => (chosen.value = event.currentTarget.value)}>
          {places.map(({ key, stage, chain }) => <option key={key} value={key}>{titleOf(stage, chain)}</option>)}
        </select>
      </label>
    )}>
      <Chain chain={place.chain} title={titleOf(place.stage, place.chain)} />
    </Section>
  );
}

function titleOf(stage: string, chain: BoundChain): string {
  return `${stageTitle(stage)}: ${whereText(chain.where) || 'the whole corpus'}`;
}

function Chain({ chain, title }: { chain: BoundChain; title: string }) {
  if (chain.refused) return <p>There are no bounds: <Sentence>{chain.refused}</Sentence></p>;
  return (
    <>
      <p class="muted">What the measured drift proves of the distributions that are served, link by link. A link whose assumption is broken proves nothing.</p>
      <Table caption={`Bound chain of ${title}`} columns={COLUMNS} rows={chain.links} class="bounds"
        id={(link) => `${chain.links.indexOf(link)} ${link.name}`} />
    </>
  );
}
