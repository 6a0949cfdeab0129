// Icons as strokes on a 16×16 grid. They never stand alone: a word is always beside them or in the name of the button.

const PATHS = {
  pass: 'M3 8.5l3.2 3.2L13 4.8',
  violated: 'M4 4l8 8M12 4l-8 8',
  inconclusive: 'M5.6 6a2.4 2.4 0 1 1 3.4 2.2c-.7.3-1 .8-1 1.5v.3M8 12.6v.2',
  error: 'M8 2.5l6 10.5H2zM8 6.5v3M8 11.3v.2',
  running: 'M8 2.5a5.5 5.5 0 1 1-5.2 3.7',
  waiting: 'M8 3.2v5l3 1.8M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2',
  none: 'M4 8h8',
  paused: 'M6 4v8M10 4v8',
  person: 'M8 8a2.6 2.6 0 1 0 0-5.2A2.6 2.6 0 0 0 8 8M3 13.5c.6-2.6 2.5-4 5-4s4.4 1.4 5 4',
  hold: 'M4.5 7.5h7v6h-7zM6 7.5V5.5a2 2 0 1 1 4 0v2',
  bell: 'M4 11.5c1-1 1-2 1-4a3 3 0 0 1 6 0c0 2 0 3 1 4zM7 13.5h2',
  copy: 'M6 6h7v7H6zM3.5 10V3.5H10',
  search: 'M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9M10.5 10.5L14 14',
  info: 'M8 7.5v4M8 4.5v.2M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2',
  offline: 'M3 3l10 10M5 10.5a4 4 0 0 1 4-1.5M2.5 7.5a8 8 0 0 1 3-1.8M13.5 7.5A8 8 0 0 0 8 5.2M8 13v.2',
  back: 'M7 4L3 8l4 4M3 8h10',
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
