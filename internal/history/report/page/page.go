// Package page writes a report as a page of HTML that needs nothing else, and as
// Markdown for a mail: tables, and pictures as SVG or as text.
//
// Pure: no clock, no I/O.
package page

import (
	"fmt"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// document is a report for people, in the order of its sections.
type document struct {
	Title, About string
	Remarks      []string
	Figures      []figure
	Sections     []section
}

// figure is a number at the top of a report.
type figure struct{ Name, Value, Note string }

type section struct {
	Title  string
	Text   string
	Blocks []block
}

// block is a picture, a table or a list. The other fields are empty.
type block struct {
	Title   string
	Picture string   // SVG
	Text    []string // the picture as text
	Table   *table
	List    []api.Advice
}

type table struct {
	Columns []column
	Rows    [][]cell
	More    string // says what is not listed
}

type column struct {
	Title string
	Right bool
}

type cell struct {
	Text    string
	Picture string // markup instead of the text
}

// text returns a cell. Names are untrusted, so it replaces what a screen would act on.
func text(s string) cell { return cell{Text: term.Clean(s)} }

// newDocument arranges a report, which must have a period.
func newDocument(r *api.Report) *document {
	b := builder{Report: r, p: r.Period}
	d := &document{
		Title: "GPU report", About: b.about(), Figures: b.figures(),
	}
	for _, remark := range b.p.Remarks {
		d.Remarks = append(d.Remarks, term.Clean(remark))
	}
	for _, make := range []func() section{b.use, b.holders, b.waste, b.waiting, b.throttling, b.faults, b.energy} {
		if s := make(); len(s.Blocks) > 0 || s.Text != "" {
			d.Sections = append(d.Sections, s)
		}
	}
	return d
}

// builder makes the parts of a document.
type builder struct {
	*api.Report
	p *api.PeriodReport
}

func (b *builder) about() string {
	const format = "2 January 2006, 15:04"
	return fmt.Sprintf("%s to %s (%s), of which %s (%s) was measured. Written %s.", b.p.From.Format(format), b.p.Until.Format(format),
		words.Age(b.p.Until.Sub(b.p.From)), hours(b.p.Covered), percent(b.p.Covered, b.p.Until.Sub(b.p.From).Seconds()), b.Time.Format(format))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// label returns the name of a device for people.
func (b *builder) label(uuid string) string {
	for _, d := range b.p.GPUs {
		if d.GPU == uuid {
			return deviceLabel(&d)
		}
	}
	return uuid
}

func deviceLabel(d *api.DevicePeriod) string {
	if index, known := d.Index.Get(); known {
		return fmt.Sprintf("GPU %d", index)
	}
	return d.GPU
}
