package outcome

import (
	"bytes"
	"encoding/csv"

	"github.com/berth-gpu/berth/internal/batch/rawjson"
)

// table writes outcomes as CSV. The header comes before the first row, when the fields of
// later outcomes are not known, so there is a column for the rest: nothing that a worker
// returns is lost.
type table struct {
	columns []string
	place   map[string]int
	cells   []string
}

// moreKey is the column for fields that have no column of their own.
const moreKey = "_more"

// settle sets the columns; nil leaves them open.
func (t *table) settle(columns []string) {
	if columns == nil {
		return
	}
	t.columns = columns
	t.place = map[string]int{}
	for i, c := range columns {
		t.place[c] = i
	}
	t.cells = make([]string, len(columns)+2)
}

func (t *table) settled() bool { return t.columns != nil }

func (t *table) header(to *bytes.Buffer) {
	if !t.settled() {
		return
	}
	copy(t.cells, t.columns)
	t.cells[len(t.columns)], t.cells[len(t.columns)+1] = moreKey, ErrorKey
	t.write(to)
}

func (t *table) row(to *bytes.Buffer, data []byte) {
	clear(t.cells)
	more, failure := &t.cells[len(t.columns)], &t.cells[len(t.columns)+1]
	if !rawjson.IsObject(data) {
		*more = string(data)
		t.write(to)
		return
	}
	rest := []byte{'{'}
	for key, value := range rawjson.Fields(data) {
		name := rawjson.Text(key)
		if at, ok := t.place[name]; ok {
			t.cells[at] = cell(value)
		} else if name == ErrorKey {
			*failure = cell(value)
		} else {
			rest = appendField(rest, key, value)
		}
	}
	if len(rest) > 1 {
		*more = string(append(rest, '}'))
	}
	t.write(to)
}

// write writes a row. It cannot fail, because a buffer takes everything.
func (t *table) write(to *bytes.Buffer) {
	w := csv.NewWriter(to)
	_ = w.Write(t.cells)
	w.Flush()
}

// cell returns a value as text: a string without quotes, null as "", and
// everything else as JSON.
func cell(value []byte) string {
	if string(value) == "null" {
		return ""
	}
	return rawjson.Text(value)
}

// columnsOf returns the fields of the first outcome that did not fail, or of
// the first one if all failed.
func columnsOf(group []Outcome) []string {
	from := group[0]
	for _, o := range group {
		if !o.Failed {
			from = o
			break
		}
	}
	columns := []string{}
	seen := map[string]bool{ErrorKey: true, moreKey: true}
	for key := range rawjson.Fields(from.Data) {
		if name := rawjson.Text(key); !seen[name] {
			seen[name] = true
			columns = append(columns, name)
		}
	}
	return columns
}
