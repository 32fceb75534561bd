// PlansPage is a place of the page that is not built yet.
export function PlansPage() {
  return (
    <section>
      <h1>Plans</h1>
      <p class="empty">Nothing here yet.</p>
    </section>
  );
}
