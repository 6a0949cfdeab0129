// A table that turns into a list of cards where there is no room for columns.

import type { ComponentChildren } from 'preact';

export interface Column<T> {
  head: string;
  cell: (row: T) => ComponentChildren;
  /** Right-aligned with figures of equal width. */
  numeric?: boolean;
  /** The cell that names the row. */
  header?: boolean;
  class?: string;
}

export interface TableProps<T> {
  /** Says what the table holds; shown to screen readers only. */
  caption: string;
  columns: Column<T>[];
  rows: T[];
  id: (row: T) => string;
  class?: string;
  /** `j` and `k` move the focus over the first links of the rows. */
  keys?: boolean;
}

export function Table<T>({ caption, columns, rows, id, class: name, keys }: TableProps<T>) {
  return (
    <div class="table-room">
      <table class={name ? `table ${name}` : 'table'} role="table">
        <caption class="offscreen">{caption}</caption>
        <thead role="rowgroup"><tr role="row">{columns.map((column) => <th key={column.head} scope="col" role="columnheader" class={column.numeric ? 'numeric' : undefined}>{column.head}</th>)}</tr></thead>
        <tbody role="rowgroup">
          {rows.map((row) => (
            <tr key={id(row)} role="row" data-row={keys ? id(row) : undefined}>
              {columns.map((column) => cell(column, row))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function cell<T>(column: Column<T>, row: T) {
  const props = { key: column.head, 'data-head': column.head, class: [column.numeric && 'numeric', column.class].filter(Boolean).join(' ') || undefined };
  if (column.header) return <th {...props} scope="row" role="rowheader">{column.cell(row)}</th>;
  return <td {...props} role="cell">{column.cell(row)}</td>;
}
