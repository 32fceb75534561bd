// Act is something that a person can do: to a lease, a job, a service, a device, an alert.
// It says what it will do before it does it.
export interface Act {
  key: string;
  label: string; // of the button that opens it
  title: string; // of the dialog
  says: string[]; // what it will do, to whom, and what becomes of whose processes
  fields?: Field[];
  preview?: (values: Record<string, string>) => Promise<string[]>; // what the daemon says of it before it is done
  not?: string; // why the caller cannot do it, and what to do; the dialog then says only this
  confirm: string; // of the button that does it
  dismiss?: string; // of the button that does nothing; absent: Cancel
  ends?: boolean; // something ends by it that nobody can bring back
  run: (values: Record<string, string>) => Promise<Outcome>;
}

// Outcome is what came of an act.
export interface Outcome {
  text: string;
  details?: string[];
  bad?: boolean; // it was done, and what it found is not good
  undo?: Act; // takes it back, without a dialog of its own
  secret?: string; // shown once, to be copied
  link?: { href: string; label: string };
}

// Field is something to fill in before an act.
export interface Field {
  name: string;
  label: string;
  value: string;
  kind: 'text' | 'number' | 'choice' | 'lines' | 'check'; // check: yes or empty
  choices?: { value: string; label: string }[];
  unit?: string;
  hint?: string;
  min?: number;
  max?: number;
  step?: number;
  required?: boolean;
  maxLength?: number;
  placeholder?: string;
}

// wrong returns what is wrong with the value of a field; empty: nothing is.
export function wrong(f: Field, value: string): string {
  const text = value.trim();
  if (text === '') return f.required ? `${f.label} is missing.` : '';
  if (f.maxLength !== undefined && text.length > f.maxLength) return `${f.label} has at most ${f.maxLength} characters.`;
  if (f.kind !== 'number') return '';
  const n = Number(text);
  if (!Number.isFinite(n)) return `${f.label} must be a number.`;
  if (f.min !== undefined && n < f.min) return `${f.label} must be ${f.min} or more.`;
  if (f.max !== undefined && n > f.max) return `${f.label} must be ${f.max} or less.`;
  return '';
}
