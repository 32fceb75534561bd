// Overview is a place of the page that is not built yet.
export function Overview() {
  return (
    <section>
      <h1>Overview</h1>
      <p class="empty">Nothing here yet.</p>
    </section>
  );
}
