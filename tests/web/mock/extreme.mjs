// Worlds that no demo has: hostile names wherever a name can be, 10,000 promotions, a table of 500 slices.
import { explainState } from './world.mjs';

/** Names that a page has to show as they are and never run; each would set window.pwned if it ran. */
export const NASTY = [
  '<script>window.pwned=1</script>',
  '<img src=x onerror="window.pwned=1">',
  '"><svg onload=window.pwned=1>',
  'javascript:window.pwned=1',
  '\u202egnp.evil\u202c and \u2067isolated',
  'שלום mixed עולם with 123',
  'x'.repeat(300),
  'long name of words '.repeat(16).trim().slice(0, 300),
  '{{constructor.constructor("window.pwned=1")()}}',
  '../../../etc/passwd?a=b#c',
];
const nasty = (index) => NASTY[index % NASTY.length];

/** Gives every name of the world a hostile one; the ids of promotions stay, models are renamed with their routes. */
export function makeHostile(world) {
  world.kernels.forEach((kernel, i) => { kernel.name = nasty(i); });
  world.engines.forEach((engine, i) => { engine.name = nasty(i + 1); engine.kernel = nasty(i); });
  for (const [i, contract] of [...world.contracts.values()].entries()) {
    contract.name = nasty(i + 2);
    contract.registrant = nasty(i + 3);
    contract.document = structuredClone(contract.document);
    contract.document.metadata.name = contract.name;
    contract.document.metadata.description = nasty(i + 4);
    contract.document.statistical[0].id = nasty(i + 5);
  }
  for (const [i, version] of [...world.versions.values()].entries()) { version.engine = nasty(i + 1); version.kernel = nasty(i); }
  world.models.forEach((model, i) => {
    model.name = nasty(i);
    model.hold = { reason: nasty(i + 1), by: nasty(i + 2), since_us: model.updated_us, promotion: world.promotions[2].id };
  });
  world.promotions.forEach((one, i) => {
    one.model = world.models[0].name;
    one.engine = nasty(i + 1);
    one.contract_name = world.contracts.get(one.contract).name;
    one.requester = nasty(i + 4);
    one.reason = one.why = `${nasty(i)}: ${nasty(i + 6)}`;
    for (const run of one.stages) for (const open of run.summary.open) { open.clause = nasty(i + 3); open.slice = nasty(i + 5); open.message = nasty(i); }
    if (one.canary) one.canary.waits_for = [nasty(i), nasty(i + 6)];
    if (one.approval) one.approval.given = [{ who: nasty(i + 2), given_us: one.updated_us, reason: nasty(i + 1) }];
  });
  for (const [key, stored] of world.reports) {
    const report = structuredClone(stored);
    report.notes = NASTY;
    report.kernels = { train: nasty(0), inf: nasty(4) };
    report.verdicts.forEach((verdict, i) => { verdict.clause = nasty(i); verdict.message = nasty(i + 1); verdict.method = nasty(i + 2);
      verdict.where = i % 2 ? { [nasty(i)]: nasty(i + 4) } : {}; });
    report.slices.forEach((slice, i) => { if (i) slice.where = { [nasty(i)]: nasty(i + 1), language: nasty(i + 4) }; });
    for (const [i, row] of (report.ranking ?? []).entries()) { row.where = { [nasty(i)]: nasty(i + 1) }; row.clause = nasty(i); }
    for (const [i, row] of (report.worst_rows ?? []).entries()) row.token_text = nasty(i);
    world.reports.set(key, report);
  }
  world.schedules.forEach((one, i) => { one.name = nasty(i); one.owner = nasty(i + 1); one.model = world.models[0].name; one.fires[0].why = nasty(i + 6); });
  world.blocks.push({ id: 'bl-1', checkpoint: world.engines[0].checkpoint, kernel: nasty(0), contract: [...world.contracts.keys()][0],
    promotion: world.promotions[2].id, reason: nasty(1), by: nasty(6), since_us: world.now_us, lifted: null });
  world.tokens.forEach((token, i) => { if (i < 4) token.granted_by = nasty(i); });
  NASTY.forEach((name) => { world.token(name, ['viewer']); });
  NASTY.forEach((name, i) => world.log.append({ actor: name, kind: 'hold_set', time_us: world.now_us + i, subject: { model: nasty(i + 1) },
    body: { reason: nasty(i + 2) } }));
  world.settings.push({ name: 'webhooks.endpoints', value: { [nasty(0)]: nasty(4) }, default: {}, text: nasty(6), changed: true });
  return world;
}

/** As many promotions as `count`, over `models` models, made from the stored ones. */
export function makeMany(world, count = 10_000, models = 50) {
  const [first] = world.models;
  world.models = Array.from({ length: models }, (_, i) => ({ ...structuredClone(first), name: `model-${String(i).padStart(2, '0')}`, promotion: null }));
  const ended = world.promotions.filter((one) => one.ended_us);
  const open = world.promotions.filter((one) => !one.ended_us);
  const made = [];
  for (let i = 0; i < count; i += 1) {
    const of = i < 20 ? open[0] : ended[i % ended.length];
    const one = structuredClone(of);
    one.id = `pr-${String(count - i).padStart(26, '0')}`;
    one.model = world.models[i % models].name;
    const shift = 40_000_000 * i;
    one.created_us = of.created_us - shift;
    one.updated_us = of.updated_us - shift;
    if (of.ended_us) one.ended_us = of.ended_us - shift;
    if (i >= 10 && i < 20) { one.state = 'running'; one.approval = null; one.reason = ''; explainState(one); }
    made.push(one);
  }
  for (const one of made.slice(0, 20)) world.models.find((model) => model.name === one.model).promotion = one.id;
  world.promotions = made;
  return world;
}

/** A report whose slice table has `count` rows, by promotion and stage. */
export function makeManySlices(world, key, count = 500) {
  const report = structuredClone(world.reports.get(key));
  const proto = report.slices.find((slice) => Object.keys(slice.where).length) ?? report.slices[0];
  const clause = report.verdicts.find((one) => Object.keys(one.where).length) ?? report.verdicts[0];
  report.slices = [report.slices[0]];
  report.ranking = [];
  report.verdicts = report.verdicts.slice(0, 1);
  for (let i = 0; i < count; i += 1) {
    const where = { language: `l${i % 50}`, domain: `d${Math.floor(i / 50)}` };
    const estimate = 0.01 + ((i * 37) % count) / count / 8;
    const width = 0.004 + ((i * 13) % 50) / 2000;
    const verdict = estimate - width > clause.threshold ? 'violated' : estimate + width <= clause.threshold ? 'pass' : 'inconclusive';
    const figures = { estimate, lower: estimate - width, upper: estimate + width, verdict, clause: clause.clause };
    report.slices.push({ ...structuredClone(proto), where, rows: 40 + i * 7, sequences: 3 + i, test: [figures] });
    report.verdicts.push({ ...structuredClone(clause), ...figures, where, role: 'monitored', message: `tv of slice ${i}` });
    report.ranking.push({ clause: clause.clause, corpus_estimate: 0.018, estimate, excess: estimate / clause.threshold - 1, hidden_by_mean: i % 9 === 0,
      limit: clause.threshold, lower: figures.lower, upper: figures.upper, role: 'monitored', verdict, where });
  }
  report.ranking.sort((a, b) => b.excess - a.excess);
  world.reports.set(key, report);
  return world;
}
