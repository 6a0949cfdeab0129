// Search over models, promotions, contracts and the numbers of evidence entries.

import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { asProblem, request, withQuery, type Problem } from '../api/client';
import type { Contract, Page, PromotionItem, StatusPage } from '../api/types';
import { Dialog } from '../ui/dialog';
import { plural, words } from '../ui/format';
import { shortDigest, visible } from '../ui/name';
import { ErrorBox } from '../ui/page';
import { go, segment } from './router';

interface Hit {
  to: string;
  kind: string;
  text: string;
  detail: string;
}

const EACH = 8;
const CALM_MS = 150;

async function find(text: string, signal: AbortSignal): Promise<Hit[]> {
  const ask = <T,>(path: string) => request<T>(path, { signal });
  const [status, promotions, contracts] = await Promise.all([
    ask<StatusPage>(withQuery('/v1/status', { q: text, limit: EACH })),
    ask<Page<PromotionItem>>(withQuery('/v1/promotions', { q: text, limit: EACH })),
    ask<Page<Contract>>('/v1/contracts?limit=200'),
  ]);
  const entry = /^#?(\d{1,15})$/.exec(text);
  const low = text.toLowerCase();
  return [
    ...(entry ? [{ to: `/evidence?seq=${entry[1]}`, kind: 'Entry', text: `#${entry[1]}`, detail: 'of the evidence log' }] : []),
    ...status.items.map((one) => ({ to: `/models/${segment(one.model)}`, kind: 'Model', text: one.model, detail: one.promotion ? words(one.promotion.state) : '' })),
    ...promotions.items.map((one) => ({ to: `/p/${segment(one.id)}`, kind: 'Promotion', text: one.id, detail: `${one.model}: ${words(one.state)}` })),
    ...contracts.items.filter((one) => one.name.toLowerCase().includes(low) || one.digest.includes(low)).slice(0, EACH)
      .map((one) => ({ to: `/c/${segment(one.digest)}`, kind: 'Contract', text: one.name, detail: shortDigest(one.digest) })),
  ];
}

export default function Search({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState('');
  const [hits, setHits] = useState<Hit[] | null>(null);
  const [fault, setFault] = useState<Problem | null>(null);
  const [at, setAt] = useState(0);
  const list = useId();
  const input = useRef<HTMLInputElement>(null);
  const wanted = text.trim();

  useEffect(() => {
    setAt(0);
    if (!wanted) return setHits(null);
    const control = new AbortController();
    const timer = setTimeout(() => {
      find(wanted, control.signal).then(
        (found) => { if (!control.signal.aborted) { setHits(found); setFault(null); } },
        (error: unknown) => { if (!control.signal.aborted) setFault(asProblem(error)); },
      );
    }, CALM_MS);
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [wanted]);
  useEffect(() => document.getElementById(`${list}-${at}`)?.scrollIntoView({ block: 'nearest' }), [at]);

  const open = (hit: Hit | undefined) => {
    if (!hit) return;
    onClose();
    go(hit.to);
  };
  const press = (event: KeyboardEvent) => {
    const last = (hits?.length ?? 0) - 1;
    if (event.key === 'ArrowDown') setAt(Math.min(last, at + 1));
    else if (event.key === 'ArrowUp') setAt(Math.max(0, at - 1));
    else if (event.key === 'Enter') open(hits?.[at]);
    else return;
    event.preventDefault();
  };

  return (
    <Dialog title="Search" onClose={onClose}>
      <input ref={input} type="text" class="search-input" role="combobox" autocomplete="off" spellcheck={false} aria-label="Models, promotions, contracts, #entry" placeholder="Models, promotions, contracts, #entry"
        aria-expanded={!!hits?.length} aria-controls={list} aria-autocomplete="list" aria-activedescendant={hits?.length ? `${list}-${at}` : undefined}
        value={text} autofocus onInput={(event) => setText(event.currentTarget.value)} onKeyDown={press} />
      {fault && <ErrorBox problem={fault} />}
      <ul id={list} class="search-hits" role="listbox" aria-label="Found">
        {hits?.map((hit, index) => (
          <li key={hit.to} id={`${list}-${index}`} role="option" aria-selected={index === at} class="search-hit" onClick={() => open(hit)} onMouseMove={() => setAt(index)}>
            <span class="muted">{hit.kind}</span> <bdi>{visible(hit.text)}</bdi> <span class="muted"><bdi>{visible(hit.detail)}</bdi></span>
          </li>
        ))}
      </ul>
      <p class="muted" role="status">{hits ? (hits.length ? plural(hits.length, 'hit') : 'Nothing found.') : ''}</p>
    </Dialog>
  );
}
