// What the page remembers between visits, in the browser. A browser that allows none
// forgets it.

export function kept(name: string): string {
  try {
    return localStorage.getItem(`berth.${name}`) ?? '';
  } catch {
    return '';
  }
}

export function keep(name: string, value: string): void {
  try {
    localStorage.setItem(`berth.${name}`, value);
  } catch {
    // It holds for this visit.
  }
}
