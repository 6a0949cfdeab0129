// Slice × metric, with the number in each cell; darker cells are further above the whole corpus's figure.
import { useMemo, useState } from 'preact/hooks';
import { count, figure } from '../../charts/numbers';
import { Button } from '../../ui/button';
import { Name } from '../../ui/name';
import { Empty } from '../../ui/page';
import type { Report } from '../promotion/report';
import { heatMapOf, metricsOf } from './forest_model';

const PAGE = 100;

export function HeatMap({ report }: { report: Report }) {
  const metrics = useMemo(() => metricsOf(report), [report]);
  const rows = useMemo(() => heatMapOf(report, metrics), [report, metrics]);
  const [shown, setShown] = useState(PAGE);
  if (rows.length === 0 || metrics.length === 0) {
    return <Empty title="This stage has no figures by slice"><p>It measures no captures, or its table has been redacted.</p></Empty>;
  }
  return (
    <>
      <p>
        Means by slice, those that drift most first. <span class="heat-key" aria-hidden="true">
          {['as overall', '> 1.1×', '> 1.4×', '> 2×', '> 3×', '> 5×'].map((text, heat) => <span key={text} class={`heat heat-${heat}`}>{text}</span>)}
        </span>
      </p>
      <div class="table-room heat-room" tabIndex={0} role="region" aria-label="Heat map of slices and metrics">
        <table class="table keep heat-map">
          <caption class="offscreen">Mean of each metric on each slice. Marked cells are above the whole corpus’s figure.</caption>
          <thead>
            <tr><th scope="col">Slice</th><th scope="col" class="numeric">Rows</th>{metrics.map((metric) => <th key={metric} scope="col" class="numeric">{metric}</th>)}</tr>
          </thead>
          <tbody>
            {rows.slice(0, shown).map((row, at) => (
              <tr key={`${at} ${row.slice}`}>
                <th scope="row">{row.slice ? <Name>{row.slice}</Name> : 'whole corpus'}</th>
                <td class="numeric">{count(row.rows)}</td>
                {row.cells.map((cell) => <td key={cell.metric} class={`numeric heat heat-${cell.heat}`}>{figure(cell.value)}</td>)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {shown < rows.length && <p class="more"><Button onClick={() => setShown(shown + PAGE)}>Show more ({rows.length - shown} left)</Button></p>}
    </>
  );
}
