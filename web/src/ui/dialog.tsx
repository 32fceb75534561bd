import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

// Dialog shows something above the page until it is closed. The browser keeps the
// focus inside, closes it with Escape and gives the focus back.
export function Dialog({ title, onClose, children, actions }: {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  actions?: ComponentChildren;
}) {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const it = box.current;
    if (it && !it.open) it.showModal();
    return () => it?.close();
  }, []);
  return (
    <dialog
      ref={box}
      class="dialog"
      aria-labelledby="dialog-title"
      onClose={onClose}
      onClick={(e) => {
        if (e.target === box.current) onClose(); // beside the box
      }}
    >
      <div class="dialog-body">
        <h2 id="dialog-title">{title}</h2>
        {children}
        <div class="dialog-actions">
          {actions ?? <button type="button" onClick={onClose}>Close</button>}
        </div>
      </div>
    </dialog>
  );
}
