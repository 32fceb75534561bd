import { Component, type ComponentChildren, type ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';

// Later shows a part of the page that is loaded when it is first opened.
export function Later<P extends object>({ load, props }: { load: () => Promise<ComponentType<P>>; props: P }) {
  const [it, setIt] = useState<{ part?: ComponentType<P>; failed?: boolean }>({});
  useEffect(() => {
    let here = true;
    load().then((part) => here && setIt({ part }), () => here && setIt({ failed: true }));
    return () => { here = false; };
  }, [load]);
  if (it.failed) return <p class="problem" role="alert">This part of the page could not be loaded. Load the page again: the daemon may be of another release now.</p>;
  if (it.part === undefined) return <div class="loading" />;
  const Part = it.part;
  return <Apart><Part {...props} /></Apart>;
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
