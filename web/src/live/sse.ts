// Reader of server-sent events. The browser's own EventSource hands over only events
// whose names are known beforehand, and berth names events by their code.

export interface Message {
  id: string;
  event: string;
  data: string;
}

// Parser takes text in pieces and returns the messages that are complete. A message
// without data only moves lastId.
export class Parser {
  lastId = '';
  private rest = '';

  push(text: string): Message[] {
    let all = this.rest + text;
    const half = all.endsWith('\r'); // perhaps the first half of the end of a line
    if (half) all = all.slice(0, -1);
    const lines = all.split(/\r\n|\n|\r/);
    const found: Message[] = [];
    let block: string[] = [];
    let i = 0;
    for (; i < lines.length - 1; i++) {
      const line = lines[i]!;
      if (line !== '') {
        block.push(line);
        continue;
      }
      const message = this.read(block);
      if (message) found.push(message);
      block = [];
    }
    this.rest = block.concat(lines[i]!).join('\n') + (half ? '\r' : '');
    return found;
  }

  private read(lines: string[]): Message | undefined {
    let event = 'message';
    const data: string[] = [];
    for (const line of lines) {
      const colon = line.indexOf(':');
      if (colon === 0) continue; // a comment
      const name = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
      if (name === 'id') this.lastId = value;
      else if (name === 'event') event = value;
      else if (name === 'data') data.push(value);
    }
    return data.length === 0 ? undefined : { id: this.lastId, event, data: data.join('\n') };
  }
}

// follow reads a stream until it ends or breaks. onText is called for every piece
// that arrives, so that a silent stream can be told from a dead one.
export async function follow(
  address: string,
  signal: AbortSignal,
  onMessages: (messages: Message[], lastId: string) => void,
  onOpen: () => void,
): Promise<{ status: number; body: string }> {
  const answer = await fetch(address, { headers: { Accept: 'text/event-stream' }, cache: 'no-store', credentials: 'same-origin', signal });
  if (!answer.ok || answer.body === null) return { status: answer.status, body: await answer.text() };
  onOpen();
  const parser = new Parser();
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return { status: answer.status, body: '' };
    onMessages(parser.push(value), parser.lastId);
  }
}
