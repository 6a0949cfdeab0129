// What is promoted, against what, and under which contract: by name and digest.
import type { RecipeUse, Version } from '../../api/types';
import { Link, segment } from '../../app/router';
import { words } from '../../ui/format';
import { Digest, Name } from '../../ui/name';
import { Facts, Section } from '../../ui/page';
import { Clock } from '../../ui/time';
import { useStable, type PromotionStore } from './store';

export function Parties({ store }: { store: PromotionStore }) {
  const of = useStable(() => {
    const p = store.promotion.value;
    return {
      id: p.id, model: p.model, candidate: p.candidate, incumbent: p.baseline, contract: p.contract, contractName: p.contract_name,
      requester: p.requester, created: p.created_us, ended: p.ended_us ?? null, traffic: p.traffic, deadline: p.deadline_us ?? null,
      recipe: p.request?.recipe ?? null,
      seed: p.seed === undefined ? null : String(p.seed),
    };
  });
  return (
    <Section title="What is compared">
      <div class="parties">
        <Party title="Candidate" of={of.candidate} />
        <Party title="Incumbent when it was requested" of={of.incumbent} none="The model had none." />
        <div class="party">
          <h3>Contract</h3>
          <p class="party-name"><Link to={`/c/${segment(of.contract)}`}><Name>{of.contractName || of.contract}</Name></Link></p>
          <p><Digest>{of.contract}</Digest></p>
        </div>
      </div>
      <Facts items={[
        ['Model', <Link to={`/models/${segment(of.model)}`}><Name>{of.model}</Name></Link>],
        ['Promotion', <Digest>{of.id}</Digest>],
        ['Requested', <><Clock us={of.created} /> by <Name>{of.requester}</Name></>],
        ...(of.recipe ? [['From the recipe', <Taken of={of.recipe} />] as [string, preact.ComponentChildren]] : []),
        ...(of.ended ? [['Ended', <Clock us={of.ended} />] as [string, preact.ComponentChildren]] : []),
        ...(of.deadline ? [['Deadline', <Clock us={of.deadline} />] as [string, preact.ComponentChildren]] : []),
        ['Traffic', words(of.traffic)],
        ...(of.seed ? [['Seed', <code>{of.seed}</code>] as [string, preact.ComponentChildren]] : []),
      ]} />
    </Section>
  );
}

/** What nobody said of this promotion: the parts that came from the model's recipe, and who had set it. */
function Taken({ of }: { of: RecipeUse }) {
  return (
    <>
      Revision {of.revision}{of.set_by && <> by <Name>{of.set_by}</Name></>}:{' '}
      {of.parts.map((part) => part.slice(1).replaceAll('/', '.')).join(', ')}
    </>
  );
}

function Party({ title, of, none = 'There is none.' }: { title: string; of: Version | null; none?: string }) {
  return (
    <div class="party">
      <h3>{title}</h3>
      {of ? (
        <>
          <p class="party-name"><Name>{of.engine}</Name></p>
          <p>Kernel <Name>{of.kernel}</Name></p>
          <p>Checkpoint <Digest>{of.checkpoint}</Digest></p>
          <p>Version <Digest>{of.version}</Digest></p>
        </>
      ) : <p class="muted">{none}</p>}
    </div>
  );
}
