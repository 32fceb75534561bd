package page

import (
	"html/template"
	"io"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/chart"
)

// HTML writes a report with a period as a page. The page has no scripts and asks
// nobody for anything, and its policy forbids both.
func HTML(w io.Writer, r *api.Report) error {
	return layout.Execute(w, struct {
		*document
		Style template.CSS
	}{newDocument(r), template.CSS(chart.Style + style)})
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

var layout = template.Must(template.New("report").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{{.Title}}</title>
<style>{{.Style}}</style>
</head>
<body>
<header>
<h1>{{.Title}}</h1>
<p class="about">{{.About}}</p>
{{range .Remarks}}<p class="remark">{{.}}</p>
{{end}}</header>
<main>
<dl class="figures">
{{range .Figures}}<div class="figure"><dt>{{.Name}}</dt><dd>{{.Value}}</dd>{{with .Note}}<dd>{{.}}</dd>{{end}}</div>
{{end}}</dl>
{{range .Sections}}<section>
<h2>{{.Title}}</h2>
{{with .Text}}<p>{{.}}</p>
{{end}}{{range .Blocks}}<h3>{{.Title}}</h3>
{{.Picture}}{{with .Table}}<div class="wide"><table>
<thead><tr>{{range .Columns}}<th scope="col"{{if .Right}} class="n"{{end}}>{{.Title}}</th>{{end}}</tr></thead>
<tbody>
{{$columns := .Columns}}{{range .Rows}}<tr>{{range $i, $cell := .}}<td{{if (index $columns $i).Right}} class="n"{{end}}>{{with $cell.Picture}}{{.}}{{else}}{{$cell.Text}}{{end}}</td>{{end}}</tr>
{{end}}</tbody>
</table></div>
{{with .More}}<p class="about">{{.}}</p>
{{end}}{{end}}{{with .List}}<ul>
{{range .}}<li>{{.Text}}{{with .Command}} <code>{{.}}</code>{{end}}</li>
{{end}}</ul>
{{end}}{{end}}</section>
{{end}}</main>
<footer><p>Memory times hours (GiB·h): 1 GiB for an hour. A lease counts as idle while the load of all its GPUs is below 1 %. The
numbers are of the measured time only. Leases that lasted less than a minute have no curve of what they used.</p></footer>
</body>
</html>
`))
