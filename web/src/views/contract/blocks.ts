// A contract's text cut where something is said of it, so that each saying can stand beside its lines.

export interface Warning {
  /** Not a warning but a fault by the rules for contracts that are registered now. */
  isFault?: boolean;
  line: number;
  column: number;
  pointer: string;
  message: string;
}

export interface Need {
  stage: string;
  text: string;
}

export interface ExplainedClause {
  clause: string;
  family: string;
  severity?: string;
  line: number | null;
  text: string;
  needs?: Need[] | string | null;
}

export interface Block {
  /** Number of the first line. */
  first: number;
  lines: string[];
  clauses: ExplainedClause[];
  warnings: Warning[];
}

/** Blocks in the order of the text; what names no line of it stands with the first. */
export function blocksOf(yaml: string, clauses: readonly ExplainedClause[], warnings: readonly Warning[]): Block[] {
  const lines = yaml.replace(/\n$/, '').split('\n');
  const isIn = (line: number | null | undefined): line is number => typeof line === 'number' && line >= 1 && line <= lines.length;
  const starts = [...new Set([1, ...[...clauses, ...warnings].map(({ line }) => line).filter(isIn)])].sort((a, b) => a - b);
  return starts.map((first, at) => {
    const end = starts[at + 1] ?? lines.length + 1;
    const holds = (line: number | null | undefined) => (isIn(line) ? line >= first && line < end : at === 0);
    return {
      first,
      lines: lines.slice(first - 1, end - 1),
      clauses: clauses.filter(({ line }) => holds(line)),
      warnings: warnings.filter(({ line }) => holds(line)),
    };
  });
}
