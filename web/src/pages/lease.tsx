// LeasePage is a place of the page that is not built yet.
export function LeasePage(_props: { user: string; id: string }) {
  return (
    <section>
      <h1>Lease</h1>
      <p class="empty">Nothing here yet.</p>
    </section>
  );
}
