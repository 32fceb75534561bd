// Act is something that a person can do to a lease, a device or an alert. It says
// what it will do before it does it.
export interface Act {
  key: string;
  label: string; // of the button that opens it
  title: string; // of the dialog
  says: string[]; // what it will do, to whom, and what becomes of whose processes
  fields?: Field[];
  confirm: string; // of the button that does it
  ends?: boolean; // something ends by it that nobody can bring back
  run: (values: Record<string, string>) => Promise<Outcome>;
}

// Outcome is what came of an act.
export interface Outcome {
  text: string;
  details?: string[];
  bad?: boolean; // it was done, and what it found is not good
}

// Field is something to fill in before an act.
export interface Field {
  name: string;
  label: string;
  value: string;
  kind: 'text' | 'number' | 'choice';
  choices?: { value: string; label: string }[];
  unit?: string;
  hint?: string;
  min?: number;
  max?: number;
  step?: number;
  required?: boolean;
  maxLength?: number;
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
