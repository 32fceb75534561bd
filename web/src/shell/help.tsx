import { Dialog } from '../ui/dialog';
import { pages } from './top';

export function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keyboard" onClose={onClose}>
      <dl class="keys">
        <dt><kbd>j</kbd> <kbd>k</kbd></dt><dd>go down and up a list; <kbd>Enter</kbd> opens a row</dd>
        <dt><kbd>/</kbd></dt><dd>filter what the page lists</dd>
        {pages.map((p) => [<dt key={`${p.key}k`}><kbd>g</kbd> <kbd>{p.key}</kbd></dt>, <dd key={`${p.key}t`}>go to {p.name}</dd>])}
        <dt><kbd>Tab</kbd></dt><dd>go to the next link or button; <kbd>Enter</kbd> opens it</dd>
        <dt><kbd>Esc</kbd></dt><dd>close a dialog, leave a filter</dd>
        <dt><kbd>?</kbd></dt><dd>show this</dd>
      </dl>
      <p>Everything else is in <a href="help">the manual</a>; <code>berth help</code> shows the same pages in a terminal.</p>
    </Dialog>
  );
}
