package view

import (
	"encoding/json"
	"io"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Export is the file with everything that the daemon knows. Format increases if a
// reader of the old format could misread the new one.
type Export struct {
	Format   int               `json:"format"`
	Exported time.Time         `json:"exported"`
	Status   api.StatusAll     `json:"status"`
	History  []gpu.Sample      `json:"history"`
	Leases   []api.Lease       `json:"leases"`
	Waiting  []api.Waiting     `json:"waiting"`
	Past     []api.PastLease   `json:"past_leases"`
	Measured []api.Measured    `json:"measurements"`
	Batches  []api.Batch       `json:"batches"`
	Config   json.RawMessage   `json:"config"`
	Sources  []api.ConfigField `json:"config_sources"`
	Events   []gpu.Event       `json:"events"`
}

// NewExport returns an empty export.
func NewExport(now time.Time) *Export {
	return &Export{
		Format: 1, Exported: now, History: []gpu.Sample{}, Leases: []api.Lease{}, Waiting: []api.Waiting{}, Past: []api.PastLease{},
		Measured: []api.Measured{}, Batches: []api.Batch{}, Events: []gpu.Event{},
	}
}

// WriteJSON writes the whole export.
func (x *Export) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(x)
}

// WriteCSV writes only the samples.
func (x *Export) WriteCSV(w io.Writer) error { return WriteSamples(w, x.History) }

// Summary counts the content of the file. A file in CSV holds only samples.
func (x *Export) Summary(whole bool) string {
	text := words.Count(len(x.History), "sample") + " of " + words.Count(len(x.Status.GPUs), "GPU")
	if whole {
		text += ", " + words.Count(len(x.Leases), "lease") + " and " + words.Count(len(x.Past), "past lease") + ", " + words.Count(len(x.Events), "event")
	}
	return text
}
