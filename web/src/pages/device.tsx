// DevicePage is a place of the page that is not built yet.
export function DevicePage(_props: { uuid: string }) {
  return (
    <section>
      <h1>Device</h1>
      <p class="empty">Nothing here yet.</p>
    </section>
  );
}
