import { pages } from './top';

// Keys of the page: / goes to the filter, ? shows help, g and then a letter goes to a
// page. They do nothing while somebody types or a dialog is open.
export function listenKeys(onHelp: () => void): () => void {
  let going = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const pressed = (e: KeyboardEvent) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented) return;
    const target = e.target as HTMLElement;
    if (e.key === 'Escape' && target.matches('input[type=search]')) {
      target.blur();
      return;
    }
    if (target.matches('input, textarea, select, [contenteditable]') || document.querySelector('dialog[open]')) return;
    if (going) {
      going = false;
      clearTimeout(timer);
      const found = pages.find((p) => p.key === e.key);
      if (found) {
        location.hash = found.href;
        e.preventDefault();
      }
      return;
    }
    switch (e.key) {
      case 'g':
        going = true;
        timer = setTimeout(() => (going = false), 1500);
        break;
      case '?':
        onHelp();
        e.preventDefault();
        break;
      case '/': {
        const filter = document.querySelector<HTMLInputElement>('input[type=search]');
        if (filter === null) return;
        filter.focus();
        filter.select();
        e.preventDefault();
      }
    }
  };
  addEventListener('keydown', pressed);
  return () => removeEventListener('keydown', pressed);
}
