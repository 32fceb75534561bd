// BatchesPage is a place of the page that is not built yet.
export function BatchesPage() {
  return (
    <section>
      <h1>Batches</h1>
      <p class="empty">Nothing here yet.</p>
    </section>
  );
}
