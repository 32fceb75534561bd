// EventsPage is a place of the page that is not built yet.
export function EventsPage() {
  return (
    <section>
      <h1>Events</h1>
      <p class="empty">Nothing here yet.</p>
    </section>
  );
}
