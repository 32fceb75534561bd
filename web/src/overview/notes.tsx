import type { Status } from '../api/types';
import { useStable } from '../live/hooks';
import { device } from '../live/state';
import { Badge, type Tone } from '../ui/badge';
import { percent } from '../ui/format';

export interface Note {
  tone: Tone | 'plain';
  text: string;
  title?: string;
}

// slotsSay explains the slots of a device.
export function slotsSay({ active, capacity, usable }: Status['slots']): string {
  const fewer = usable < capacity ? ` It has ${capacity} in a better state.` : '';
  return `Slots: ${active} of ${usable} are taken. A slot is the right to run one pipeline on this GPU; a lease has one unless it asks for another number.${fewer}`;
}

// notesOn says in a few words what else there is about a device, besides its state.
export function notesOn(s: Status): Note[] {
  const notes: Note[] = [];
  const { active, capacity, usable } = s.slots;
  notes.push({
    tone: 'plain',
    text: `${active} of ${capacity} ${capacity === 1 ? 'slot' : 'slots'}`,
    title: slotsSay(s.slots),
  });
  if (usable < capacity) notes.push({ tone: 'warn', text: `${usable} usable`, title: 'By the state of the device, and by how far berth trusts it' });
  notes.push(s.health === 'healthy' ? { tone: 'plain', text: 'healthy' } : s.health === 'unhealthy' ? { tone: 'bad', text: 'unhealthy' } : { tone: 'off', text: 'health unknown' });
  if (s.trust?.phase) notes.push({ tone: s.trust.phase === 'quarantine' ? 'bad' : 'warn', text: s.trust.phase, title: s.trust.why });
  if (s.drain) notes.push({ tone: 'info', text: 'draining', title: [s.drain.reason, s.drain.by && `by ${s.drain.by}`].filter(Boolean).join(', ') });
  if (s.multiplier < 1 && s.state !== 'UNAVAILABLE') {
    notes.push({ tone: 'warn', text: `${percent(s.multiplier * 100)} speed`, title: s.slower ?? s.reason });
  }
  if (s.throttling?.paced_leases) notes.push({ tone: 'warn', text: `${s.throttling.paced_leases} held back` });
  if (s.stale && s.state !== 'UNAVAILABLE') notes.push({ tone: 'warn', text: 'old sample' });
  const soon = s.outlook?.thresholds.find((t) => t.threshold !== 'temp_normal' && t.seconds !== undefined && t.seconds > 0 && t.seconds < 900);
  if (soon) notes.push({ tone: 'warn', text: `${soon.threshold} ${soon.text}`, title: 'At the present power' });
  return notes;
}

export function Notes({ uuid }: { uuid: string }) {
  const notes = useStable(() => {
    const s = device(uuid).value;
    return s === undefined ? [] : notesOn(s);
  });
  return (
    <p class="notes">
      {notes.map((n) => (n.tone === 'plain' ? <span key={n.text} title={n.title}>{n.text}</span> : <Badge key={n.text} tone={n.tone} title={n.title}>{n.text}</Badge>))}
    </p>
  );
}
