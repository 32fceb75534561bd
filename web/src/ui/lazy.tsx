import { signal } from '@preact/signals';
import { Component, type ComponentChildren, type ComponentType } from 'preact';

// lazy returns a component whose program is loaded when it is first shown.
export function lazy<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  const found = signal<ComponentType<P> | undefined>(undefined);
  const failed = signal(false);
  let asked = false;
  const ask = () => {
    asked = true;
    failed.value = false;
    load().then((it) => (found.value = it), () => {
      asked = false;
      failed.value = true;
    });
  };
  return function Lazy(props: P) {
    const Found = found.value;
    if (Found !== undefined) return <Apart><Found {...props} /></Apart>;
    if (failed.value) {
      return (
        <p class="notice tone-warn" role="alert">
          This part of the page could not be loaded: the daemon does not answer, or is another version now.{' '}
          <button type="button" class="plain" onClick={() => location.reload()}>Load the page again</button>
        </p>
      );
    }
    if (!asked) ask();
    return <p class="empty loading-part" role="status">Loading …</p>;
  };
}

// Apart keeps a failure inside of a part of the page, so that the rest of it stays.
class Apart extends Component<{ children: ComponentChildren }, { failed?: string }> {
  override componentDidCatch(err: unknown): void {
    this.setState({ failed: err instanceof Error ? err.message : String(err) });
    console.error(err);
  }

  override render({ children }: { children: ComponentChildren }, { failed }: { failed?: string }) {
    return failed === undefined ? children : <p class="problem" role="alert">This part of the page failed: {failed}. Load the page again, and please report it.</p>;
  }
}
