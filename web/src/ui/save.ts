// cell writes a value for a file of comma-separated values. A program that calculates
// takes a text for a formula that begins with one of these signs; names are chosen by
// users, so such a text gets an apostrophe in front.
function cell(value: unknown): string {
  if (value === undefined || value === null) return '';
  if (typeof value !== 'string') return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

// csv writes rows with the same fields as comma-separated values, the names first.
export function csv(rows: readonly Record<string, unknown>[], names: readonly string[]): string {
  return [names.join(','), ...rows.map((row) => names.map((name) => cell(row[name])).join(','))].join('\r\n') + '\r\n';
}

// save gives a text to the browser as a file.
export function save(name: string, type: string, text: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
