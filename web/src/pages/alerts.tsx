// AlertsPage is a place of the page that is not built yet.
export function AlertsPage() {
  return (
    <section>
      <h1>Alerts</h1>
      <p class="empty">Nothing here yet.</p>
    </section>
  );
}
