package page

import (
	"html"
	"io"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/text/chart"
)

// HTML writes a report with a period as a page. The page has no scripts and loads
// nothing, and its policy forbids both.
func HTML(w io.Writer, r *api.Report) error {
	var b writer
	b.document(newDocument(r))
	_, err := w.Write(b.text)
	return err
}

const style = `*{box-sizing:border-box}
html{color-scheme:light dark}
body{margin:0 auto;padding:1.5rem 1rem 3rem;max-width:60rem;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
h1{font-size:1.7rem;margin:0}
h2{font-size:1.25rem;margin:2.4rem 0 .6rem;padding-top:.6rem;border-top:2px solid var(--rule)}
h3{font-size:1rem;margin:1.4rem 0 .4rem}
p{margin:.4rem 0}
.about,footer{color:var(--soft)}
.remark{border-left:4px solid var(--warm);padding:.4rem .8rem;background:var(--empty);margin:.6rem 0}
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(12rem,1fr));gap:.6rem;margin:1.2rem 0;padding:0}
.figure{border:1px solid var(--rule);border-radius:.4rem;padding:.6rem .8rem}
.figure dt{color:var(--soft);font-size:.85rem}
.figure dd{margin:0;font-size:1.35rem;font-weight:600}
.figure dd+dd{font-size:.8rem;font-weight:400;color:var(--soft)}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.88rem;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:.28rem .6rem .28rem 0;border-bottom:1px solid var(--rule);vertical-align:middle;overflow-wrap:break-word;max-width:18rem}
td:first-child{min-width:4em}
th{color:var(--soft);font-weight:600;overflow-wrap:normal}
.n{text-align:right;white-space:nowrap}
code{font:.9em ui-monospace,monospace;background:var(--empty);padding:.1em .35em;border-radius:.25em}
ul{padding-left:1.2rem}
@media print{body{max-width:none;padding:0;font-size:11px}.figure,table,svg,h3{break-inside:avoid}h2,h3{break-after:avoid}}
`

// writer writes HTML. A template library would look methods up by name at run time, so
// the linker would keep every method of the program, and each command would start more
// slowly.
type writer struct{ text []byte }

// raw writes markup.
func (w *writer) raw(markup ...string) {
	for _, m := range markup {
		w.text = append(w.text, m...)
	}
}

// put writes text between two pieces of markup, or nothing if there is no text.
func (w *writer) put(before, text, after string) {
	if text != "" {
		w.raw(before, html.EscapeString(text), after)
	}
}

func (w *writer) document(d *document) {
	w.raw(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
`)
	w.put("<title>", d.Title, "</title>\n")
	w.raw("<style>", chart.Style, style, "</style>\n</head>\n<body>\n<header>\n")
	w.put("<h1>", d.Title, "</h1>\n")
	w.put(`<p class="about">`, d.About, "</p>\n")
	for _, remark := range d.Remarks {
		w.put(`<p class="remark">`, remark, "</p>\n")
	}
	w.raw("</header>\n<main>\n<dl class=\"figures\">\n")
	for _, f := range d.Figures {
		w.put(`<div class="figure"><dt>`, f.Name, "</dt>")
		w.put("<dd>", f.Value, "</dd>")
		w.put("<dd>", f.Note, "</dd>")
		w.raw("</div>\n")
	}
	w.raw("</dl>\n")
	for i := range d.Sections {
		w.section(&d.Sections[i])
	}
	w.raw(`</main>
<footer><p>Memory times hours (GiB·h): 1 GiB for an hour. A lease counts as idle while the load of all its GPUs is below 1 %, for
at least five minutes by the clock. The numbers are of the measured time only. Leases that lasted less than a minute have no curve of what they used.</p></footer>
</body>
</html>
`)
}

func (w *writer) section(s *section) {
	w.put("<section>\n<h2>", s.Title, "</h2>\n")
	w.put("<p>", s.Text, "</p>\n")
	for i := range s.Blocks {
		b := &s.Blocks[i]
		w.put("<h3>", b.Title, "</h3>\n")
		w.raw(b.Picture)
		if b.Table != nil {
			w.table(b.Table)
		}
		if len(b.List) == 0 {
			continue
		}
		w.raw("<ul>\n")
		for _, a := range b.List {
			w.put("<li>", a.Text, "")
			w.put(" <code>", a.Command, "</code>")
			w.raw("</li>\n")
		}
		w.raw("</ul>\n")
	}
	w.raw("</section>\n")
}

func (w *writer) table(t *table) {
	class := func(c column) string {
		if c.Right {
			return ` class="n"`
		}
		return ""
	}
	w.raw("<div class=\"wide\"><table>\n<thead><tr>")
	for _, c := range t.Columns {
		w.raw(`<th scope="col"`, class(c), ">", html.EscapeString(c.Title), "</th>")
	}
	w.raw("</tr></thead>\n<tbody>\n")
	for _, row := range t.Rows {
		w.raw("<tr>")
		for i, c := range row {
			shown := c.Picture
			if shown == "" {
				shown = html.EscapeString(c.Text)
			}
			w.raw("<td", class(t.Columns[i]), ">", shown, "</td>")
		}
		w.raw("</tr>\n")
	}
	w.raw("</tbody>\n</table></div>\n")
	w.put(`<p class="about">`, t.More, "</p>\n")
}
