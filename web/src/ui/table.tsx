// A table that turns into a list of cards where there is no room for columns.

import { Component, type ComponentChildren } from 'preact';

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
  /** Kept outside the component where possible: rows are drawn again when it is another array. */
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
          {rows.map((row) => <Row key={id(row)} columns={columns} row={row} name={keys ? id(row) : undefined} />)}
        </tbody>
      </table>
    </div>
  );
}

interface RowProps<T> {
  columns: Column<T>[];
  row: T;
  name?: string;
}

/** Drawn again only when the row or the columns are other ones: an event that changes one row costs one row. */
class Row<T> extends Component<RowProps<T>> {
  override shouldComponentUpdate(next: RowProps<T>) {
    return next.row !== this.props.row || next.columns !== this.props.columns || next.name !== this.props.name;
  }

  override render({ columns, row, name }: RowProps<T>) {
    return <tr role="row" data-row={name}>{columns.map((column) => cell(column, row))}</tr>;
  }
}

function cell<T>(column: Column<T>, row: T) {
  const props = { key: column.head, 'data-head': column.head, class: [column.numeric && 'numeric', column.class].filter(Boolean).join(' ') || undefined };
  if (column.header) return <th {...props} scope="row" role="rowheader">{column.cell(row)}</th>;
  return <td {...props} role="cell">{column.cell(row)}</td>;
}
