package view

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
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

// sampleColumn is one column of the CSV file, named as in JSON.
type sampleColumn struct {
	name  string
	value func(*gpu.Sample) string
}

func sampleColumns() []sampleColumn {
	return []sampleColumn{
		{"time", func(s *gpu.Sample) string { return s.Time.Format(time.RFC3339Nano) }},
		{"gpu", func(s *gpu.Sample) string { return s.GPU }},
		{"utilization_percent", func(s *gpu.Sample) string { return csvNumber(s.Utilization) }},
		{"memory_busy_percent", func(s *gpu.Sample) string { return csvNumber(s.MemoryBusy) }},
		{"memory_total_mb", func(s *gpu.Sample) string { return csvNumber(s.MemoryTotal) }},
		{"memory_used_mb", func(s *gpu.Sample) string { return csvNumber(s.MemoryUsed) }},
		{"memory_free_mb", func(s *gpu.Sample) string { return csvNumber(s.MemoryFree) }},
		{"temperature_celsius", func(s *gpu.Sample) string { return csvNumber(s.Temperature) }},
		{"memory_temperature_celsius", func(s *gpu.Sample) string { return csvNumber(s.MemoryTemperature) }},
		{"power_watts", func(s *gpu.Sample) string { return csvNumber(s.Power) }},
		{"clock_sm_mhz", func(s *gpu.Sample) string { return csvNumber(s.ClockSM) }},
		{"clock_memory_mhz", func(s *gpu.Sample) string { return csvNumber(s.ClockMemory) }},
		{"fan_percent", func(s *gpu.Sample) string { return csvNumber(s.Fan) }},
		{"energy_joules", func(s *gpu.Sample) string { return csvNumber(s.Energy) }},
		{"throttle_reasons", func(s *gpu.Sample) string { return csvWords(s.Throttle) }},
		{"processes", func(s *gpu.Sample) string { return csvCount(s.Processes) }},
	}
}

// WriteSamples writes samples as CSV, one line for each. A value that was not measured
// is empty.
func WriteSamples(w io.Writer, samples []gpu.Sample) error {
	columns := sampleColumns()
	line := make([]string, len(columns))
	for i, c := range columns {
		line[i] = c.name
	}
	out := csv.NewWriter(w)
	err := out.Write(line)
	for i := range samples {
		for j, c := range columns {
			line[j] = c.value(&samples[i])
		}
		if err == nil {
			err = out.Write(line)
		}
	}
	out.Flush()
	if err == nil {
		err = out.Error()
	}
	return err
}

func csvNumber[T ~float64 | ~int64](v gpu.Opt[T]) string {
	n, ok := v.Get()
	if !ok {
		return ""
	}
	return strconv.FormatFloat(float64(n), 'f', -1, 64)
}

func csvWords[T ~string](words []T) string {
	var text []string
	for _, w := range words {
		text = append(text, string(w))
	}
	return strings.Join(text, " ")
}

func csvCount(list []gpu.Process) string {
	if list == nil {
		return ""
	}
	return fmt.Sprint(len(list))
}
