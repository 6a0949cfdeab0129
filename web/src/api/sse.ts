// Server-sent events out of a stream of text (WHATWG HTML, 9.2.6). EventSource is not used: it hides the status of a
// refused request and knows events only by names that are listed beforehand.

export interface SseEvent {
  /** '' when the event has none. */
  id: string;
  name: string;
  data: string;
}

/** The longest line and the longest event that are accepted, in characters. */
const LIMIT = 4 << 20;

export class SseParser {
  private rest = '';
  private data: string[] = [];
  private size = 0;
  private id = '';
  private name = '';

  /** Takes what has arrived and gives the events that are whole. Throws when one is too long. */
  take(text: string): SseEvent[] {
    const found: SseEvent[] = [];
    this.rest += text;
    let from = 0;
    for (;;) {
      const end = this.rest.indexOf('\n', from);
      if (end < 0) break;
      this.line(this.rest.slice(from, this.rest[end - 1] === '\r' && end > from ? end - 1 : end), found);
      from = end + 1;
    }
    this.rest = this.rest.slice(from);
    if (this.rest.length > LIMIT) throw new Error('an event is too long');
    return found;
  }

  private line(line: string, found: SseEvent[]): void {
    if (line === '') {
      if (this.data.length) found.push({ id: this.id, name: this.name || 'message', data: this.data.join('\n') });
      this.data = [];
      this.size = 0;
      this.id = this.name = '';
      return;
    }
    const colon = line.indexOf(':');
    if (colon === 0) return; // a comment: the heartbeat
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
    if (field === 'data') {
      this.size += value.length;
      if (this.size > LIMIT) throw new Error('an event is too long');
      this.data.push(value);
    } else if (field === 'id') this.id = value;
    else if (field === 'event') this.name = value;
  }
}
